"""Read .vmx files: the configuration of a VM as a dictionary."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vnetbench.audit.duplicates import parse_mac
from vnetbench.audit.files.vm import NONE, is_true, parse_whole
from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.errors import BenchError

_LINE = re.compile(r'^\s*([A-Za-z0-9_.:\-]+)\s*=\s*(?:"((?:[^"|]|\|[0-9A-Fa-f]{2}|\|)*)"|([^"\s][^"]*?))\s*$')
_ESCAPE = re.compile(r"\|([0-9A-Fa-f]{2})")
_ETHERNET = re.compile(r"ethernet(\d{1,2})\.present")
_SCSI = re.compile(r"(scsi|nvme|sata|ide)(\d{1,2})\.present")
_KEYS_OF_A_VM = ("config.version", "virtualhw.version", "displayname", "guestos")
DEFAULT_VCPUS, DEFAULT_ADAPTER = 1, "flexible"
"""Values without a key. An adapter without `virtualDev` is a vlance or flexible one."""
UNLIMITED = ("", "-1", "unlimited", "max")
LATENCY_SENSITIVITIES = ("low", "normal", "medium", "high")
MAX_STATIC_PACKETS, MIN_RATE, MAX_RATE = 64, 100, 100_000


def is_vmx(text: str) -> bool:
    """Return whether a text is the configuration of a VM."""
    keys = {match[1].lower() for line in text[:262144].splitlines() if (match := _LINE.match(line))}
    return len(keys & set(_KEYS_OF_A_VM)) >= 2


def read_vmx(text: str, where: str) -> Inventory:
    """Return the inventory of a VM from its .vmx file.

    Raises:
        BenchError: The text is no .vmx file.
    """
    values = parse_vmx(text)
    if not values.keys() & set(_KEYS_OF_A_VM):
        raise BenchError(
            "this is no .vmx file, or a damaged one", where=where, fix="copy it from the datastore again"
        )
    inventory = Inventory(where)
    vm = add_vmx_vm(inventory, values, values.get("displayname") or "vm", "vmx")
    for key in values:
        if (match := _ETHERNET.fullmatch(key)) and is_true(values[key]):
            _add_adapter(inventory, values, f"ethernet{int(match[1])}", vm)
        elif (match := _SCSI.fullmatch(key)) and is_true(values[key]):
            _add_controller(inventory, values, match[1], match[2])
    return inventory


def parse_vmx(text: str) -> dict[str, str]:
    """Return the values of a .vmx file by key in lower case; the last of equal keys counts."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and not line.lstrip().startswith("#"):
            quoted = match[2] if match[2] is not None else match[3].strip()
            values[match[1].lower()] = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), quoted)
    return values


def add_vmx_vm(inventory: Inventory, values: Mapping[str, str], name: str, platform: str) -> InventoryObject:
    """Add the VM that the keys of a .vmx file describe."""
    vm = inventory.add_object("vm", name, platform)
    vcpus = parse_whole(values.get("numvcpus")) or DEFAULT_VCPUS
    cores = parse_whole(values.get("cpuid.corespersocket")) or 1
    memory = parse_whole(values.get("memsize"))
    vm.add("vcpus", vcpus, "numvcpus")
    vm.add("cores_per_socket", cores, "cpuid.coresPerSocket")
    vm.add("uneven_sockets", vcpus % cores != 0, "cpuid.coresPerSocket")
    vm.add("memory_mib", memory, "memSize")
    vm.add("hardware_version", parse_whole(values.get("virtualhw.version")), "virtualHW.version")
    vm.add("cpu_hot_add", is_true(values.get("vcpu.hotadd")), "vcpu.hotadd")
    vm.add("vnuma_with_hot_add", is_true(values.get("numa.allowhotadd")), "numa.allowHotadd")
    vm.add("memory_reserved", _is_memory_reserved(values, memory), "sched.mem.pin, sched.mem.min")
    vm.add("cpu_reserved", (parse_whole(values.get("sched.cpu.min")) or 0) > 0, "sched.cpu.min")
    limit = values.get("sched.cpu.max", "").lower()
    vm.add("cpu_limited", limit not in UNLIMITED, "sched.cpu.max")
    vm.add("cpu_limit", NONE if limit in UNLIMITED else f"{limit} MHz", "sched.cpu.max")
    memory_limit = parse_whole(values.get("sched.mem.max"))
    vm.add("memory_limited", bool(memory_limit and memory and memory_limit < memory), "sched.mem.max")
    affinity = values.get("sched.cpu.affinity", "").strip().lower()
    vm.add("cpu_affinity", NONE if affinity in ("", "all") else affinity, "sched.cpu.affinity")
    nodes = values.get("numa.nodeaffinity", "").strip()
    vm.add("numa_affinity", nodes or NONE, "numa.nodeAffinity")
    latency = values.get("sched.cpu.latencysensitivity", "normal").lower()
    if latency in LATENCY_SENSITIVITIES:
        vm.add("latency_sensitivity", latency, "sched.cpu.latencySensitivity")
    devices = [
        key
        for key, value in values.items()
        if re.fullmatch(r"pcipassthru\d+\.present", key) and is_true(value)
    ]
    vm.add("passthrough_devices", len(devices), "pciPassthruN.present")
    return vm


def _is_memory_reserved(values: Mapping[str, str], memory: int | None) -> bool:
    reserved = parse_whole(values.get("sched.mem.min")) or 0
    return is_true(values.get("sched.mem.pin")) or bool(memory and reserved >= memory)


def _add_adapter(inventory: Inventory, values: Mapping[str, str], prefix: str, vm: InventoryObject) -> None:
    adapter = inventory.add_object("adapter", f"{vm.name} {prefix}", "vmx")
    adapter.add("model", values.get(f"{prefix}.virtualdev", DEFAULT_ADAPTER).lower(), f"{prefix}.virtualDev")
    connected = values.get(f"{prefix}.startconnected")
    adapter.add("connected", connected is None or is_true(connected), f"{prefix}.startConnected")
    key = "address" if values.get(f"{prefix}.addresstype", "").lower() == "static" else "generatedaddress"
    adapter.add("mac", parse_mac(values.get(f"{prefix}.{key}")), f"{prefix}.{key}")
    add_adapter_tuning(adapter, values, prefix, vm)


def add_adapter_tuning(
    adapter: InventoryObject, values: Mapping[str, str], prefix: str, vm: InventoryObject
) -> None:
    """Add the advanced settings of a vmxnet3 adapter, and what it needs of its VM."""
    for fact in ("hardware_version", "memory_reserved", "vcpus"):
        if fact in vm.facts:
            adapter.facts[fact] = vm.facts[fact]
    scheme = values.get(f"{prefix}.coalescingscheme", "").strip().lower()
    parameters = values.get(f"{prefix}.coalescingparams", "").strip()
    source = f"{prefix}.coalescingScheme"
    if scheme:
        adapter.add("coalescing_scheme", scheme, source)
        adapter.add("coalescing_params", parameters or NONE, f"{prefix}.coalescingParams")
        adapter.add("coalescing_valid", _is_coalescing_valid(scheme, parameters), source)
    if threads := values.get(f"{prefix}.ctxperdev", "").strip():
        adapter.add("tx_threads", threads, f"{prefix}.ctxPerDev")
    features = parse_whole(values.get(f"{prefix}.pnicfeatures"))
    if features is not None:
        adapter.add("pnic_rss", bool(features & 4), f"{prefix}.pnicFeatures")
    adapter.add("uptv2", is_true(values.get(f"{prefix}.uptv2enabled")), f"{prefix}.uptv2Enabled")


def _is_coalescing_valid(scheme: str, parameters: str) -> bool:
    number = parse_whole(parameters)
    if scheme == "static":
        return not parameters or (number is not None and 1 <= number <= MAX_STATIC_PACKETS)
    if scheme == "rbc":
        return not parameters or (number is not None and MIN_RATE <= number <= MAX_RATE)
    return scheme in ("disabled", "adapt", "calibrate")


def _add_controller(inventory: Inventory, values: Mapping[str, str], bus: str, number: str) -> None:
    controller = inventory.add_object("disk_controller", f"{bus}{int(number)}", "vmx")
    model = values.get(f"{bus}{number}.virtualdev", "lsilogic" if bus == "scsi" else bus).lower()
    controller.add("model", model, f"{bus}{number}.virtualDev")
