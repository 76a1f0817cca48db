"""The VMs of a study at vSphere: change their settings, restart them, and restore them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from vnetbench import cleanup
from vnetbench.errors import BenchError
from vnetbench.lab.domains import journal
from vnetbench.lab.domains.journal import DomainJournal
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.vsphere import reconfiguration, restore, settings, vm_power
from vnetbench.lab.vsphere.address import parse_address
from vnetbench.lab.vsphere.session import format_fault, import_vim, open_session
from vnetbench.lab.vsphere.settings import SLOT_ENTRY, VmSettings
from vnetbench.study.labs import VSPHERE
from vnetbench.study.model import ExistingEndpointSpec


class ChangedVm:
    """One VM of a study, with its journal."""

    def __init__(self, spec: ExistingEndpointSpec, mac: str, kept: DomainJournal) -> None:
        self.spec = spec
        self.mac = mac
        """MAC address of the adapter that changes."""
        self._journal = kept

    def change(self, requested: VmSettings) -> bool:
        """Give the VM these settings, start it, and return whether its guest is booting.

        Raises:
            TreatmentRefused: the VM cannot have such settings.
            BenchError: vSphere refuses another step.
        """
        name, record = self.spec.name, self._journal.record
        with vm_power.open_vm(record.connection, record.identity, name) as vm:
            adapter = settings.find_adapter(vm.config, self.mac, name, import_vim(name))
            self._journal.record_original(restore.VM_KEY, restore.original_vm(vm, adapter))
            original = self._journal.record.originals[restore.VM_KEY]
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
        record = self._journal.record
        with vm_power.open_vm(record.connection, record.identity, self.spec.name) as vm:
            adapter = settings.find_adapter(vm.config, self.mac, self.spec.name, import_vim(self.spec.name))
            return settings.read_settings(vm.config, adapter)

    def restore(self) -> None:
        """Restore the VM; raises BenchError. Then the journal stays."""
        restore.restore_domain(self._journal.record)
        self._journal.delete()


class ChangedVms:
    """All VMs of a study. Restore them after use."""

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self._vms: dict[str, ChangedVm] = {}

    def add(self, hosts: Iterable[ExistingEndpointSpec], testbed_name: str, purpose: str) -> None:
        """Start the journals of the VMs of these hosts; what an earlier campaign left is restored first.

        Raises:
            BenchError: there is no such VM or adapter, it cannot be restarted, or another campaign uses it.
        """
        for spec in hosts:
            if spec.domain:
                uuid, mac = find_vm(self._connection, spec)
                record = journal.new_record(
                    VSPHERE, self._connection, spec.domain, uuid, testbed_name, purpose
                )
                kept = journal.open_journal(record, restore.restore_domain)
                self._vms[spec.name] = ChangedVm(spec, mac, kept)

    @property
    def adapter_macs(self) -> dict[str, str]:
        """The MAC addresses of the adapters that change, by host."""
        return {name: vm.mac for name, vm in self._vms.items()}

    def change(self, requested: VmSettings) -> bool:
        """Give the VMs these settings and start them, all at the same time.

        Returns:
            Whether a guest is booting.

        Raises:
            BenchError: a VM cannot have the settings, or vSphere refuses a step.
        """
        booting: list[bool] = []
        self._run_for_all(lambda vm: booting.append(vm.change(requested)))
        return any(booting)

    def read_settings(self) -> dict[str, dict[str, str]]:
        """Return the settings of the VMs by host."""
        return {name: vm.read_settings() for name, vm in self._vms.items()}

    def describe(self) -> dict[str, object]:
        """Return the VMs and their settings for the results file."""
        found = self.read_settings()
        return {name: {"domain": vm.spec.domain, "settings": found[name]} for name, vm in self._vms.items()}

    def restore(self) -> None:
        """Restore all VMs; raises the first error."""
        try:
            self._run_for_all(lambda vm: vm.restore())
        finally:
            self._vms.clear()

    def _run_for_all(self, step: Callable[[ChangedVm], object]) -> None:
        """Run a step for all VMs at the same time; raise the first error when all have ended."""
        with ThreadPoolExecutor(len(self._vms) or 1) as pool:
            running = [pool.submit(partial(step, vm)) for vm in self._vms.values()]
        cleanup.run_all_despite_errors([each.result for each in running])


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
