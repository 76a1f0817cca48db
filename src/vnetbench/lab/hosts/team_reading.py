"""Reads the team that a host's interface runs over: Linux bonding, the team driver or Open vSwitch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.hosts.ssh import Machine
from vnetbench.lab.netns.team_readings import LacpLink, parse_lacp_show
from vnetbench.printable import make_printable
from vnetbench.study.bonding_policies import LACP_MODE
from vnetbench.study.teams import BALANCE_TCP, LACP_POLICY_PREFIX
from vnetbench.teaming.flows import parse_mac
from vnetbench.teaming.state.linux_bonding import MemberLacp, read_bonding_dump, read_member_lacp
from vnetbench.teaming.state.open_vswitch import read_bond_show, read_bucket_rules
from vnetbench.teaming.state.team_state import TeamState
from vnetbench.teaming.state.teamd import read_teamd_state
from vnetbench.teaming.team import Uplink

BONDING, TEAM_DRIVER, OPEN_VSWITCH = "bonding", "teamd", "openvswitch"
_USERSPACE_DATAPATH = "netdev"

# Only reads. Arguments: the interface of the load, and the address of the peer. The first line of a team is
# `@team`, its state follows in lines with `@dump`. `find_team` looks at the interface and then below it.
READ_SCRIPT = r"""
LC_ALL=C; PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin:/usr/local/bin"; export LC_ALL PATH
has() { command -v "$1" >/dev/null 2>&1; }
print_vlan() { ip -d -o link show dev "$1" | sed -n 's/.* vlan protocol 802.1Q id \([0-9]*\) .*/@vlan \1/p'; }
find_open_vswitch_bond() {
    has ovs-vsctl || return 1
    if ovs-vsctl --timeout=5 br-exists "$1" 2>/dev/null; then bridge=$1
    else bridge=$(ovs-vsctl --timeout=5 iface-to-br "$1" 2>/dev/null) || {
        case $(ip -d -o link show dev "$1") in *openvswitch*|*"tun type tap"*)
            echo "@failed $(ovs-vsctl --timeout=5 show 2>&1 >/dev/null | tail -n 1)" ;;
        esac
        return 1
    }; fi
    for bond in $(ovs-appctl --timeout=5 bond/list | tail -n +2 | cut -f 1); do
        [ "$(ovs-vsctl --timeout=5 port-to-br "$bond" 2>/dev/null)" = "$bridge" ] || continue
        echo "@team openvswitch $bond"
        ovs-appctl --timeout=5 bond/show "$bond" | sed 's/^/@dump /'
        ovs-appctl --timeout=5 lacp/show "$bond" 2>/dev/null | sed 's/^/@lacp /'
        echo "@vlan $(ovs-vsctl --timeout=5 --if-exists get port "$1" tag)"
        echo "@datapath $(ovs-vsctl --timeout=5 get bridge "$bridge" datapath_type)"
        if [ "$(ovs-vsctl --timeout=5 get port "$bond" bond_mode)" = balance-tcp ]; then
            ovs-appctl --timeout=5 bridge/dump-flows "$bridge" | sed 's/^/@rule /'
            ovs-vsctl --timeout=5 --bare --columns=name,ofport list interface | sed 's/^/@port /'
        fi
        return 0
    done
    return 1
}
find_team() {
    print_vlan "$1"
    if [ -e "/proc/net/bonding/$1" ]; then
        echo "@team bonding $1"
        sed 's/^/@dump /' "/proc/net/bonding/$1"
        echo "@dynamic $(cat "/sys/class/net/$1/bonding/tlb_dynamic_lb" 2>/dev/null)"
        return 0
    fi
    if ip -d -o link show dev "$1" | grep -q '\\ *team '; then
        echo "@team teamd $1"
        state=$(teamdctl "$1" state dump 2>&1) || { echo "@failed $state"; return 0; }
        echo "$state" | sed 's/^/@dump /'
        return 0
    fi
    find_open_vswitch_bond "$1" && return 0
    for lower in "/sys/class/net/$1"/lower_*; do
        [ -e "$lower" ] && find_team "${lower##*/lower_}" && return 0
    done
    return 1
}
find_team "$1" || exit 0
for file in /sys/class/net/*/speed; do
    interface=${file%/speed}
    echo "@speed ${interface##*/} $(cat "$file" 2>/dev/null)"
done
echo "@mac $(cat "/sys/class/net/$1/address")"
hop=$(ip -o route get "$2" | sed -n 's/.* via \([^ ]*\) .*/\1/p')
ip neigh show to "${hop:-$2}" dev "$1" | sed -n 's/.*lladdr \([^ ]*\).*/@hop \1/p'
"""

_LISTED_PORTS = re.compile(r"(?P<name>\S+)\n(?P<number>[0-9]{1,5})(?:\n|\Z)")


@dataclass(frozen=True)
class HostTeam:
    """A team on a host, as the host reports it at one time."""

    kind: str
    """What runs it: BONDING, TEAM_DRIVER or OPEN_VSWITCH."""
    name: str
    state: TeamState
    lacp_by_member: Mapping[str, Mapping[str, Any]]
    """LACP at each member as results files store it. Empty without LACP, or if only root sees its details."""
    has_lacp: bool
    counted_members: tuple[str, ...]
    """Members with an interface of the host's kernel, which counts what they carry."""
    vlan: int | None
    """VLAN tag that the host gives the load below its interface."""
    source_mac: bytes | None
    next_hop_mac: bytes | None
    """Destination of the load's frames; None if the host does not know it yet."""

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members, in the team's order."""
        return tuple(each.name for each in self.state.team.uplinks)


def read_host_team(machine: Machine, interface: str, peer_address: str) -> HostTeam | None:
    """Return the team that an interface of a host runs over; None without one.

    Raises:
        BenchError: The host has a team whose state cannot be read.
    """
    result = machine.run(READ_SCRIPT, interface, peer_address)
    lines: dict[str, list[str]] = {}
    for line in result.output.splitlines():
        if line.startswith("@"):
            word, _, rest = line.partition(" ")
            lines.setdefault(word, []).append(rest)
    if reason := " ".join(lines.get("@failed", ())):
        raise _make_error(machine.name, interface, reason)
    if "@team" not in lines:
        return None
    kind, _, name = lines["@team"][0].partition(" ")
    try:
        return _parse_team(kind, make_printable(name), lines)
    except BenchError as error:
        raise _make_error(machine.name, name, error.what) from error


def _make_error(host: str, interface: str, reason: str) -> BenchError:
    return BenchError(
        f"the team at {make_printable(interface)} cannot be read: {make_printable(reason)}",
        where=host,
        fix="log in as root, and look at the team with its own tool (docs/how-to/measure-a-host-team.md)",
    )


def _parse_team(kind: str, name: str, lines: dict[str, list[str]]) -> HostTeam:
    dump = "\n".join(lines.get("@dump", ()))
    lacp: Mapping[str, LacpLink | MemberLacp] = {}
    if kind == BONDING:
        state = read_bonding_dump(dump)
        lacp = read_member_lacp(dump)
        has_lacp = state.dump_format.endswith(f" {LACP_MODE}")
        if has_lacp:
            state = replace(state, policy_name=f"{LACP_POLICY_PREFIX}{state.policy_name}")
        if lines.get("@dynamic") == ["0"]:
            state = replace(state, team=replace(state.team, has_dynamic_load_balancing=False))
    elif kind == TEAM_DRIVER:
        state = read_teamd_state(dump)
        has_lacp = state.dump_format.endswith(" lacp")
    else:
        state = _add_open_vswitch_tables(read_bond_show(dump, None), lines)
        lacp = parse_lacp_show("\n".join(lines.get("@lacp", ()))).link_by_interface
        has_lacp = bool(lacp)
    return HostTeam(
        kind,
        name,
        replace(state, team=replace(state.team, uplinks=_add_speeds(state.team.uplinks, lines))),
        {member: asdict(each) for member, each in lacp.items()},
        has_lacp,
        _find_counted_members(state, lines),
        next((int(each) for each in lines.get("@vlan", ()) if each.isdecimal()), None),
        _parse_mac_if_any(lines.get("@mac")),
        _parse_mac_if_any(lines.get("@hop")),
    )


def _add_open_vswitch_tables(state: TeamState, lines: dict[str, list[str]]) -> TeamState:
    team = replace(state.team, has_random_datapath_hash=lines.get("@datapath") != [_USERSPACE_DATAPATH])
    if state.policy_name == BALANCE_TCP:
        names = [each.name for each in team.uplinks]
        listed = _LISTED_PORTS.finditer("\n".join(lines.get("@port", ())))
        by_port = {int(each["number"]): names.index(each["name"]) for each in listed if each["name"] in names}
        buckets = read_bucket_rules("\n".join(lines.get("@rule", ())), by_port)
        team = replace(team, uplink_by_bucket=buckets or team.uplink_by_bucket)
    return replace(state, team=team)


def _add_speeds(uplinks: tuple[Uplink, ...], lines: dict[str, list[str]]) -> tuple[Uplink, ...]:
    """Return the members with the speed that their adapters report, where the state has none."""
    words = (line.split() for line in lines.get("@speed", ()))
    mbps = {each[0]: int(each[1]) for each in words if len(each) == 2 and each[1].isdecimal()}
    return tuple(
        each
        if each.speed_bps or not mbps.get(each.name)
        else replace(each, speed_bps=mbps[each.name] * 10**6)
        for each in uplinks
    )


def _find_counted_members(state: TeamState, lines: dict[str, list[str]]) -> tuple[str, ...]:
    in_kernel = {line.split()[0] for line in lines.get("@speed", ()) if line.split()}
    return tuple(each.name for each in state.team.uplinks if each.name in in_kernel)


def _parse_mac_if_any(found: list[str] | None) -> bytes | None:
    try:
        return parse_mac(found[0]) if found else None
    except BenchError:
        return None  # An interface without Ethernet, such as a tunnel.
