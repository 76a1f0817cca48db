"""The inventory: objects of an audited system, with typed facts and where each was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from vnetbench.audit.facts import FACTS, FactValue
from vnetbench.printable import make_printable

PLATFORMS = ("linux", "windows", "vmx", "vsphere", "libvirt", "proxmox")
"""Sources of settings. The fix of a rule depends on them."""
MAX_TEXT_CHARACTERS = 200
"""Longest text kept of a name or value that others wrote."""


class Fact(NamedTuple):
    """One setting or counter of an object."""

    value: FactValue
    read_from: str
    """File, key or command that it was read from."""


@dataclass
class InventoryObject:
    """A machine, an interface, a VM, an adapter …, as the keys of `FACTS` list them."""

    kind: str
    name: str
    """Name within its system: "ens192", "vSwitch0"."""
    platform: str
    facts: dict[str, Fact] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Facts that exist but could not be read, with the reason."""

    def __post_init__(self) -> None:
        """Make the name safe to print."""
        assert self.kind in FACTS and self.platform in PLATFORMS, (self.kind, self.platform)
        self.name = shorten(self.name)

    def add(self, name: str, value: FactValue | None, read_from: str) -> None:
        """Add a fact; None adds nothing, because the source does not have it."""
        if value is None:
            return
        expected = FACTS[self.kind][name].type
        if expected is float and type(value) is int:
            value = float(value)
        assert type(value) is expected, f"{self.kind}.{name} is no {expected.__name__}: {value!r}"
        self.facts[name] = Fact(shorten(value) if isinstance(value, str) else value, shorten(read_from))

    def value(self, name: str) -> FactValue | None:
        """Return a fact's value, or None if it is unknown."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    def has(self, name: str) -> bool:
        """Return whether a fact is known and true."""
        return self.value(name) is True


@dataclass
class Inventory:
    """What was read of one target."""

    target: str
    """As the user named it: an SSH name, a file."""
    objects: list[InventoryObject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences about what could not be read, and how to read it."""

    def __post_init__(self) -> None:
        """Make the name safe to print: a file's name may have any character."""
        self.target = make_printable(self.target)

    def add_object(self, kind: str, name: str, platform: str) -> InventoryObject:
        """Add an object without facts, and return it."""
        created = InventoryObject(kind, name, platform)
        self.objects.append(created)
        return created

    def of_kind(self, kind: str) -> list[InventoryObject]:
        """Return the objects of a kind."""
        return [each for each in self.objects if each.kind == kind]


def shorten(text: str) -> str:
    """Return a text that is safe to print, on one line and not too long."""
    text = make_printable(text[: MAX_TEXT_CHARACTERS + 1])
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[: MAX_TEXT_CHARACTERS - 1]}…"
