"""Read Proxmox VE's configuration of a VM: `qm config ID`, or a file of /etc/pve/qemu-server."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vnetbench.audit.duplicates import parse_mac
from vnetbench.audit.files.vm import NONE, is_true, parse_whole
from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.errors import BenchError

_LINE = re.compile(r"^([a-z][a-z0-9_]{1,30}):\s*(.*)$")
_SNAPSHOT = re.compile(r"^\[.*\]\s*$")
_NET = re.compile(r"net\d{1,2}")
_DISK = re.compile(r"(scsi|virtio|sata|ide)\d{1,2}")
_MODELS = ("virtio", "e1000", "e1000e", "rtl8139", "vmxnet3", "e1000-82540em", "ne2k_pci", "pcnet", "i82551")
_MACHINE_VERSION = re.compile(r"-(\d{1,3}\.\d{1,3})")
_KEYS_OF_A_VM = {
    "cores",
    "memory",
    "sockets",
    "ostype",
    "scsihw",
    "smbios1",
    "vmgenid",
    "boot",
    "net0",
    "bootdisk",
}
DEFAULT_CPU = "kvm64"


def is_config(text: str) -> bool:
    """Return whether a text is the configuration of a VM."""
    return len(parse_config(text[:262144]).keys() & _KEYS_OF_A_VM) >= 2


def parse_config(text: str) -> dict[str, str]:
    """Return the present values by key; what snapshots recorded is left out."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if _SNAPSHOT.match(line):
            break
        if match := _LINE.match(line):
            values.setdefault(match[1], match[2].strip())
    return values


def read_config(text: str, where: str) -> Inventory:
    """Return the inventory of a VM.

    Raises:
        BenchError: The text is no configuration.
    """
    values = parse_config(text)
    if not values:
        raise BenchError("this is no configuration of a VM", where=where, fix="run qm config ID > FILE")
    inventory = Inventory(where)
    add_config(inventory, values)
    return inventory


def add_config(inventory: Inventory, values: Mapping[str, str]) -> None:
    """Add the VM, the adapters and the disk controllers of a configuration."""
    vm = _add_vm(inventory, values)
    for key, value in values.items():
        if _NET.fullmatch(key):
            _add_adapter(inventory, key, value, vm)
        elif (match := _DISK.fullmatch(key)) and "media=cdrom" not in value:
            controller = inventory.add_object("disk_controller", key, "proxmox")
            model = values.get("scsihw", "lsi").lower() if match[1] == "scsi" else match[1]
            controller.add("model", model, "scsihw" if match[1] == "scsi" else key)


def _add_vm(inventory: Inventory, values: Mapping[str, str]) -> InventoryObject:
    vm = inventory.add_object("vm", values.get("name", "vm"), "proxmox")
    sockets, cores = parse_whole(values.get("sockets")) or 1, parse_whole(values.get("cores")) or 1
    vm.add("vcpus", parse_whole(values.get("vcpus")) or sockets * cores, "sockets, cores, vcpus")
    vm.add("sockets", sockets, "sockets")
    vm.add("numa", is_true(values.get("numa")), "numa")
    vm.add("accelerated", values.get("kvm", "1") != "0", "kvm")
    cpu = values.get("cpu", DEFAULT_CPU).split(",")[0].removeprefix("cputype=")
    vm.add("cpu_model", cpu, "cpu")
    limit = values.get("cpulimit", "0")
    vm.add("cpu_limited", limit not in ("0", "", "0.0"), "cpulimit")
    vm.add("cpu_limit", f"{limit} CPUs", "cpulimit")
    agent = values.get("agent", "0").split(",")[0].removeprefix("enabled=")
    vm.add("guest_agent", agent == "1", "agent")
    if version := _MACHINE_VERSION.search(values.get("machine", "")):
        vm.add("machine_version", float(version[1]), "machine")
    return vm


def _add_adapter(inventory: Inventory, key: str, value: str, vm: InventoryObject) -> None:
    """Add an adapter, such as `virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=4`."""
    options = dict(part.partition("=")[::2] for part in value.split(","))
    model = options.get("model") or next((name for name in _MODELS if name in options), None)
    adapter = inventory.add_object("adapter", f"{vm.name} {key}", "proxmox")
    adapter.add("model", model, key)
    adapter.add("mac", parse_mac(options.get(model or "") or options.get("macaddr")), key)
    adapter.facts["vcpus"] = vm.facts["vcpus"]
    adapter.add("connected", options.get("link_down") != "1", f"{key}: link_down")
    adapter.add("has_bridge", bool(options.get("bridge")), f"{key}: bridge")
    rate = options.get("rate", "")
    adapter.add("bandwidth_limit", NONE if rate in ("", "0") else f"{rate} MB/s", f"{key}: rate")
    adapter.add("mtu", parse_whole(options.get("mtu")), f"{key}: mtu")
    adapter.add("queues", parse_whole(options.get("queues")) or 1, f"{key}: queues")
