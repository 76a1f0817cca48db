"""What Open vSwitch reports about LACP at each link of a bond, and about addresses that change ports."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATUS_PATTERN = re.compile(r"^\s*status: (?:active|passive)(?: strict)?( negotiated)?$", re.MULTILINE)
_MEMBER_PATTERN = re.compile(r"^(?:member|slave): (\S+): (\w+) (attached|detached)$", re.MULTILINE)
_PARTNER_PATTERN = re.compile(r"^\s*partner sys_id: (\S+)$", re.MULTILINE)
_KEY_PATTERN = re.compile(r"^\s*partner key: (\d+)$", re.MULTILINE)
_MAC_MOVES_PATTERN = re.compile(r"^\s*Total number of port moved MAC entries\s*: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class LacpLink:
    """LACP at one end of a link (lib/lacp.c, lacp_print_details)."""

    status: str
    """`current`: frames of the partner arrive; `expired`: they stopped; `defaulted`: none arrived."""
    is_attached: bool
    """Whether the link belongs to the aggregator that carries the traffic."""
    partner_mac: str | None
    """System ID of the partner, all zero without one."""
    partner_key: int | None
    """Aggregation key of the partner. Links with other keys or partners belong to other aggregators."""


@dataclass(frozen=True)
class LacpReading:
    """LACP at one end of a team."""

    is_negotiated: bool
    link_by_interface: dict[str, LacpLink]


def parse_lacp_show(text: str) -> LacpReading:
    """Return what `ovs-appctl lacp/show` reports about one bond."""
    status = _STATUS_PATTERN.search(text)
    heads = list(_MEMBER_PATTERN.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)][: len(heads)]
    links = {
        head[1]: _parse_link(head[2], head[3] == "attached", text[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    }
    return LacpReading(status is not None and status[1] is not None, links)


def _parse_link(status: str, is_attached: bool, details: str) -> LacpLink:
    partner, key = _PARTNER_PATTERN.search(details), _KEY_PATTERN.search(details)
    return LacpLink(status, is_attached, partner[1] if partner else None, int(key[1]) if key else None)


def parse_mac_moves(text: str) -> int | None:
    """Return how often an address moved to another port, from `ovs-appctl fdb/stats-show`.

    None if the switch does not count it (before Open vSwitch 2.10).
    """
    found = _MAC_MOVES_PATTERN.search(text)
    return int(found[1]) if found else None
