"""Read libvirt's domain XML: `virsh dumpxml`."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from vnetbench.audit.duplicates import parse_mac
from vnetbench.audit.files.vm import NONE, parse_whole
from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.audit.linux.sections import parse_cpu_list
from vnetbench.errors import BenchError

MAX_DEPTH, MAX_ELEMENTS = 64, 200_000
_DECLARATION = re.compile(r"\s*<\?xml[^>]{0,200}\?>")
_MACHINE_VERSION = re.compile(r"-(\d{1,3}\.\d{1,3})")
_OFFLOADS = ("csum", "gso", "tso4", "tso6")


class _UnsafeXmlError(Exception):
    """The document declares entities, or is too deep or too large."""


class _BoundedTreeBuilder(TreeBuilder):
    """Builds a tree with limits, and refuses a document type: entities can expand without end."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = self._elements = 0

    def doctype(self, name: str, public_id: str | None, system: str) -> None:
        """Refuse the document."""
        raise _UnsafeXmlError("the document declares a document type, which no domain has")

    def start(self, tag: str, attributes: dict[str, str]) -> Element:
        """Open an element."""
        self._depth += 1
        self._elements += 1
        if self._depth > MAX_DEPTH or self._elements > MAX_ELEMENTS:
            raise _UnsafeXmlError("the document has too many elements, or too many levels of them")
        return super().start(tag, attributes)

    def end(self, tag: str) -> Element:
        """Close an element."""
        self._depth -= 1
        return super().end(tag)


def parse_xml(text: str, where: str) -> Element:
    """Return the root of an XML document.

    Raises:
        BenchError: The document is damaged, cut off, or could exhaust memory.
    """
    parser = XMLParser(target=_BoundedTreeBuilder())
    declaration = _DECLARATION.match(text)  # The text is decoded already, so its encoding is no longer true.
    try:
        parser.feed(text[declaration.end() :] if declaration else text)
        return parser.close()
    except _UnsafeXmlError as error:
        raise BenchError(str(error), where=where, fix="export the domain again: virsh dumpxml NAME") from None
    except ParseError as error:
        raise BenchError(
            f"this is no complete XML document ({error})",
            where=where,
            fix="export it again: virsh dumpxml NAME",
        ) from None


def read_domain(text: str, where: str) -> Inventory:
    """Return the inventory of a domain.

    Raises:
        BenchError: The document is no domain.
    """
    root = parse_xml(text, where)
    domains = [root] if root.tag == "domain" else root.findall("domain")
    if not domains:
        raise BenchError(
            f"this is no libvirt domain but <{root.tag[:40]}>", where=where, fix="run virsh dumpxml NAME"
        )
    inventory = Inventory(where)
    for domain in domains:
        add_domain(inventory, domain)
    return inventory


def add_domain(inventory: Inventory, domain: Element) -> None:
    """Add the VM, the adapters and the disk controllers of a `<domain>`."""
    vm = _add_vm(inventory, domain)
    for index, interface in enumerate(domain.findall("devices/interface")):
        _add_adapter(inventory, interface, index, vm)
    for index, disk in enumerate(domain.findall("devices/disk")):
        _add_disk(inventory, disk, index)


def _add_vm(inventory: Inventory, domain: Element) -> InventoryObject:
    vm = inventory.add_object("vm", domain.findtext("name") or "domain", "libvirt")
    vm.add("vcpus", parse_whole(domain.findtext("vcpu") or "1"), "vcpu")
    if domain.get("type") in ("kvm", "qemu"):
        vm.add("accelerated", domain.get("type") == "kvm", "domain type")
    cpu = domain.find("cpu")
    mode = None if cpu is None else cpu.get("mode") or ("custom" if cpu.find("model") is not None else None)
    model = mode if mode != "custom" else cpu.findtext("model") if cpu is not None else None
    vm.add("cpu_model", (model or "default").strip(), "cpu")
    vm.add("numa", domain.find("cpu/numa") is not None, "cpu/numa")
    quota = parse_whole(domain.findtext("cputune/vcpu_quota") or domain.findtext("cputune/global_quota"))
    vm.add("cpu_limited", bool(quota), "cputune/vcpu_quota")
    vm.add("cpu_limit", f"{quota} µs per period" if quota else NONE, "cputune/vcpu_quota")
    emulator = domain.find("cputune/emulatorpin")
    pins = [pin.get("cpuset", "") for pin in domain.findall("cputune/vcpupin")]
    if emulator is not None and pins:
        vcpu_cpus = set().union(*map(parse_cpu_list, pins))
        shared = bool(parse_cpu_list(emulator.get("cpuset", "")) & vcpu_cpus)
        vm.add("emulator_shares_vcpus", shared, "cputune/emulatorpin")
    targets = [target.get("name") for target in domain.findall("devices/channel/target")]
    vm.add("guest_agent", "org.qemu.guest_agent.0" in targets, "devices/channel")
    if version := _MACHINE_VERSION.search(_attribute(domain, "os/type", "machine") or ""):
        vm.add("machine_version", float(version[1]), "os/type machine")
    return vm


def _add_adapter(inventory: Inventory, interface: Element, index: int, vm: InventoryObject) -> None:
    kind = interface.get("type", "")
    adapter = inventory.add_object("adapter", f"{vm.name} interface {index}", "libvirt")
    adapter.add("backend", kind or NONE, "interface type")
    adapter.add("mac", parse_mac(_attribute(interface, "mac", "address")), "mac")
    adapter.add("connected", _attribute(interface, "link", "state") != "down", "link")
    if kind == "hostdev":
        return
    model = _attribute(interface, "model", "type") or "default"
    adapter.add("model", model.lower(), "model type")
    if "vcpus" in vm.facts:
        adapter.facts["vcpus"] = vm.facts["vcpus"]
    if model.startswith("virtio"):
        adapter.add("vhost", _attribute(interface, "driver", "name") != "qemu", "driver name")
        queues = parse_whole(_attribute(interface, "driver", "queues"))
        adapter.add("queues", queues or 1, "driver queues")
        adapter.add("offloads_off", _offloads_off(interface), "driver/host, driver/guest")
    if kind == "direct":
        adapter.add("macvtap_mode", (_attribute(interface, "source", "mode") or "vepa"), "source mode")
    limits = [_attribute(interface, f"bandwidth/{way}", "average") for way in ("inbound", "outbound")]
    known = [limit for limit in limits if limit]
    adapter.add("bandwidth_limit", f"{known[0]} KiB/s" if known else NONE, "bandwidth")
    adapter.add("mtu", parse_whole(_attribute(interface, "mtu", "size")), "mtu size")


def _offloads_off(interface: Element) -> str:
    off = [
        f"{side} {name}"
        for side in ("host", "guest")
        for name in _OFFLOADS
        if _attribute(interface, f"driver/{side}", name) == "off"
    ]
    return ", ".join(off) or NONE


def _add_disk(inventory: Inventory, disk: Element, index: int) -> None:
    bus = _attribute(disk, "target", "bus")
    if disk.get("device", "disk") == "disk" and bus:
        name = _attribute(disk, "target", "dev") or f"disk {index}"
        inventory.add_object("disk_controller", name, "libvirt").add("model", bus.lower(), "target bus")


def _attribute(element: Element, path: str, name: str) -> str | None:
    child = element.find(path)
    return None if child is None else child.get(name)
