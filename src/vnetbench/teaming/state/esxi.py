"""Read dumps of esxcli on an ESXi host, one or several of them in one text.

esxcli network vswitch standard policy failover get -v vSwitch0    policy, active adapters
esxcli network vswitch standard list -v vSwitch0                   uplinks
esxcli network nic list                                            speed and link state
esxcli network vm port list -w WORLD                               uplink of each port
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vnetbench.teaming.flows import MAC_PATTERN, parse_mac
from vnetbench.teaming.policies.esxi import ALIASES
from vnetbench.teaming.state.team_state import TeamState, make_state_error
from vnetbench.teaming.team import Team, Uplink

DUMP_FORMAT = "esxcli network"
_FAILOVER_COMMAND = "esxcli network vswitch standard policy failover get -v vSwitch0"
_FIELD_PATTERN = re.compile(r"^[ \t]+([A-Z][A-Za-z ]*):[ \t]*(.*)$", re.MULTILINE)
_NIC_PATTERN = re.compile(
    r"^(?P<name>vmnic\d+)\s+\S+\s+\S+\s+(?:(?P<admin>Up|Down)\s+)?(?P<link>Up|Down)\s+(?P<speed>\d+)\s",
    re.MULTILINE,
)
"""A row of `nic list`. Older versions have no column for the administrative state."""
_KNOWN_FIELDS = ("Load Balancing", "Uplinks", "Team Uplink")


def is_esxcli_dump(text: str) -> bool:
    """Return whether the text has a part that this module reads."""
    return bool(_NIC_PATTERN.search(text)) or any(
        name in _KNOWN_FIELDS for name, _ in _FIELD_PATTERN.findall(text)
    )


def read_esxcli_dumps(text: str) -> TeamState:
    """Return the state of the virtual switch's team.

    Raises:
        BenchError: No dump names the uplinks, they belong to several switches, or the policy is unknown.
    """
    fields = _FIELD_PATTERN.findall(text)
    policy = _read_policy(_values(fields, "Load Balancing"))
    names = _read_uplink_names(fields)
    nics = {each["name"]: each for each in _NIC_PATTERN.finditer(text)}
    notes = [f"{name} is not in the list of adapters." for name in names if nics and name not in nics]
    uplinks = tuple(
        Uplink(
            name,
            int(nics[name]["speed"]) * 10**6 if name in nics and int(nics[name]["speed"]) else None,
            name not in nics or nics[name]["link"] == "Up",
        )
        for name in names
    )
    notes += [f"{uplink.name} is down." for uplink in uplinks if not uplink.is_up]
    standby = [each for value in _values(fields, "Standby Adapters") for each in _split_names(value)]
    if standby:
        notes.append(f"On standby, used if an active adapter fails: {', '.join(standby)}.")
    by_port, by_mac = _read_ports(fields, names)
    first_up = next((i for i, uplink in enumerate(uplinks) if uplink.is_up), None)
    team = Team(uplinks, active=first_up, uplink_by_port_id=by_port, uplink_by_mac=by_mac)
    return TeamState(DUMP_FORMAT, team, policy, tuple(notes))


def _values(fields: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [value.strip() for key, value in fields if key == name]


def _split_names(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


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
            if port_id.isdigit():
                by_port[int(port_id)] = uplink
            if MAC_PATTERN.fullmatch(mac):
                by_mac[parse_mac(mac)] = uplink
    return by_port, by_mac
