"""The VMs of a study at vSphere: change their settings, restart them, and restore them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.domains.changed_vms import ChangedVm, ChangedVms
from vnetbench.lab.domains.journal import DomainJournal
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.vsphere import reconfiguration, restore, settings, vm_power
from vnetbench.lab.vsphere.address import parse_address
from vnetbench.lab.vsphere.session import format_fault, import_vim, open_session
from vnetbench.lab.vsphere.settings import SLOT_ENTRY, VmSettings
from vnetbench.study.labs import VSPHERE
from vnetbench.study.model import ExistingEndpointSpec, Level


class VsphereVm(ChangedVm):
    """One VM of a study at vSphere."""

    def check_request(self, requested: VmSettings) -> None:
        """See ChangedVm. `requested_settings` has refused types that vSphere lacks."""
        record = self.journal.record
        with vm_power.open_vm(record.connection, record.identity, self.spec.name) as vm:
            adapter = settings.find_adapter(vm.config, self.mac, self.spec.name, import_vim(self.spec.name))
            self.journal.record_original(restore.VM_KEY, restore.original_vm(vm, adapter))

    def change(self, requested: VmSettings) -> bool:
        """See ChangedVm."""
        name, record = self.spec.name, self.journal.record
        with vm_power.open_vm(record.connection, record.identity, name) as vm:
            adapter = settings.find_adapter(vm.config, self.mac, name, import_vim(name))
            original = self.journal.record.originals[restore.VM_KEY]
            spec = _make_change(vm, adapter, original, requested)
            if spec is not None:
                vm_power.shut_down(vm, name)
                _refuse_settings(requested, name, lambda: vm_power.finish(vm.ReconfigVM_Task(spec), name))
            if is_off := bool(vm.runtime.powerState == vm_power.POWERED_OFF):
                _refuse_settings(requested, name, lambda: vm_power.start(vm, name))
            adapter = settings.find_adapter(vm.config, self.mac, name, import_vim(name))
            if _make_change(vm, adapter, original, requested) is not None:
                found = settings.read_settings(vm.config, adapter)
                raise TreatmentRefused(
                    f"the VM runs with other settings than requested: {found}",
                    where=name,
                    fix="compare them in vSphere Client, and see whether something else changes the VM",
                )
        return is_off

    def read_settings(self) -> dict[str, str]:
        """Return the VM's settings that a study can change."""
        record = self.journal.record
        with vm_power.open_vm(record.connection, record.identity, self.spec.name) as vm:
            adapter = settings.find_adapter(vm.config, self.mac, self.spec.name, import_vim(self.spec.name))
            return settings.read_settings(vm.config, adapter)


class VsphereVms(ChangedVms[VsphereVm]):
    """All VMs of a study at vSphere."""

    lab = VSPHERE

    def __init__(self, connection: str) -> None:
        super().__init__(connection, restore.restore_domain)

    def _find_vm(self, spec: ExistingEndpointSpec) -> tuple[str, Callable[[DomainJournal], VsphereVm]]:
        uuid, mac = find_vm(self._connection, spec)
        return uuid, lambda kept: VsphereVm(spec, mac, kept)

    def read_back(self, endpoints: Sequence[Endpoint], factors: Mapping[str, Level]) -> dict[str, object]:
        """See ChangedVms."""
        return {"vm_settings": self.read_settings()}

    def read_settings(self) -> dict[str, dict[str, str]]:
        """Return the settings of the VMs by host."""
        return {name: vm.read_settings() for name, vm in self._vms.items()}

    def describe(self) -> dict[str, object]:
        """See ChangedVms."""
        found = self.read_settings()
        return {name: {"domain": vm.spec.domain, "settings": found[name]} for name, vm in self._vms.items()}


def find_vm(connection: str, spec: ExistingEndpointSpec) -> tuple[str, str]:
    """Return the UUID of a host's VM, and the MAC address of the adapter that changes. It changes nothing.

    Raises:
        BenchError: there is no such VM or adapter, or the VM cannot be restarted.
    """
    name = str(spec.domain)
    with open_session(parse_address(connection)) as content, vm_power.errors_of_vm(name):
        vm = vm_power.find_vm_by_name(content, name)
        vm_power.check_can_restart(vm, name)
        adapter = settings.find_adapter(vm.config, spec.adapter_mac or "", name, import_vim(name))
        return str(vm.config.instanceUuid), settings.read_mac(adapter)


def is_running(connection: str, spec: ExistingEndpointSpec) -> bool:
    """Return whether a host's VM is powered on."""
    uuid, _ = find_vm(connection, spec)
    with vm_power.open_vm(connection, uuid, str(spec.domain)) as vm:
        return bool(vm.runtime.powerState == vm_power.POWERED_ON)


def _make_change(vm: Any, adapter: Any, original: dict[str, Any], requested: VmSettings) -> Any | None:
    """Return the change that gives a VM the requested settings, and its original ones for the rest.

    None: the VM has them.
    """
    original_adapter = reconfiguration.deserialize_adapter(original["adapter"])
    original_level = settings.adapter_level(original_adapter)
    level = requested.adapter or original_level
    latency = requested.latency_sensitivity or original["latency_sensitivity"]
    entries = {**original["entries"], **dict(requested.entries)}
    devices: Sequence[Any] = ()
    if settings.adapter_level(adapter) != level:
        devices = reconfiguration.replace_adapter(adapter, original_adapter, level)
    if not devices or level != original_level:
        # ESXi chooses the slot when the VM starts, and types of adapters fit different slots.
        del entries[SLOT_ENTRY]
    found = settings.read_entries(vm.config, adapter)
    changed = reconfiguration.select_changed_entries(entries, found, is_replaced=bool(devices))
    if latency == settings.read_latency_sensitivity(vm.config):
        latency = ""
    if not (devices or changed or latency):
        return None
    return reconfiguration.make_spec(original_adapter, list(devices), latency, changed)


def _refuse_settings(requested: VmSettings, name: str, step: Callable[[], object]) -> None:
    """Run a step, and raise TreatmentRefused if the VM cannot have the settings."""
    vim = import_vim(name)
    from pyVmomi import vmodl

    try:
        step()
    except (vim.fault.NoPermission, vmodl.fault.ManagedObjectNotFound, BenchError):
        raise
    except (vim.fault.VimFault, vim.RuntimeFault) as error:
        raise TreatmentRefused(
            f"the VM cannot have {requested}: {format_fault(error)}",
            where=name,
            fix="remove this level from the study, or add what it needs to the VM",
        ) from None
