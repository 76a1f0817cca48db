"""Restore a VM of vSphere from its journal: adapter, entries, latency sensitivity, and whether it runs."""

from __future__ import annotations

from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.domains.journal import DomainRecord, journal_path
from vnetbench.lab.vsphere import reconfiguration, settings, vm_power
from vnetbench.lab.vsphere.session import import_vim

VM_KEY = "vm"
"""The setting in the journal, from `original_vm`."""


def original_vm(vm: Any, adapter: Any) -> dict[str, Any]:
    """Return what the journal keeps of a VM: everything that `restore_domain` needs, and no secret."""
    return {
        "adapter": reconfiguration.serialize_adapter(adapter),
        "entries": settings.read_entries(vm.config, adapter),
        "latency_sensitivity": settings.read_latency_sensitivity(vm.config),
        "power_state": vm.runtime.powerState,
    }


def restore_domain(record: DomainRecord) -> None:
    """Restore what a record holds, and verify it.

    Raises:
        BenchError: the VM is missing, vSphere refuses a step, the VM does not shut down, or it
            differs from the original afterwards.
    """
    if (original := record.originals.get(VM_KEY)) is None:
        return
    try:
        with vm_power.open_vm(record.connection, record.identity, record.domain) as vm:
            vm_power.finish_earlier_tasks(vm, record.domain)
            _restore(vm, record, original)
    except vm_power.MissingVm as error:
        # A VM that the user may not see still needs the journal, so only the user can say that it is gone.
        raise BenchError(
            error.what,
            where=str(record),
            fix=f"give the user a role on the VM; if the VM is deleted, delete {journal_path(record)}",
        ) from None


def _restore(vm: Any, record: DomainRecord, original: dict[str, Any]) -> None:
    adapter = reconfiguration.deserialize_adapter(original["adapter"])
    if _list_differences(vm, adapter, original):
        vm_power.shut_down(vm, record.domain)
        _restore_configuration(vm, record.domain, adapter, original)
        if differences := _list_differences(vm, adapter, original):
            raise BenchError(
                f"the VM is not as before after it was restored: {', '.join(differences)}",
                where=str(record),
                fix=f"repair it in vSphere Client from the journal {journal_path(record)}, and delete the"
                " journal",
            )
    if original["power_state"] == vm_power.POWERED_OFF:
        vm_power.shut_down(vm, record.domain)
    elif vm.runtime.powerState == vm_power.POWERED_OFF:
        vm_power.start(vm, record.domain)


def _restore_configuration(vm: Any, name: str, adapter: Any, original: dict[str, Any]) -> None:
    now = find_adapter_or_none(vm, adapter)
    is_replaced = now is None or _without_address_type(now) != _without_address_type(adapter)
    devices = (
        reconfiguration.replace_adapter(now, adapter, settings.adapter_level(adapter)) if is_replaced else []
    )
    entries = reconfiguration.select_changed_entries(
        original["entries"], settings.read_entries(vm.config, adapter), is_replaced=is_replaced
    )
    spec = reconfiguration.make_spec(adapter, devices, original["latency_sensitivity"], entries)
    vm_power.finish(vm.ReconfigVM_Task(spec), name)
    now = find_adapter_or_none(vm, adapter)
    if now is None or now.addressType == adapter.addressType:
        return
    change = reconfiguration.set_address_type(now, adapter.addressType, adapter.macAddress)
    vm_power.finish(vm.ReconfigVM_Task(reconfiguration.make_spec(adapter, change, "", {})), name)
    if find_adapter_or_none(vm, adapter) is None:
        # The server chose another address. The address matters more than who assigned it.
        (now,) = (each for each in settings.list_adapters(vm.config, import_vim(name)) if each.key == now.key)
        change = reconfiguration.set_address_type(now, reconfiguration.MANUAL, adapter.macAddress)
        vm_power.finish(vm.ReconfigVM_Task(reconfiguration.make_spec(adapter, change, "", {})), name)


def find_adapter_or_none(vm: Any, adapter: Any) -> Any | None:
    """Return the VM's adapter with the MAC address of another one, or None."""
    mac = settings.read_mac(adapter)
    adapters = settings.list_adapters(vm.config, import_vim(""))
    return next((each for each in adapters if settings.read_mac(each) == mac), None)


def _without_address_type(adapter: Any) -> dict[str, Any]:
    return {**reconfiguration.describe_adapter(adapter), "addressType": None}


def _list_differences(vm: Any, adapter: Any, original: dict[str, Any]) -> list[str]:
    """Return what differs from the original, as names for people."""
    now = find_adapter_or_none(vm, adapter)
    if now is None:
        return [f"it has no adapter {settings.read_mac(adapter)}"]
    found, wanted = map(reconfiguration.describe_adapter, (now, adapter))
    differences = [f"the adapter's {name} is {found[name]}" for name in wanted if found[name] != wanted[name]]
    entries = settings.read_entries(vm.config, adapter)
    differences += [
        f"{settings.entry_key(adapter, name)} is {entries[name] or 'not set'}"
        for name, value in original["entries"].items()
        if entries[name] != value
    ]
    latency = settings.read_latency_sensitivity(vm.config)
    return differences + (
        [f"the latency sensitivity is {latency}"] if latency != original["latency_sensitivity"] else []
    )
