"""Settings that only a running domain has, so that a restart would lose them."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_COMPARED_ELEMENTS = ("vcpu", "memory", "cputune", "numatune", "blkiotune", "memtune")
"""Elements outside `<devices>` that libvirt writes alike for the running domain and its definition."""
_SOURCE_ATTRIBUTES = ("file", "dev", "name", "volume")


def list_live_only_settings(running: str, definition: str) -> list[str]:
    """Return what differs between a running domain and its definition, as names for people.

    Args:
        running: XML of the domain as it runs.
        definition: XML that the next start uses.
    """
    live, inactive = ElementTree.fromstring(running), ElementTree.fromstring(definition)
    found = [
        tag for tag in _COMPARED_ELEMENTS if _canonical(live.find(tag)) != _canonical(inactive.find(tag))
    ]
    live_devices, defined_devices = (Counter(map(_identify_device, each)) for each in (
        _devices(live), _devices(inactive)
    ))  # fmt: skip
    differing = (live_devices - defined_devices) + (defined_devices - live_devices)
    return [*found, *sorted({" ".join(filter(None, each)) for each in differing})]


def _devices(domain: Element) -> Element:
    devices = domain.find("devices")
    return Element("devices") if devices is None else devices


def _identify_device(device: Element) -> tuple[str, ...]:
    """Return what identifies a device. A running domain has more details of it, such as its alias."""
    if device.tag == "interface":
        return device.tag, _read(device, "mac", "address"), _read(device, "model", "type")
    if device.tag == "disk":
        source = next((value for name in _SOURCE_ATTRIBUTES if (value := _read(device, "source", name))), "")
        return device.tag, _read(device, "target", "dev"), source
    if device.tag == "hostdev":
        source_element = device.find("source")
        return device.tag, _canonical(None if source_element is None else source_element.find("address"))
    return (device.tag,)


def _read(device: Element, path: str, name: str) -> str:
    child = device.find(path)
    return "" if child is None else child.get(name, "")


def _canonical(element: Element | None) -> str:
    if element is None:
        return ""
    return ElementTree.canonicalize(ElementTree.tostring(element), strip_text=True)
