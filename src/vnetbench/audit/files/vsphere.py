"""Read an export of vSphere's inventory as JSON: govc's `-json` output, or pyvmomi's objects."""

from __future__ import annotations

from typing import Any

from vnetbench.audit.duplicates import parse_mac
from vnetbench.audit.files import vmx
from vnetbench.audit.files.json_path import get, get_flag, get_list, get_text, get_whole, walk
from vnetbench.audit.files.vm import NONE, is_true
from vnetbench.audit.files.vsphere_host import add_distributed_switch, add_host
from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.errors import BenchError

_ADAPTER_MODELS = {
    "VirtualVmxnet3": "vmxnet3", "VirtualVmxnet3Vrdma": "vmxnet3", "VirtualVmxnet2": "vmxnet2",
    "VirtualVmxnet": "vmxnet", "VirtualE1000": "e1000", "VirtualE1000e": "e1000e",
    "VirtualPCNet32": "pcnet32", "VirtualSriovEthernetCard": "sriov",
}  # fmt: skip
_CONTROLLER_MODELS = {
    "ParaVirtualSCSIController": "pvscsi", "VirtualLsiLogicController": "lsilogic",
    "VirtualLsiLogicSASController": "lsisas1068", "VirtualBusLogicController": "buslogic",
}  # fmt: skip
FIRST_ADAPTER_KEY = 4000
"""Device key of ethernet0; the next adapter has the next key."""


def read_inventory(document: Any, where: str) -> Inventory:
    """Return the inventory of the VMs, hosts and distributed switches in an export.

    Raises:
        BenchError: The export has none of them.
    """
    inventory = Inventory(where)
    objects = list(walk(document))
    hosts = [each for each in objects if get_list(each, "config", "network", "pnic")]
    for host in hosts:
        add_host(inventory, host, objects)
    for each in objects:
        if get(each, "config", "hardware", "device") is not None:
            _add_vm(inventory, each, hosts)
        elif groups := get_list(each, "config", "lacpGroupConfig"):
            add_distributed_switch(inventory, each, groups)
    if not inventory.objects:
        raise BenchError(
            "the export has no VM with its hardware and no host with its network",
            where=where,
            fix="export whole objects: govc vm.info -json NAME, or govc host.info -json",
        )
    return inventory


def _add_vm(inventory: Inventory, source: dict[str, Any], hosts: list[dict[str, Any]]) -> None:
    config = get(source, "config")
    name = get_text(config, "name") or get_text(source, "name") or "vm"
    extra = {
        get_text(option, "key").lower(): str(get(option, "value"))
        for option in get_list(config, "extraConfig")
        if get(option, "value") is not None
    }
    vm = vmx.add_vmx_vm(inventory, extra, name, "vsphere")
    _add_sizes(vm, config, hosts, get_text(source, "runtime", "host", "value"))
    _add_allocation(vm, config)
    _add_tools(vm, source)
    devices = get_list(config, "hardware", "device")
    passthrough = [each for each in devices if _type_name(each) == "VirtualPCIPassthrough"]
    vm.add("passthrough_devices", len(passthrough), "config.hardware.device")
    for device in devices:
        model = _ADAPTER_MODELS.get(_type_name(device))
        if model is not None:
            _add_adapter(inventory, device, model, extra, vm)
        elif (model := _CONTROLLER_MODELS.get(_type_name(device))) is not None:
            label = get_text(device, "deviceInfo", "label") or model
            controller = inventory.add_object("disk_controller", f"{name} {label}", "vsphere")
            controller.add("model", model, "config.hardware.device")


def _add_sizes(vm: InventoryObject, config: Any, hosts: list[dict[str, Any]], host_id: str) -> None:
    vcpus = get_whole(config, "hardware", "numCPU") or vmx.DEFAULT_VCPUS
    cores = get_whole(config, "hardware", "numCoresPerSocket") or 1
    vm.add("vcpus", vcpus, "config.hardware.numCPU")
    vm.add("cores_per_socket", cores, "config.hardware.numCoresPerSocket")
    vm.add("uneven_sockets", vcpus % cores != 0, "config.hardware.numCoresPerSocket")
    vm.add("memory_mib", get_whole(config, "hardware", "memoryMB"), "config.hardware.memoryMB")
    version = get_text(config, "version").removeprefix("vmx-")
    vm.add(
        "hardware_version",
        int(version) if version.isascii() and version.isdigit() else None,
        "config.version",
    )
    vm.add("cpu_hot_add", get_flag(config, "cpuHotAddEnabled"), "config.cpuHotAddEnabled")
    exposed = get_flag(config, "numaInfo", "vnumaOnCpuHotaddExposed")
    vm.add("vnuma_with_hot_add", exposed, "config.numaInfo.vnumaOnCpuHotaddExposed")
    own = [host for host in hosts if host_id and get_text(host, "self", "value") == host_id]
    candidates = own or (hosts if len(hosts) == 1 else [])
    if candidates:
        total = get_whole(candidates[0], "hardware", "cpuInfo", "numCpuCores")
        nodes = get_whole(candidates[0], "hardware", "numaInfo", "numNodes")
        vm.add("node_cores", total // nodes if total and nodes else None, "hardware.numaInfo of the host")


def _add_allocation(vm: InventoryObject, config: Any) -> None:
    memory = get_whole(config, "hardware", "memoryMB")
    reserved = get_whole(config, "memoryAllocation", "reservation") or 0
    locked = get_flag(config, "memoryReservationLockedToMax") is True
    source = "config.memoryReservationLockedToMax, config.memoryAllocation"
    vm.add("memory_reserved", locked or bool(memory and reserved >= memory), source)
    cpu = get_whole(config, "cpuAllocation", "reservation") or 0
    vm.add("cpu_reserved", cpu > 0, "config.cpuAllocation.reservation")
    limit = get(config, "cpuAllocation", "limit")
    is_limited = type(limit) is int and limit >= 0
    vm.add("cpu_limited", is_limited, "config.cpuAllocation.limit")
    vm.add("cpu_limit", f"{limit} MHz" if is_limited else NONE, "config.cpuAllocation.limit")
    limit = get(config, "memoryAllocation", "limit")
    below = type(limit) is int and memory is not None and 0 <= limit < memory
    vm.add("memory_limited", below, "config.memoryAllocation.limit")
    level = get_text(config, "latencySensitivity", "level")
    if level in vmx.LATENCY_SENSITIVITIES:
        vm.add("latency_sensitivity", level, "config.latencySensitivity.level")
    cpus = get_list(config, "cpuAffinity", "affinitySet")
    if cpus:
        vm.add("cpu_affinity", ",".join(map(str, cpus[:64])), "config.cpuAffinity.affinitySet")


def _add_tools(vm: InventoryObject, source: dict[str, Any]) -> None:
    state = get_text(source, "runtime", "powerState") or get_text(source, "summary", "runtime", "powerState")
    if state:
        vm.add("powered_on", state == "poweredOn", "runtime.powerState")
    status = get_text(source, "guest", "toolsVersionStatus2") or get_text(
        source, "guest", "toolsVersionStatus"
    )
    if status:
        vm.add("tools_installed", status != "guestToolsNotInstalled", "guest.toolsVersionStatus2")
        old = status in (
            "guestToolsTooOld",
            "guestToolsSupportedOld",
            "guestToolsNeedUpgrade",
            "guestToolsBlacklisted",
        )
        vm.add("tools_old", old, "guest.toolsVersionStatus2")
    running = get_text(source, "guest", "toolsRunningStatus")
    if running:
        vm.add("tools_running", running != "guestToolsNotRunning", "guest.toolsRunningStatus")


def _add_adapter(
    inventory: Inventory, device: dict[str, Any], model: str, extra: dict[str, str], vm: InventoryObject
) -> None:
    label = get_text(device, "deviceInfo", "label") or model
    adapter = inventory.add_object("adapter", f"{vm.name} {label}", "vsphere")
    adapter.add("model", model, "config.hardware.device")
    adapter.add("mac", parse_mac(get(device, "macAddress")), "config.hardware.device: macAddress")
    connected = get_flag(device, "connectable", "startConnected")
    adapter.add("connected", connected, "config.hardware.device: connectable.startConnected")
    index = (get_whole(device, "key") or FIRST_ADAPTER_KEY) - FIRST_ADAPTER_KEY
    vmx.add_adapter_tuning(adapter, extra, f"ethernet{index}", vm)
    if is_true(get(device, "uptv2Enabled")):
        adapter.add("uptv2", True, "config.hardware.device: uptv2Enabled")


def _type_name(device: Any) -> str:
    """Return the type of a device: `_typeName` of govmomi, `_vimtype` of pyvmomi (vim.vm.device.TYPE)."""
    name = get_text(device, "_typeName") or get_text(device, "_vimtype")
    return name.rpartition(".")[2]
