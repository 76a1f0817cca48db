"""Definitions of domains as text: replace a device, compare two definitions, and keep hidden passwords.

What the bench does not change stays byte for byte as libvirt wrote it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.parsers import expat

from vnetbench.lab.libvirt.hardware import read_mac

CONTROLLER = "controller"


@dataclass(frozen=True)
class Device:
    """One child element of `<devices>`."""

    tag: str
    text: str

    def is_adapter(self, mac: str) -> bool:
        """Whether this is the network adapter with a MAC address."""
        return self.tag == "interface" and read_mac(ElementTree.fromstring(self.text)) == mac

    @property
    def is_pci_controller(self) -> bool:
        """Whether this is a PCI bus. libvirt adds some when an adapter needs another kind of slot."""
        return self.tag == CONTROLLER and ElementTree.fromstring(self.text).get("type") == "pci"


def list_devices(definition: str) -> list[Device]:
    """Return the devices of a definition in their order."""
    content = definition.encode()
    return [Device(tag, content[start:end].decode()) for tag, start, end in _find_devices(content)]


def replace_adapter(definition: str, mac: str, adapter: str) -> str:
    """Return a definition with another `<interface>` in the place of the one with a MAC address."""
    return _rebuild(definition, lambda each: adapter if each.is_adapter(mac) else each.text)


def are_equal(one: str, other: str) -> bool:
    """Return whether two definitions are equal, apart from the order of controllers.

    libvirt itself sorts the controllers when it reads a definition again.
    """
    return _make_comparable(one) == _make_comparable(other)


def differ_only_in_adapter(one: str, other: str, mac: str) -> bool:
    """Return whether two definitions are equal, apart from one adapter and from PCI buses."""

    def is_ignored(device: Device) -> bool:
        return device.is_adapter(mac) or device.is_pci_controller

    return _make_comparable(one, is_ignored) == _make_comparable(other, is_ignored)


def remove_added_pci_controllers(definition: str, original: str) -> str:
    """Return a definition without the PCI buses that the original lacks."""
    known = {each.text for each in list_devices(original)}
    return _rebuild(
        definition, lambda each: "" if each.is_pci_controller and each.text not in known else each.text
    )


def add_passwords(original: str, without_passwords: str, with_passwords: str) -> str:
    """Return a definition with the passwords that a domain has now.

    libvirt hides passwords of displays unless a request includes them, and the journal never has them.

    Args:
        original: The definition without passwords, from the journal.
        without_passwords: The domain's present definition, in the same form as `original`.
        with_passwords: The domain's present definition, with passwords.
    """
    devices = defaultdict(list)
    for hidden, shown in zip(list_devices(without_passwords), list_devices(with_passwords), strict=True):
        devices[hidden.text].append(shown.text)
    return _rebuild(original, lambda each: devices[each.text].pop(0) if devices[each.text] else each.text)


def _make_comparable(
    definition: str, is_ignored: Callable[[Device], bool] = lambda _device: False
) -> tuple[str, list[str]]:
    """Return canonical XML without controllers, and the controllers in a fixed order."""
    rest = _rebuild(definition, lambda each: "" if each.tag == CONTROLLER or is_ignored(each) else each.text)
    controllers = [
        each.text for each in list_devices(definition) if each.tag == CONTROLLER and not is_ignored(each)
    ]
    return _canonicalize(rest), sorted(map(_canonicalize, controllers))


def _canonicalize(xml: str) -> str:
    return ElementTree.canonicalize(xml, strip_text=True)


def _rebuild(definition: str, new_text: Callable[[Device], str]) -> str:
    """Return a definition with the text that a function gives for each device."""
    content = definition.encode()
    parts: list[bytes] = []
    position = 0
    for tag, start, end in _find_devices(content):
        parts += [content[position:start], new_text(Device(tag, content[start:end].decode())).encode()]
        position = end
    return b"".join([*parts, content[position:]]).decode()


def _find_devices(content: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield tag, start and end of each child of `domain/devices`, in bytes.

    libvirt writes `>` in attributes as `&gt;`, so the first `>` ends a tag.
    """
    path: list[str] = []
    starts: list[tuple[str, int]] = []
    ends: list[int] = []
    parser = expat.ParserCreate()

    def start_element(tag: str, _attributes: dict[str, str]) -> None:
        if path == ["domain", "devices"]:
            starts.append((tag, parser.CurrentByteIndex))
        path.append(tag)

    def end_element(_tag: str) -> None:
        path.pop()
        if path == ["domain", "devices"]:
            index = parser.CurrentByteIndex
            # The parser stands at `</tag>`, or after `<tag/>`.
            is_empty = content.startswith(b"/>", content.index(b">", starts[-1][1]) - 1, index)
            ends.append(index if is_empty else content.index(b">", index) + 1)

    parser.StartElementHandler, parser.EndElementHandler = start_element, end_element
    parser.Parse(content, True)
    for (tag, start), end in zip(starts, ends, strict=True):
        yield tag, start, end
