"""Domains of libvirt: find, define, start, shut down and pin them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.libvirt.live_settings import list_live_only_settings
from vnetbench.libvirt_connection import format_error, import_libvirt, is_missing_domain

SHUTDOWN_TIME_LIMIT_S = 180.0
"""Time limit for a guest to shut down after the request."""
SHUTDOWN_REQUEST_INTERVAL_S = 10.0
"""Time after which the guest gets the request again: one that is booting ignores the request."""
_POLL_INTERVAL_S = 0.1


@contextmanager
def errors_of_domain(where: str) -> Iterator[None]:
    """Raise BenchError for errors of libvirt."""
    libvirt = import_libvirt(where)
    try:
        yield
    except libvirt.libvirtError as error:
        if is_missing_domain(error):
            raise BenchError(
                "there is no such VM",
                where=where,
                fix="check its name (virsh list --all) and the study's connection",
            ) from None
        raise BenchError(
            f"libvirt refuses: {format_error(error)}",
            where=where,
            fix="try the same with virsh, and look into the VM's log (/var/log/libvirt/qemu)",
        ) from None


def find_domain(connection: Any, name: str) -> Any:
    """Return a domain with a definition, which libvirt keeps while the domain is shut down.

    Raises:
        BenchError: there is no such domain, or it would vanish.
    """
    with errors_of_domain(name):
        domain = connection.lookupByName(name)
        if not domain.isPersistent():
            raise BenchError(
                "the VM is transient, so it would vanish when it is shut down",
                where=name,
                fix="define it: virsh dumpxml NAME > vm.xml, then virsh define vm.xml",
            )
    return domain


def read_definition(domain: Any, *, has_passwords: bool) -> str:
    """Return the definition that the next start uses. Passwords of displays are hidden unless requested."""
    libvirt = import_libvirt("")
    flags = libvirt.VIR_DOMAIN_XML_INACTIVE | (libvirt.VIR_DOMAIN_XML_SECURE if has_passwords else 0)
    return str(domain.XMLDesc(flags))


def define(domain: Any, definition: str) -> None:
    """Replace a domain's definition. A running domain gets it with the next start."""
    domain.connect().defineXML(definition)


def check_can_restart(domain: Any, where: str) -> None:
    """Check that a restart of a domain loses nothing.

    Raises:
        BenchError: the domain has a state or settings that a restart would lose.
    """
    libvirt = import_libvirt(where)
    if domain.hasManagedSaveImage():
        raise BenchError(
            "the VM has a saved state, which would be lost",
            where=where,
            fix="resume it (virsh start) and shut it down first",
        )
    state, _reason = domain.state()
    if state not in (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED, libvirt.VIR_DOMAIN_SHUTOFF):
        raise BenchError(
            "the VM is neither running nor shut down",
            where=where,
            fix="resume it (virsh resume), or shut it down first",
        )
    if domain.isActive():
        definition = read_definition(domain, has_passwords=False)
        if lost := list_live_only_settings(str(domain.XMLDesc(0)), definition):
            raise BenchError(
                f"a restart would lose settings that only the running VM has: {', '.join(lost)}",
                where=where,
                fix="add them to its definition (virsh edit), or shut the VM down first",
            )


def shut_down(domain: Any, where: str) -> None:
    """Ask a running guest to shut down, and wait until it has.

    Raises:
        BenchError: it does not shut down. The bench never cuts a VM's power.
    """
    libvirt = import_libvirt(where)
    deadline = time.monotonic() + SHUTDOWN_TIME_LIMIT_S
    next_request = 0.0
    while domain.isActive():
        now = time.monotonic()
        if now > deadline:
            raise BenchError(
                f"the VM did not shut down within {SHUTDOWN_TIME_LIMIT_S:g} s",
                where=where,
                fix="install qemu-guest-agent in the guest, or let it react to the power button; then check"
                " that virsh shutdown works",
            )
        if now >= next_request:
            next_request = now + SHUTDOWN_REQUEST_INTERVAL_S
            try:
                domain.shutdown()
            except libvirt.libvirtError:
                if domain.isActive():  # Otherwise it has shut down meanwhile.
                    raise
        time.sleep(_POLL_INTERVAL_S)


def pin(domain: Any, vcpu_cpus: Sequence[frozenset[int]], emulator_cpus: frozenset[int] | None) -> None:
    """Pin the threads of a running domain to CPUs of its host, until it is shut down."""
    libvirt = import_libvirt("")
    count = len(domain.emulatorPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE))
    for vcpu, cpus in enumerate(vcpu_cpus):
        domain.pinVcpuFlags(vcpu, _cpu_map(cpus, count), libvirt.VIR_DOMAIN_AFFECT_LIVE)
    if emulator_cpus is not None:
        domain.pinEmulator(_cpu_map(emulator_cpus, count), libvirt.VIR_DOMAIN_AFFECT_LIVE)


def read_pinning(domain: Any) -> tuple[list[frozenset[int]], frozenset[int]]:
    """Return the host's CPUs of each vCPU, and those of QEMU's own threads, of a running domain."""
    libvirt = import_libvirt("")
    vcpus = domain.vcpuPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE)
    emulator = domain.emulatorPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE)
    return [_cpus_of_map(each) for each in vcpus], _cpus_of_map(emulator)


def host_cpus(connection: Any) -> frozenset[int]:
    """Return the online CPUs of the hypervisor's machine."""
    _, online, _ = connection.getCPUMap()
    return _cpus_of_map(online)


def _cpu_map(cpus: frozenset[int], count: int) -> tuple[bool, ...]:
    return tuple(cpu in cpus for cpu in range(count))


def _cpus_of_map(cpu_map: Sequence[bool]) -> frozenset[int]:
    return frozenset(cpu for cpu, is_set in enumerate(cpu_map) if is_set)
