"""Changes of a VM's configuration at vSphere: another adapter with the same MAC address, and entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.lab.vsphere import settings
from vnetbench.lab.vsphere.api_json import to_json
from vnetbench.lab.vsphere.session import import_vim

MANUAL = "manual"
_COPIED_PROPERTIES = (
    "key", "controllerKey", "unitNumber", "wakeOnLanEnabled", "resourceAllocation", "externalId",
)  # fmt: skip


def serialize_adapter(adapter: Any) -> str:
    """Return an adapter as XML of the newest API, which has all properties."""
    from pyVmomi import SoapAdapter
    from pyVmomi.VmomiSupport import newestVersions

    return str(SoapAdapter.SerializeToStr(adapter, version=newestVersions.GetName("vim")))


def deserialize_adapter(text: str) -> Any:
    """Return the adapter that `serialize_adapter` wrote."""
    from pyVmomi import SoapAdapter

    vim = import_vim("")
    return SoapAdapter.Deserialize(text, vim.vm.device.VirtualDevice)


def replace_adapter(now: Any | None, original: Any, level: str) -> list[Any]:
    """Return the device changes that give the VM an adapter of another type, or the original one.

    vSphere cannot change an adapter's type. The new adapter gets the MAC address of the old one, as a manual
    address, because an address of another type could change.

    Args:
        now: The adapter to remove; None: the VM has none.
        original: The adapter before the study.
        level: Level of the factor `adapter`.
    """
    vim = import_vim("")
    if level == settings.adapter_level(original):
        new = deserialize_adapter(serialize_adapter(original))
        new.deviceInfo = None
    else:
        new = settings.adapter_type(level, vim)()
        for name in _COPIED_PROPERTIES:
            setattr(new, name, getattr(original, name))
        new.backing = deserialize_adapter(serialize_adapter(original)).backing
        if original.connectable is not None:
            new.connectable = vim.vm.device.VirtualDevice.ConnectInfo(
                startConnected=original.connectable.startConnected,
                allowGuestControl=original.connectable.allowGuestControl,
                connected=False,
            )
    new.addressType, new.macAddress = MANUAL, original.macAddress
    if (port := getattr(new.backing, "port", None)) is not None:
        # The distributed switch chooses a free port of the group. The old one is not free yet.
        port.portKey = port.connectionCookie = None
    change = vim.vm.device.VirtualDeviceSpec
    removal = [] if now is None else [change(operation=change.Operation.remove, device=now)]
    return [*removal, change(operation=change.Operation.add, device=new)]


def set_address_type(now: Any, address_type: str, mac: str) -> list[Any]:
    """Return the device change that gives an adapter another address type with the same MAC address."""
    vim = import_vim("")
    changed = deserialize_adapter(serialize_adapter(now))
    changed.deviceInfo, changed.addressType, changed.macAddress = None, address_type, mac
    change = vim.vm.device.VirtualDeviceSpec
    return [change(operation=change.Operation.edit, device=changed)]


def make_spec(adapter: Any, devices: list[Any], latency: str, entries: Mapping[str, str]) -> Any:
    """Return a change of a VM.

    Args:
        adapter: The adapter that has the entries.
        devices: Device changes.
        latency: The latency sensitivity; empty: no change.
        entries: Entries of the adapter in the extra configuration; an empty value removes the entry.
    """
    vim = import_vim("")
    spec = vim.vm.ConfigSpec(deviceChange=devices)
    spec.extraConfig = [
        vim.option.OptionValue(key=settings.entry_key(adapter, name), value=value)
        for name, value in entries.items()
    ]
    if latency:
        spec.latencySensitivity = vim.LatencySensitivity(level=latency)
    return spec


def select_changed_entries(
    wanted: Mapping[str, str], found: Mapping[str, str], *, is_replaced: bool
) -> dict[str, str]:
    """Return the entries to set. vSphere would store an entry that does not exist as an empty one.

    Args:
        wanted: The entries that the VM should have.
        found: Those that it has.
        is_replaced: Whether the adapter is replaced. ESXi then forgets its slot.
    """
    return {
        name: value
        for name, value in wanted.items()
        if found[name] != value or (is_replaced and value and name == settings.SLOT_ENTRY)
    }


def describe_adapter(adapter: Any) -> dict[str, Any]:
    """Return what must be equal after a restore: type, key, addresses, unit, network and connection."""
    found = to_json(adapter)
    backing = found.get("backing", {})
    for name in ("portKey", "connectionCookie"):
        backing.get("port", {}).pop(name, None)
    connection = found.get("connectable", {})
    return {
        "type": settings.adapter_level(adapter),
        **{name: found.get(name) for name in ("addressType", "macAddress", *_COPIED_PROPERTIES)},
        "backing": backing,
        **{name: connection.get(name) for name in ("startConnected", "allowGuestControl")},
    }
