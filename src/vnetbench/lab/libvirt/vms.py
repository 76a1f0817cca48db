"""The VMs of a study: change their hardware, pin their threads, and restore them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from xml.etree import ElementTree

from vnetbench import cleanup
from vnetbench.lab.domains import journal
from vnetbench.lab.domains.journal import DomainJournal
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest import cpu_pinning
from vnetbench.lab.guest.cpu_pinning import GuestThreads
from vnetbench.lab.libvirt import domains, restore
from vnetbench.lab.libvirt.hardware import VmHardware, find_adapter, read_hardware, request_hardware
from vnetbench.libvirt_connection import open_connection
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.guest_factors import EMULATOR_PIN, VCPU_PIN
from vnetbench.study.labs import LIBVIRT
from vnetbench.study.model import ExistingEndpointSpec, Level


class ChangedVm:
    """One VM of a study, with its journal."""

    def __init__(self, spec: ExistingEndpointSpec, domain: Any, kept: DomainJournal) -> None:
        self.spec = spec
        self.domain = domain
        self._journal = kept
        self.was_started = False
        """Whether the bench has started it, so that its guest needs time until it answers."""

    def change(self, hardware: VmHardware) -> None:
        """Give the VM this hardware, and start it.

        Raises:
            TreatmentRefused: libvirt has no such hardware, or the VM does not have it when it runs.
            BenchError: libvirt refuses a step.
        """
        where = self.spec.name
        with domains.errors_of_domain(where):
            definition = domains.read_definition(self.domain)
            adapter = find_adapter(definition, self.spec.adapter_mac or "", where)
            mac = self.spec.adapter_mac or ""
            before = read_hardware(adapter)
            is_active = self.domain.isActive()
            self._journal.record_original(restore.RUNNING_KEY, self._read_running(mac) if is_active else None)
            self._journal.record_original(
                restore.ADAPTER_KEY, ElementTree.tostring(adapter, encoding="unicode")
            )
            request_hardware(adapter, hardware, where)
            wanted = read_hardware(adapter)
            if wanted != before:
                domains.define(self.domain, definition)
            if hardware != VmHardware() and self.domain.isActive() and self._read_running(mac) != wanted:
                domains.shut_down(self.domain, where)
            if not self.domain.isActive():
                self.domain.create()
                self.was_started = True
            if hardware != VmHardware() and (found := self._read_running(mac)) != wanted:
                raise TreatmentRefused(
                    f"the VM runs with other hardware than requested: {found}",
                    where=where,
                    fix="check its definition (virsh dumpxml)",
                )

    def read_hardware(self) -> dict[str, str]:
        """Return the hardware of the adapter of the running VM."""
        return self._read_running(self.spec.adapter_mac or "")

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

    def _read_running(self, mac: str) -> dict[str, str]:
        running = domains.read_running_state(self.domain)
        return read_hardware(find_adapter(running, mac, self.spec.name))


class ChangedVms:
    """All VMs of a study. Restore them after use."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._connection = open_connection(uri, read_only=False)
        self._vms: dict[str, ChangedVm] = {}

    @property
    def were_started(self) -> bool:
        """Whether the bench has started a VM."""
        return any(vm.was_started for vm in self._vms.values())

    def change(
        self, hosts: Iterable[ExistingEndpointSpec], hardware: VmHardware, testbed_name: str, purpose: str
    ) -> None:
        """Give the VMs of these hosts this hardware and start them, all at the same time.

        Raises:
            BenchError: another campaign uses a VM, or libvirt refuses a step.
        """
        for spec in hosts:
            if spec.domain:
                domain = domains.find_domain(self._connection, spec.domain)
                record = journal.new_record(
                    LIBVIRT, self._uri, spec.domain, domain.UUIDString(), testbed_name, purpose
                )
                kept = journal.open_journal(record, restore.restore_domain)
                self._vms[spec.name] = ChangedVm(spec, domain, kept)
        self._run_for_all(lambda vm: vm.change(hardware))

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

    def describe(self) -> dict[str, object]:
        """Return the VMs and their hardware for the results file."""
        return {
            name: {"domain": vm.spec.domain, "adapter": vm.read_hardware()} for name, vm in self._vms.items()
        }

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
