"""Read dumps of esxcli on an ESXi host, one or several of them in one text.

esxcli network vswitch standard policy failover get -v vSwitch0    policy, active adapters
esxcli network vswitch standard list -v vSwitch0                   uplinks
esxcli network nic list                                            speed and link state
esxcli network vm port list -w WORLD                               uplink of each port
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vnetbench.teaming.flows import MAC_PATTERN, parse_mac
from vnetbench.teaming.policies.esxi import ALIASES
from vnetbench.teaming.state.team_state import (
    TeamState,
    make_state_error,
    parse_number,
    refuse_team_name,
)
from vnetbench.teaming.team import Team, Uplink

DUMP_FORMAT = "esxcli network"
_FAILOVER_COMMAND = "esxcli network vswitch standard policy failover get -v vSwitch0"
_FIELD_PATTERN = re.compile(r"^[ \t]+([A-Z][A-Za-z ]*):[ \t]*(.*)$", re.MULTILINE)
_NIC_PATTERN = re.compile(
    r"^(?P<name>vmnic[0-9]+)[ \t]+\S+[ \t]+\S+[ \t]+(?:(?P<admin>Up|Down)[ \t]+)?(?P<link>Up|Down)"
    r"[ \t]+(?P<speed>[0-9]{1,8})[ \t]",
    re.MULTILINE,
)
"""A row of `nic list`. Older versions have no column for the administrative state."""
_KNOWN_FIELDS = ("Load Balancing", "Uplinks", "Team Uplink")


def is_esxcli_dump(text: str) -> bool:
    """Return whether the text has a part that this module reads."""
    return bool(_NIC_PATTERN.search(text)) or any(
        name in _KNOWN_FIELDS for name, _ in _FIELD_PATTERN.findall(text)
    )


def read_esxcli_dumps(text: str, team_name: str | None = None) -> TeamState:
    """Return the state of the virtual switch's team; `team_name` must be the switch that the dump names.

    Raises:
        BenchError: No dump names the uplinks, they belong to several switches, or the policy is unknown.
    """
    fields = _FIELD_PATTERN.findall(text)
    _check_switch_name(_values(fields, "Name"), team_name)
    policy = _read_policy(_values(fields, "Load Balancing"))
    names = _read_uplink_names(fields)
    standby = [each for value in _values(fields, "Standby Adapters") for each in _split_names(value)]
    nics = {each["name"]: each for each in _NIC_PATTERN.finditer(text)}
    notes = [f"{name} is not in the list of adapters." for name in names if nics and name not in nics]
    uplinks = [_make_uplink(name, nics) for name in names]
    notes += [f"{uplink.name} is down." for uplink in uplinks if not uplink.is_up]
    uplinks, standby_notes = replace_failed(uplinks, [_make_uplink(name, nics) for name in standby], policy)
    notes += standby_notes
    by_port, by_mac = _read_ports(fields, [uplink.name for uplink in uplinks])
    first_up = next((i for i, uplink in enumerate(uplinks) if uplink.is_up), None)
    team = Team(tuple(uplinks), active=first_up, uplink_by_port_id=by_port, uplink_by_mac=by_mac)
    return TeamState(DUMP_FORMAT, team, policy, tuple(notes))


def _make_uplink(name: str, nics: Mapping[str, re.Match[str]]) -> Uplink:
    """Return an adapter with speed and link state of `nic list`; without that list it counts as up."""
    nic = nics.get(name)
    if nic is None:
        return Uplink(name)
    return Uplink(name, int(nic["speed"]) * 10**6 or None, nic["link"] == "Up")


def replace_failed(
    active: Sequence[Uplink], standby: Sequence[Uplink], policy: str | None
) -> tuple[list[Uplink], list[str]]:
    """Return the uplinks with the adapters on standby that take over, and a sentence about them.

    The first that are up take over, one for each that is down; not with IP hash, which uses no standby.
    """
    failed = sum(not uplink.is_up for uplink in active)
    taking_over = [uplink for uplink in standby if uplink.is_up][:failed] if policy != "ip-hash" else []
    if taking_over:
        names = ", ".join(uplink.name for uplink in taking_over)
        return [*active, *taking_over], [f"Adapters on standby replace those that are down: {names}."]
    names = ", ".join(uplink.name for uplink in standby)
    return list(active), [f"On standby, used if an active adapter fails: {names}."] if names else []


def _values(fields: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [value.strip() for key, value in fields if key == name]


def _split_names(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _check_switch_name(names: Sequence[str], team_name: str | None) -> None:
    if team_name is None or team_name in names:
        return
    if not names:
        refuse_team_name(DUMP_FORMAT, team_name)
    raise make_state_error(DUMP_FORMAT, f"is of the switch {names[0]}, not {team_name}", "correct --team")


def _read_policy(values: Sequence[str]) -> str | None:
    if len(set(values)) > 1:
        raise make_state_error(DUMP_FORMAT, "has several policies", f"dump one switch: {_FAILOVER_COMMAND}")
    if not values:
        return None
    if values[0] not in ALIASES:
        raise make_state_error(
            DUMP_FORMAT, f'has the unknown Load Balancing "{values[0]}"', "give --policy and --links instead"
        )
    return ALIASES[values[0]]


def _read_uplink_names(fields: Sequence[tuple[str, str]]) -> list[str]:
    lists = _values(fields, "Active Adapters") or _values(fields, "Uplinks")
    if len(set(lists)) > 1:
        raise make_state_error(
            DUMP_FORMAT, "has several virtual switches", f"dump one switch: {_FAILOVER_COMMAND}"
        )
    if not lists or not _split_names(lists[0]):
        raise make_state_error(
            DUMP_FORMAT, "names no uplinks of a switch", f"add the output of {_FAILOVER_COMMAND}"
        )
    return _split_names(lists[0])


def _read_ports(
    fields: Sequence[tuple[str, str]], names: Sequence[str]
) -> tuple[dict[int, int], dict[bytes, int]]:
    """Return the uplink of each port ID and of each MAC address in `vm port list`."""
    by_port: dict[int, int] = {}
    by_mac: dict[bytes, int] = {}
    port_id, mac = "", ""
    for name, value in fields:
        if name == "Port ID":
            port_id, mac = value.strip(), ""
        elif name == "MAC Address":
            mac = value.strip()
        elif name == "Team Uplink" and value.strip() in names:
            uplink = names.index(value.strip())
            number = parse_number(port_id)
            if number is not None:
                by_port[number] = uplink
            if MAC_PATTERN.fullmatch(mac):
                by_mac[parse_mac(mac)] = uplink
    return by_port, by_mac
