"""Read `/proc/net/bonding/*`, as drivers/net/bonding/bond_procfs.c of Linux 3.10 to 6.12 prints it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vnetbench.teaming.policies.linux_bonding import MODES_WITH_HASH, XMIT_HASH_POLICIES
from vnetbench.teaming.state.team_state import (
    TeamState,
    make_state_error,
    parse_number,
    refuse_team_name,
)
from vnetbench.teaming.team import Team, Uplink

DUMP_FORMAT = "/proc/net/bonding"
_COMMAND = "cat /proc/net/bonding/bond0 as root"
_PATTERN = re.compile(r"^Bonding Mode: ", re.MULTILINE)
_POLICY_BY_MODE = {
    "load balancing (round-robin)": "balance-rr",
    "fault-tolerance (active-backup)": "active-backup",
    "load balancing (xor)": "balance-xor",
    "fault-tolerance (broadcast)": "broadcast",
    "IEEE 802.3ad Dynamic link aggregation": "802.3ad",
    "transmit load balancing": "balance-tlb",
    "adaptive load balancing": "balance-alb",
}
"""bond_mode_name() in bond_main.c. active-backup may be followed by its fail_over_mac."""
_DISTRIBUTING = 0x20
"""LACP_STATE_DISTRIBUTING of the port state, IEEE 802.1AX-2008, 5.4.2.2."""
NO_PARTNER = "00:00:00:00:00:00"
"""The partner's MAC address before LACP has found one."""


@dataclass
class _Section:
    """The lines of the bond, or of one member: values by their first key, and those of its LACP parts."""

    fields: dict[str, str] = field(default_factory=dict)
    parts: dict[str, dict[str, str]] = field(default_factory=dict)


def is_bonding_dump(text: str) -> bool:
    """Return whether the text is a file of /proc/net/bonding."""
    return _PATTERN.search(text) is not None


def read_bonding_dump(text: str, team_name: str | None = None) -> TeamState:
    """Return the state of the bond, which the dump does not name.

    Raises:
        BenchError: The dump has several bonds, an unknown mode or hash policy, or no members.
    """
    refuse_team_name(DUMP_FORMAT, team_name)
    _check_one_bond(text)
    bond, members = _parse_sections(text)
    mode = next(
        (name for start, name in _POLICY_BY_MODE.items() if bond.fields["Bonding Mode"].startswith(start)),
        None,
    )
    if mode is None:
        raise make_state_error(
            DUMP_FORMAT,
            f'has the unknown mode "{bond.fields["Bonding Mode"]}"',
            "give --policy and --links instead",
        )
    if not members:
        raise make_state_error(
            DUMP_FORMAT, "has no member", "add an interface to the bond, or give --links instead"
        )
    notes: list[str] = []
    uplinks = tuple(_make_uplink(name, member, bond, mode, notes) for name, member in members.items())
    active_name = bond.fields.get("Currently Active Slave", "None")
    names = list(members)
    hash_policy = _read_hash_policy(bond)
    policy = hash_policy if mode in MODES_WITH_HASH else mode
    if mode == "802.3ad":
        notes += _lacp_notes(bond, members)
    return TeamState(
        f"{DUMP_FORMAT}, mode {mode}",
        Team(
            uplinks,
            active=names.index(active_name) if active_name in names else None,
            xmit_hash_policy=hash_policy,
        ),
        policy,
        tuple(notes),
    )


@dataclass(frozen=True)
class MemberLacp:
    """LACP at one member of a bond."""

    is_attached: bool
    """Whether the member belongs to the aggregator that carries the traffic."""
    partner_mac: str
    """System ID of the partner, all zero without one."""
    partner_key: int | None


def read_member_lacp(text: str) -> dict[str, MemberLacp]:
    """Return LACP at each member of a dump of mode 802.3ad, as far as the dump shows it (to root only)."""
    bond, members = _parse_sections(text)
    if "Active Aggregator Info" not in bond.parts:
        return {}
    return {
        name: MemberLacp(
            not _find_lacp_exclusion(member, bond),
            partner.get("system mac address", NO_PARTNER),
            parse_number(partner.get("oper key", "")),
        )
        for name, member in members.items()
        if (partner := member.parts.get("details partner lacp pdu")) is not None
    }


def _check_one_bond(text: str) -> None:
    bonds = len(_PATTERN.findall(text))
    if bonds > 1:
        raise make_state_error(DUMP_FORMAT, f"has {bonds} bonds", "give the file of one bond")


def _parse_sections(text: str) -> tuple[_Section, dict[str, _Section]]:
    bond, members = _Section(), dict[str, _Section]()
    current, part = bond, bond.fields
    for line in text.splitlines():
        key, separator, value = (each.strip() for each in line.partition(":"))
        if not separator:
            continue
        if key == "Slave Interface":
            current = members.setdefault(value, _Section())
            part = current.fields
        elif key in ("details actor lacp pdu", "details partner lacp pdu", "Active Aggregator Info"):
            part = current.parts.setdefault(key, {})
        else:
            if not line[:1].isspace():
                part = current.fields
            part.setdefault(key, value)
    return bond, members


def _make_uplink(name: str, member: _Section, bond: _Section, mode: str, notes: list[str]) -> Uplink:
    speed = re.match(r"([0-9]{1,8}) Mbps", member.fields.get("Speed", ""))
    is_up = member.fields.get("MII Status") == "up"
    if is_up and mode == "802.3ad":
        reason = _find_lacp_exclusion(member, bond)
        if reason:
            notes.append(f"{name} carries nothing: {reason}.")
            is_up = False
    elif not is_up:
        notes.append(f"{name} is {member.fields.get('MII Status', 'in an unknown state')}.")
    return Uplink(name, int(speed[1]) * 10**6 if speed else None, is_up)


def _find_lacp_exclusion(member: _Section, bond: _Section) -> str:
    """Return why a member of an 802.3ad bond sends nothing (bond_update_slave_arr); empty if it sends."""
    active = bond.parts.get("Active Aggregator Info", {}).get("Aggregator ID")
    own = member.fields.get("Aggregator ID", "N/A")
    if active is not None and own != active:
        return f"it is in aggregator {own}, the active one is {active}"
    state = parse_number(member.parts.get("details actor lacp pdu", {}).get("port state", ""))
    if state is not None and not state & _DISTRIBUTING:
        return "its LACP port does not distribute"
    return ""


def _lacp_notes(bond: _Section, members: dict[str, _Section]) -> list[str]:
    info = bond.parts.get("Active Aggregator Info")
    if info is None:
        aggregators = {member.fields.get("Aggregator ID") for member in members.values()}
        if len(aggregators) > 1:
            return [f"The dump names no active aggregator of {len(aggregators)}: read it with {_COMMAND}."]
        return []
    if info.get("Partner Mac Address") == NO_PARTNER:
        return ["LACP is not negotiated: the partner's MAC address is zero."]
    return []


def _read_hash_policy(bond: _Section) -> str:
    text = bond.fields.get("Transmit Hash Policy", "layer2 (0)")
    name = text.partition(" ")[0]
    if name not in XMIT_HASH_POLICIES:
        raise make_state_error(
            DUMP_FORMAT,
            f'has the unknown hash policy "{text}"',
            f"give --policy with one of {', '.join(XMIT_HASH_POLICIES)}",
        )
    return name
