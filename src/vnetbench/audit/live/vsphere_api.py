"""Read the VMs, hosts and switches of a vSphere server, as an export. The session only reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vnetbench.audit.duplicates import mark_duplicate_addresses
from vnetbench.audit.files.vsphere import read_inventory
from vnetbench.audit.inventory import Inventory
from vnetbench.errors import BenchError
from vnetbench.lab.vsphere.address import parse_address
from vnetbench.lab.vsphere.api_json import to_json
from vnetbench.lab.vsphere.session import import_vim, open_session

MAX_OBJECTS_PER_REQUEST = 50
_VM_PROPERTIES = (
    "name", "config", "runtime.powerState", "runtime.host", "guest.toolsVersionStatus2",
    "guest.toolsRunningStatus",
)  # fmt: skip
_VM_CONFIG_KEYS = (
    "name", "uuid", "version", "cpuHotAddEnabled", "latencySensitivity", "cpuAllocation", "memoryAllocation",
    "memoryReservationLockedToMax", "extraConfig", "hardware", "cpuAffinity", "numaInfo",
)  # fmt: skip
"""Parts of a VM's configuration in the export; the others are not judged, and may contain secrets."""
_SECRET_PREFIX = "guestinfo."
"""Extra configuration that guests read, such as cloud-init's user data with its passwords."""
_HOST_PROPERTIES = (
    "name", "hardware.cpuInfo", "hardware.numaInfo", "config.option", "config.network",
    "config.powerSystemInfo", "configManager.networkSystem",
)  # fmt: skip
_SWITCH_PROPERTIES = ("name", "config")


class _NamedObject(NamedTuple):
    """A VM, a host or a switch at the server."""

    reference: Any
    name: str


def read_vsphere(target: str, save_export: Path | None = None) -> Iterator[Inventory | BenchError]:
    """Yield the inventory of a server, and the errors of objects that could not be read.

    Args:
        target: `vsphere://USER@HOST/`, and `#VM` behind it for one VM and the hosts.
        save_export: Where to store the export that was read, as JSON.

    Raises:
        BenchError: the server cannot be read, or has no such VM.
    """
    address = parse_address(target)
    errors: list[BenchError] = []
    with open_session(address) as content:
        document = _read_document(content, address.vm_name, str(address), errors)
    if save_export is not None:
        try:
            save_export.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise BenchError(
                f"cannot write the export: {error.strerror}",
                where=str(save_export),
                fix="name a file in a folder that exists and that you may write to",
            ) from None
    yield from errors
    if not any(document.values()) and errors:
        return
    inventory = read_inventory(document, str(address))
    mark_duplicate_addresses([inventory])
    yield inventory


def _read_document(content: Any, vm_name: str, where: str, errors: list[BenchError]) -> dict[str, Any]:
    """Return the export: VMs, hosts and distributed switches, in the form of govc's JSON."""
    vim = import_vim(where)
    vms = [vm for vm in _list_objects(content, vim.VirtualMachine) if vm_name in ("", vm.name)]
    if vm_name and not vms:
        raise BenchError(
            f"the server has no VM named {vm_name} that this user may see",
            where=where,
            fix="write the name as the inventory shows it, and give the user the role Read-only",
        )
    hosts = _list_objects(content, vim.HostSystem)
    switches = _list_objects(content, vim.DistributedVirtualSwitch)
    reader = _Reader(content, where, errors)
    return {
        "virtualMachines": [
            _shape_vm(properties)
            for vm, properties in reader.read(vms, _VM_PROPERTIES)
            if reader.has(properties, "config", vm.name)
        ],
        "hostSystems": [
            _shape_host(host, properties)
            for host, properties in reader.read(hosts, _HOST_PROPERTIES)
            if reader.has(properties, "config.network", host.name)
        ],
        "switches": [
            _shape_switch(properties) for _, properties in reader.read(switches, _SWITCH_PROPERTIES)
        ],
    }


def _list_objects(content: Any, object_type: Any) -> list[_NamedObject]:
    """Return all objects of a type that the user may see, by name."""
    vim, collector = import_vim(""), type(content.propertyCollector)
    view = content.viewManager.CreateContainerView(content.rootFolder, [object_type], True)
    try:
        members = collector.TraversalSpec(
            name="members", path="view", skip=False, type=vim.view.ContainerView
        )
        filters = collector.FilterSpec(
            objectSet=[collector.ObjectSpec(obj=view, skip=True, selectSet=[members])],
            propSet=[collector.PropertySpec(type=object_type, pathSet=["name"])],
        )
        found = [_NamedObject(each.obj, each.propSet[0].val) for each in _retrieve(content, filters)]
    finally:
        view.DestroyView()
    return sorted(found, key=lambda each: each.name)


def _retrieve(content: Any, filters: Any) -> Iterator[Any]:
    """Yield what the property collector returns, page by page."""
    collector = content.propertyCollector
    options = type(collector).RetrieveOptions(maxObjects=MAX_OBJECTS_PER_REQUEST)
    page = collector.RetrievePropertiesEx([filters], options)
    while page is not None:
        yield from page.objects
        page = collector.ContinueRetrievePropertiesEx(page.token) if page.token else None


class _Reader:
    """Reads properties of many objects with few requests, and collects what could not be read."""

    def __init__(self, content: Any, where: str, errors: list[BenchError]) -> None:
        self._content = content
        self._where = where
        self._errors = errors

    def read(
        self, objects: Sequence[_NamedObject], paths: Sequence[str]
    ) -> Iterator[tuple[_NamedObject, dict[str, Any]]]:
        """Yield each object with its properties by path. Objects that have vanished are errors."""
        for start in range(0, len(objects), MAX_OBJECTS_PER_REQUEST):
            chunk = objects[start : start + MAX_OBJECTS_PER_REQUEST]
            try:
                yield from self._read_chunk(chunk, paths)
            except _vanished_fault():
                # The request fails as a whole, so ask for each object alone.
                for each in chunk:
                    yield from self._read_one(each, paths)

    def has(self, properties: dict[str, Any], path: str, name: str) -> bool:
        """Return whether a property was read; otherwise collect the error."""
        if properties.get(path) is not None:
            return True
        self._add_error(
            "the server has no settings of this object, or the user may not read them",
            name,
            "connect it again if it is inaccessible, and give the user the role Read-only",
        )
        return False

    def _read_one(
        self, named: _NamedObject, paths: Sequence[str]
    ) -> list[tuple[_NamedObject, dict[str, Any]]]:
        try:
            return self._read_chunk([named], paths)
        except _vanished_fault():
            self._add_error("the object was removed during the audit", named.name, "repeat the audit")
            return []

    def _read_chunk(
        self, chunk: Sequence[_NamedObject], paths: Sequence[str]
    ) -> list[tuple[_NamedObject, dict[str, Any]]]:
        collector = type(self._content.propertyCollector)
        filters = collector.FilterSpec(
            objectSet=[collector.ObjectSpec(obj=each.reference) for each in chunk],
            propSet=[collector.PropertySpec(type=type(chunk[0].reference), pathSet=list(paths))],
        )
        by_id = {each.reference._GetMoId(): each for each in chunk}
        return [
            (by_id[found.obj._GetMoId()], {each.name: each.val for each in found.propSet})
            for found in _retrieve(self._content, filters)
        ]

    def _add_error(self, what: str, name: str, fix: str) -> None:
        self._errors.append(BenchError(what, where=f"{self._where}#{name}", fix=fix))


def _vanished_fault() -> Any:
    from pyVmomi import vmodl

    return vmodl.fault.ManagedObjectNotFound


def _shape_vm(properties: dict[str, Any]) -> dict[str, Any]:
    document = _nest(properties)
    config = document["config"]
    document["config"] = {key: config[key] for key in _VM_CONFIG_KEYS if key in config}
    extra = document["config"].get("extraConfig", [])
    document["config"]["extraConfig"] = [
        option for option in extra if not str(option.get("key", "")).lower().startswith(_SECRET_PREFIX)
    ]
    return document


def _shape_host(host: _NamedObject, properties: dict[str, Any]) -> dict[str, Any]:
    """Return a host, with what its uplinks hear of the physical switches (CDP and LLDP)."""
    network = properties.pop("configManager.networkSystem", None)
    hints = [] if network is None else network.QueryNetworkHint()
    return {**_nest(properties), "self": to_json(host.reference), "networkHints": to_json(hints)}


def _shape_switch(properties: dict[str, Any]) -> dict[str, Any]:
    document = _nest(properties)
    groups = document.get("config", {}).get("lacpGroupConfig", [])
    return {"name": document.get("name"), "config": {"lacpGroupConfig": groups}}


def _nest(properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties by path as nested JSON: `runtime.host` is `host` within `runtime`."""
    document: dict[str, Any] = {}
    for path, value in properties.items():
        *parents, last = path.split(".")
        target = document
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = to_json(value)
    return document
