"""The VMs of a study: change their hardware, pin their threads, and restore them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from vnetbench.errors import BenchError
from vnetbench.lab.domains.changed_vms import ChangedVm, ChangedVms
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


class LibvirtVm(ChangedVm):
    """One VM of a study at libvirt."""

    def __init__(self, spec: ExistingEndpointSpec, domain: Any, mac: str, kept: DomainJournal) -> None:
        super().__init__(spec, mac, kept)
        self.domain = domain
        self._was_started = False

    def check_request(self, requested: VmHardware) -> None:
        """See ChangedVm."""
        with domains.errors_of_domain(self.spec.name):
            self.journal.record_original(restore.DOMAIN_KEY, restore.original_domain(self.domain, self.mac))
            self._make_definition(requested)

    def change(self, requested: VmHardware) -> bool:
        """See ChangedVm."""
        with domains.errors_of_domain(self.spec.name):
            definition = self._make_definition(requested)
            wanted = read_hardware(find_adapter(definition, self.mac, self.spec.name))
            must_start = not self.domain.isActive() or self.read_hardware() != wanted
            if must_start and not self._was_started:
                # What the bench itself has started has no settings of others to lose.
                domains.check_can_restart(self.domain, self.spec.name)
            if domains.read_definition(self.domain, has_passwords=True) != definition:
                with _refuse_hardware(requested, self.spec.name):
                    domains.define(self.domain, definition)
            if must_start:
                if self.domain.isActive():
                    domains.shut_down(self.domain, self.spec.name)
                with _refuse_hardware(requested, self.spec.name):
                    self.domain.create()
                self._was_started = True
            if (found := self.read_hardware()) != wanted:
                raise TreatmentRefused(
                    f"the VM runs with other hardware than requested: {found}",
                    where=self.spec.name,
                    fix="compare its definition with virsh dumpxml",
                )
        return must_start

    def _make_definition(self, hardware: VmHardware) -> str:
        """Return the original definition with this hardware and the present passwords."""
        original = self.journal.record.originals[restore.DOMAIN_KEY]["definition"]
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
        request_hardware(
            adapter,
            hardware,
            self.spec.name,
            is_kvm=is_kvm,
            qemu_version=self.domain.connect().getVersion(),
        )
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
            self.journal.record_original(
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


class LibvirtVms(ChangedVms[LibvirtVm]):
    """All VMs of a study at libvirt."""

    lab = LIBVIRT

    def __init__(self, uri: str) -> None:
        super().__init__(uri, restore.restore_domain)
        self._libvirt = open_connection(uri, read_only=False)

    def _find_vm(self, spec: ExistingEndpointSpec) -> tuple[str, Callable[[DomainJournal], LibvirtVm]]:
        domain = domains.find_domain(self._libvirt, spec.domain or "")
        mac = find_adapter_mac(domain, spec)
        return domain.UUIDString(), lambda kept: LibvirtVm(spec, domain, mac, kept)

    def read_back(self, endpoints: Sequence[Endpoint], factors: Mapping[str, Level]) -> dict[str, object]:
        """See ChangedVms. Pins the threads of the VMs."""
        return {"vm_adapter": self.read_hardware(), **self.pin(endpoints, factors)}

    def pin(self, endpoints: Sequence[Endpoint], factors: Mapping[str, Level]) -> dict[str, object]:
        """Pin the threads of all VMs and return what was read back, by factor and host.

        Raises:
            TreatmentRefused: libvirt set other CPUs.
            BenchError: the hypervisor's machine lacks a CPU.
        """
        if not (VCPU_PIN.is_present_in(factors) or EMULATOR_PIN.is_present_in(factors)):
            return {}
        levels = cpu_pinning.pinning_levels(factors)
        online = domains.host_cpus(self._libvirt)
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
        """See ChangedVms."""
        hardware = self.read_hardware()
        return {name: {"domain": vm.spec.domain, "adapter": hardware[name]} for name, vm in self._vms.items()}

    def restore(self) -> None:
        """See ChangedVms. Closes the connection too."""
        try:
            super().restore()
        finally:
            self._libvirt.close()


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
