"""Restore a VM from its journal: its definition, its placement on CPUs, and whether it runs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from vnetbench.errors import BenchError
from vnetbench.lab.domains.journal import DomainRecord, journal_path
from vnetbench.lab.libvirt import definition as definitions
from vnetbench.lab.libvirt import domains
from vnetbench.lab.libvirt.hardware import find_adapter, read_hardware
from vnetbench.libvirt_connection import format_error, import_libvirt, is_missing_domain, open_connection

DOMAIN_KEY, PINNING_KEY = "domain", "pinning"
"""Settings in the journal: the domain (`original_domain`), and the CPUs of its threads."""


def original_domain(domain: Any, mac: str) -> dict[str, Any]:
    """Return what the journal keeps of a domain: everything that `restore_domain` needs, and no password."""
    return {
        "definition": domains.read_definition(domain, has_passwords=False),
        "adapter_mac": mac,
        # None: the VM is shut down.
        "running_hardware": read_running_hardware(domain, mac) if domain.isActive() else None,
    }


def read_running_hardware(domain: Any, mac: str) -> dict[str, str]:
    """Return the hardware of an adapter of a running domain, as it runs."""
    return read_hardware(find_adapter(str(domain.XMLDesc(0)), mac, domain.name()))


def restore_domain(record: DomainRecord) -> None:
    """Restore what a record holds. A VM that no longer exists needs nothing.

    Raises:
        BenchError: libvirt refuses a step, or the VM does not shut down.
    """
    with closing(open_connection(record.connection, read_only=False)) as connection:
        libvirt = import_libvirt(record.connection)
        with domains.errors_of_domain(str(record)):
            try:
                domain = connection.lookupByUUIDString(record.identity)
            except libvirt.libvirtError as error:
                if is_missing_domain(error):
                    return
                raise
            # Someone may have removed the definition of the running VM; then nothing may define it again.
            if domain.isPersistent():
                _restore(domain, record)


def _restore(domain: Any, record: DomainRecord) -> None:
    if pinning := record.originals.get(PINNING_KEY):
        _restore_pinning(domain, pinning)
    if (original := record.originals.get(DOMAIN_KEY)) is None:
        return
    mac, running_hardware = original["adapter_mac"], original["running_hardware"]
    _restore_definition(domain, original["definition"], mac, journal_path(record))
    if domain.isActive() and read_running_hardware(domain, mac) != running_hardware:
        domains.shut_down(domain, record.domain)
    if running_hardware is not None and not domain.isActive():
        domain.create()


def _restore_definition(domain: Any, original: str, mac: str, journal: Path) -> None:
    """Define the original, or only its adapter if someone has changed other parts meanwhile."""
    now = domains.read_definition(domain, has_passwords=False)
    if definitions.are_equal(now, original):
        return
    with_passwords = domains.read_definition(domain, has_passwords=True)
    if not definitions.differ_only_in_adapter(now, original, mac):
        _restore_adapter_only(domain, with_passwords, original, mac, journal)
        return
    domains.define(domain, definitions.add_passwords(original, now, with_passwords))
    restored = domains.read_definition(domain, has_passwords=False)
    if not definitions.are_equal(restored, original):
        raise BenchError(
            "the VM's definition is not the original one after it was restored",
            where=domain.name(),
            fix=f"compare it (virsh dumpxml --inactive) with the one in the journal {journal}, repair it"
            " (virsh edit), and delete the journal",
        )


def _restore_adapter_only(domain: Any, with_passwords: str, original: str, mac: str, journal: Path) -> None:
    libvirt = import_libvirt("")
    adapter = find_adapter(original, mac, domain.name())
    rest = definitions.remove_added_pci_controllers(with_passwords, original)
    text = ElementTree.tostring(adapter, encoding="unicode").strip()
    try:
        domains.define(domain, definitions.replace_adapter(rest, mac, text))
    except libvirt.libvirtError as error:
        raise BenchError(
            "someone changed the VM's definition during the campaign, and the original adapter no longer"
            f" fits: {format_error(error)}",
            where=domain.name(),
            fix=f"restore the adapter {mac} by hand (virsh edit) from the journal {journal}, and delete it",
        ) from None


def _restore_pinning(domain: Any, pinning: dict[str, Any]) -> None:
    """Restore the CPUs of a domain, unless it has been restarted: a start takes them from its definition."""
    if domain.isActive() and domain.ID() == pinning["id"]:
        domains.pin(domain, [frozenset(cpus) for cpus in pinning["vcpus"]], frozenset(pinning["emulator"]))
