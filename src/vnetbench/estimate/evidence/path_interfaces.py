"""The interfaces of a machine that the load's packets pass, from the agent's list of all its interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.results.records import EndpointRecord, mapping_or_empty

_KINDS_WITH_KNOWN_NEIGHBOURS = frozenset(
    ("", "bond", "bridge", "dummy", "ifb", "ipvlan", "macvlan", "macvtap", "team", "tun", "veth", "vlan")
)
"""Kinds whose packets go to interfaces that the agent names. A route decides where those of a tunnel go."""


@dataclass(frozen=True)
class Interface:
    """An interface of a network namespace."""

    name: str
    kind: str
    """Its type, such as `vlan`; empty for hardware."""
    master: str
    """The bridge, bond or team that it is a part of; empty without one."""
    lower: str
    """The interface below it; empty without one."""
    redirects_to: tuple[str, ...]
    """Interfaces to which its filters send packets."""


def list_interfaces(endpoint: EndpointRecord) -> Sequence[Interface]:
    """Return the interfaces of an endpoint's network namespace; empty if they are unknown."""
    listed = mapping_or_empty(endpoint.totals.get("path_state")).get("interfaces")
    return [_read_interface(mapping_or_empty(each)) for each in listed] if isinstance(listed, list) else []


def interfaces_on_path(interfaces: Sequence[Interface], start: str) -> frozenset[str] | None:
    """Return the interfaces that packets to and from one of them pass; None if the list does not show it.

    These are the interfaces below and above it, the parts of a bond or bridge, and targets of filters.
    """
    by_name = {each.name: each for each in interfaces}
    found: set[str] = set()
    left = [start]
    while left:
        name = left.pop()
        if name in found:
            continue
        if name not in by_name:
            return None
        found.add(name)
        interface = by_name[name]
        if interface.kind not in _KINDS_WITH_KNOWN_NEIGHBOURS and not interface.lower:
            return None
        left += [each for each in (interface.master, interface.lower, *interface.redirects_to) if each]
        left += _members(interfaces, name) if name == start or interface.kind != "bridge" else ()
    return frozenset(found)


def count_stacked_interfaces(interfaces: Sequence[Interface], top_interface: str) -> int:
    """Return how many interfaces above each other receive a packet for this one: 3 for a VLAN over a bond."""
    by_name = {each.name: each for each in interfaces}
    levels, level, seen = 0, {top_interface}, set[str]()
    while level:
        levels += 1
        seen |= level
        below = {by_name[each].lower for each in level if each in by_name}
        below |= {member for each in level for member in _members(interfaces, each)}
        level = below - seen - {""}
    return levels


def _members(interfaces: Sequence[Interface], name: str) -> list[str]:
    return [each.name for each in interfaces if each.master == name]


def _read_interface(fields: Mapping[str, Any]) -> Interface:
    name, kind, master, lower = (str(fields.get(key) or "") for key in ("name", "kind", "master", "lower"))
    redirects = fields.get("redirects_to")
    # The two ends of a veth pair are above each other in no namespace.
    return Interface(
        name,
        kind,
        master,
        "" if kind == "veth" else lower,
        tuple(map(str, redirects)) if isinstance(redirects, list) else (),
    )
