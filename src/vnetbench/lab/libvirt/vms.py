"""The VMs of a study: change their hardware, pin their threads, and restore them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from xml.etree import ElementTree

from vnetbench import cleanup
from vnetbench.errors import BenchError
from vnetbench.lab.domains import journal
from vnetbench.lab.domains.journal import DomainJournal
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest import cpu_pinning
from vnetbench.lab.guest.cpu_pinning import GuestThreads
from vnetbench.lab.libvirt import definition as definitions
from vnetbench.lab.libvirt import domains, restore
from vnetbench.lab.libvirt.hardware import (
    VmHardware,
    find_adapter,
    read_hardware,
    read_mac,
    request_hardware,
)
from vnetbench.libvirt_connection import format_error, import_libvirt, is_missing_domain, open_connection
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.guest_factors import EMULATOR_PIN, VCPU_PIN
from vnetbench.study.labs import LIBVIRT
from vnetbench.study.model import ExistingEndpointSpec, Level


class ChangedVm:
    """One VM of a study, with its journal."""

    def __init__(self, spec: ExistingEndpointSpec, domain: Any, mac: str, kept: DomainJournal) -> None:
        self.spec = spec
        self.domain = domain
        self.mac = mac
        """MAC address of the adapter that changes."""
        self._journal = kept
        self._was_started = False

    def change(self, hardware: VmHardware) -> bool:
        """Give the VM this hardware, start it, and return whether its guest is booting.

        Raises:
            TreatmentRefused: the VM cannot have such hardware.
            BenchError: libvirt refuses another step, or a restart would lose settings of the VM.
        """
        with domains.errors_of_domain(self.spec.name):
            self._journal.record_original(restore.DOMAIN_KEY, restore.original_domain(self.domain, self.mac))
            definition = self._make_definition(hardware)
            requested = read_hardware(find_adapter(definition, self.mac, self.spec.name))
            must_start = not self.domain.isActive() or self.read_hardware() != requested
            if must_start and not self._was_started:
                # What the bench itself has started has no settings of others to lose.
                domains.check_can_restart(self.domain, self.spec.name)
            if domains.read_definition(self.domain, has_passwords=True) != definition:
                with _refuse_hardware(hardware, self.spec.name):
                    domains.define(self.domain, definition)
            if must_start:
                if self.domain.isActive():
                    domains.shut_down(self.domain, self.spec.name)
                with _refuse_hardware(hardware, self.spec.name):
                    self.domain.create()
                self._was_started = True
            if (found := self.read_hardware()) != requested:
                raise TreatmentRefused(
                    f"the VM runs with other hardware than requested: {found}",
                    where=self.spec.name,
                    fix="compare its definition with virsh dumpxml",
                )
        return must_start

    def _make_definition(self, hardware: VmHardware) -> str:
        """Return the original definition with this hardware and the present passwords."""
        original = self._journal.record.originals[restore.DOMAIN_KEY]["definition"]
        now = domains.read_definition(self.domain, has_passwords=False)
        if not definitions.differ_only_in_adapter(now, original, self.mac):
            raise BenchError(
                "someone changed the VM's definition during the campaign",
                where=self.spec.name,
                fix="start the campaign again when nobody changes the VM",
            )
        with_passwords = definitions.add_passwords(
            original, now, domains.read_definition(self.domain, has_passwords=True)
        )
        if hardware == VmHardware():
            return with_passwords
        adapter = find_adapter(original, self.mac, self.spec.name)
        is_kvm = ElementTree.fromstring(original).get("type") == "kvm"
        request_hardware(adapter, hardware, self.spec.name, is_kvm=is_kvm)
        text = ElementTree.tostring(adapter, encoding="unicode").strip()
        return definitions.replace_adapter(with_passwords, self.mac, text)

    def read_hardware(self) -> dict[str, str]:
        """Return the hardware of the adapter of the running VM."""
        return restore.read_running_hardware(self.domain, self.mac)

    def pin(
        self, vcpu_cpus: Sequence[frozenset[int]], emulator_cpus: frozenset[int]
    ) -> tuple[list[str], str]:
        """Pin the VM's threads and return the CPU lists that were read back: of each vCPU, and of QEMU."""
        with domains.errors_of_domain(self.spec.name):
            vcpus, emulator = domains.read_pinning(self.domain)
            self._journal.record_original(
                restore.PINNING_KEY,
                {
                    "id": self.domain.ID(),
                    "vcpus": [sorted(each) for each in vcpus],
                    "emulator": sorted(emulator),
                },
            )
            domains.pin(self.domain, vcpu_cpus, emulator_cpus)
            vcpus, emulator = domains.read_pinning(self.domain)
        return [format_cpu_list(each) for each in vcpus], format_cpu_list(emulator)

    def threads(self, endpoint: Endpoint) -> GuestThreads:
        """Return the vCPUs of the VM by number."""
        vcpus = tuple(range(self.domain.maxVcpus()))
        return GuestThreads(self.spec.name, endpoint.side, vcpus, 0, (), ())

    def restore(self) -> None:
        """Restore the VM; raises BenchError. Then the journal stays."""
        restore.restore_domain(self._journal.record)
        self._journal.delete()


class ChangedVms:
    """All VMs of a study. Restore them after use."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._connection = open_connection(uri, read_only=False)
        self._vms: dict[str, ChangedVm] = {}

    def add(self, hosts: Iterable[ExistingEndpointSpec], testbed_name: str, purpose: str) -> None:
        """Start the journals of the VMs of these hosts; what an earlier campaign left is restored first.

        Raises:
            BenchError: there is no such VM or adapter, or another campaign uses a VM.
        """
        for spec in hosts:
            if spec.domain:
                domain = domains.find_domain(self._connection, spec.domain)
                mac = find_adapter_mac(domain, spec)
                record = journal.new_record(
                    LIBVIRT, self._uri, spec.domain, domain.UUIDString(), testbed_name, purpose
                )
                kept = journal.open_journal(record, restore.restore_domain)
                self._vms[spec.name] = ChangedVm(spec, domain, mac, kept)

    def change(self, hardware: VmHardware) -> bool:
        """Give the VMs this hardware and start them, all at the same time.

        Returns:
            Whether a guest is booting.

        Raises:
            BenchError: a VM cannot have the hardware, or libvirt refuses a step.
        """
        booting: list[bool] = []
        self._run_for_all(lambda vm: booting.append(vm.change(hardware)))
        return any(booting)

    @property
    def adapter_macs(self) -> dict[str, str]:
        """The MAC addresses of the adapters that change, by host."""
        return {name: vm.mac for name, vm in self._vms.items()}

    def pin(self, endpoints: Sequence[Endpoint], factors: Mapping[str, Level]) -> dict[str, object]:
        """Pin the threads of all VMs and return what was read back, by factor and host.

        Raises:
            TreatmentRefused: libvirt set other CPUs.
            BenchError: the hypervisor's machine lacks a CPU.
        """
        if not (VCPU_PIN.is_present_in(factors) or EMULATOR_PIN.is_present_in(factors)):
            return {}
        levels = cpu_pinning.pinning_levels(factors)
        online = domains.host_cpus(self._connection)
        threads = [self._vms[end.name].threads(end) for end in endpoints if end.name in self._vms]
        vcpus = cpu_pinning.assign_vcpu_cpus(levels.vcpu, threads, online)
        emulators = cpu_pinning.assign_emulator_cpus(levels.emulator, vcpus, online)
        found: dict[str, dict[str, object]] = {VCPU_PIN.name: {}, EMULATOR_PIN.name: {}}
        for name, vm in self._vms.items():
            vcpu_lists, emulator_list = vm.pin(vcpus[name], emulators[name])
            found[VCPU_PIN.name][name], found[EMULATOR_PIN.name][name] = vcpu_lists, emulator_list
            if vcpu_lists != [format_cpu_list(cpus) for cpus in vcpus[name]]:
                raise TreatmentRefused(
                    f"libvirt placed the vCPUs on CPUs {'; '.join(vcpu_lists)}",
                    where=name,
                    fix="check the VM's cputune and the CPUs that its host allows",
                    factor=VCPU_PIN.name,
                )
        return {factor: values for factor, values in found.items() if factor in factors}

    def read_hardware(self) -> dict[str, dict[str, str]]:
        """Return the hardware of the adapters of the running VMs by host."""
        found = {}
        for name, vm in self._vms.items():
            with domains.errors_of_domain(name):
                found[name] = vm.read_hardware()
        return found

    def describe(self) -> dict[str, object]:
        """Return the VMs and their hardware for the results file."""
        hardware = self.read_hardware()
        return {name: {"domain": vm.spec.domain, "adapter": hardware[name]} for name, vm in self._vms.items()}

    def restore(self) -> None:
        """Restore all VMs and close the connection; raises the first error."""
        try:
            self._run_for_all(lambda vm: vm.restore())
        finally:
            self._vms.clear()
            self._connection.close()

    def _run_for_all(self, step: Any) -> None:
        """Run a step for all VMs at the same time; raise the first error when all have ended."""
        with ThreadPoolExecutor(len(self._vms) or 1) as pool:
            running = [pool.submit(partial(step, vm)) for vm in self._vms.values()]
        cleanup.run_all_despite_errors([each.result for each in running])


def find_adapter_mac(domain: Any, spec: ExistingEndpointSpec) -> str:
    """Return the MAC address of the adapter that a study changes; raises BenchError if there is none."""
    with domains.errors_of_domain(spec.name):
        definition = domains.read_definition(domain, has_passwords=False)
    return read_mac(find_adapter(definition, spec.adapter_mac or "", spec.name))


@contextmanager
def _refuse_hardware(hardware: VmHardware, where: str) -> Iterator[None]:
    """Raise TreatmentRefused for errors of libvirt."""
    libvirt = import_libvirt(where)
    try:
        yield
    except libvirt.libvirtError as error:
        if is_missing_domain(error):
            raise
        raise TreatmentRefused(
            f"the VM cannot have {hardware}: {format_error(error)}",
            where=where,
            fix="remove this level from the study, or add what it needs to the hypervisor",
        ) from None
