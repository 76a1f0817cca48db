"""Read a vSphere inventory in JSON: a host's network configuration (HostNetworkInfo of vSphere's API).

    govc object.collect -json /DC/host/CLUSTER/HOST config.network

Keys are read in any case, because PowerCLI and older versions of govc write them with capitals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vnetbench.teaming.state.esxi import replace_failed
from vnetbench.teaming.state.team_state import TeamState, make_state_error, parse_json
from vnetbench.teaming.team import Team, Uplink

DUMP_FORMAT = "vSphere's HostNetworkInfo"
_FIX = "write it with govc object.collect -json HOST config.network"
_PATTERNS = tuple(re.compile(f'"{key}"\\s*:', re.IGNORECASE) for key in ("vswitch", "pnic"))
_POLICY_BY_API_NAME = {
    "loadbalance_ip": "ip-hash",
    "loadbalance_srcmac": "source-mac",
    "loadbalance_srcid": "port-id",
    "loadbalance_loadbased": "physical-load",
    "failover_explicit": "active-backup",
}
"""Values of HostNicTeamingPolicy.policy."""
_MAX_SPEED_MBIT_PER_S = 10**7
_DISTRIBUTED_NOTE = "The policy of a distributed switch is a setting of its port groups: give --policy."


def is_vsphere_inventory(text: str) -> bool:
    """Return whether the text is JSON with virtual switches and physical adapters."""
    return text.lstrip()[:1] in ("{", "[") and all(pattern.search(text) for pattern in _PATTERNS)


def read_vsphere_inventory(text: str, team_name: str | None) -> TeamState:
    """Return the state of the team of one virtual switch of one host.

    Args:
        text: The inventory.
        team_name: Name of the virtual switch; None if the host has only one with uplinks.

    Raises:
        BenchError: The inventory is damaged, has several hosts or switches, or an unknown policy.
    """
    try:
        networks = list(_find_networks(_lower_keys(parse_json(text))))
        if len(networks) != 1:
            raise make_state_error(DUMP_FORMAT, f"has {len(networks)} hosts", f"give one host: {_FIX}")
        return _read_network(networks[0], team_name)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise make_state_error(DUMP_FORMAT, "is damaged", _FIX) from None


def _lower_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key).lower(): _lower_keys(each) for key, each in value.items()}
    return [_lower_keys(each) for each in value] if isinstance(value, list) else value


def _find_networks(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the network configurations in a document, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get("vswitch"), list) and isinstance(value.get("pnic"), list):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _find_networks(each)


def _read_network(network: Mapping[str, Any], team_name: str | None) -> TeamState:
    switches = {str(each["name"]): each for each in network["vswitch"] if each.get("pnic")}
    distributed = {
        str(each["dvsname"]): each for each in network.get("proxyswitch") or () if each.get("pnic")
    }
    names = [*switches, *distributed]
    if team_name is None and len(names) == 1:
        team_name = names[0]
    if team_name not in names:
        what = "names no switch with uplinks" if not names else f"has the switches {', '.join(names[:8])}"
        fix = f"add --team {names[0]}, or the name of another" if names else _FIX
        raise make_state_error(DUMP_FORMAT, what, fix)
    nics = {str(each["device"]): each for each in network["pnic"]}
    device_by_key = {str(each.get("key")): name for name, each in nics.items()}
    if team_name in distributed:
        uplinks = [_make_uplink(device_by_key[key], nics) for key in distributed[team_name]["pnic"]]
        return _make_state(team_name, uplinks, None, [_DISTRIBUTED_NOTE])
    switch = switches[team_name]
    teaming = switch["spec"]["policy"]["nicteaming"]
    order = teaming.get("nicorder") or {}
    active = order.get("activenic") or [device_by_key[key] for key in switch["pnic"]]
    policy = _POLICY_BY_API_NAME.get(teaming["policy"])
    if policy is None:
        what = f'has the unknown policy "{teaming["policy"]}"'
        raise make_state_error(DUMP_FORMAT, what, "give --policy and --links instead")
    uplinks = [_make_uplink(name, nics) for name in active]
    standby = [_make_uplink(name, nics) for name in order.get("standbynic") or ()]
    uplinks, notes = replace_failed(uplinks, standby, policy)
    return _make_state(team_name, uplinks, policy, notes)


def _make_uplink(name: str, nics: Mapping[str, Any]) -> Uplink:
    """Return an adapter; the API gives no speed for one whose link is down."""
    link = nics[name].get("linkspeed")
    speed = link.get("speedmb") if link else None
    if not isinstance(speed, int) or not 0 < speed <= _MAX_SPEED_MBIT_PER_S:
        return Uplink(name, None, bool(link))
    return Uplink(name, speed * 10**6, bool(link))


def _make_state(name: str, uplinks: list[Uplink], policy: str | None, notes: list[str]) -> TeamState:
    down = [f"{uplink.name} is down." for uplink in uplinks if not uplink.is_up]
    first_up = next((i for i, uplink in enumerate(uplinks) if uplink.is_up), None)
    team = Team(tuple(uplinks), active=first_up)
    return TeamState(f"{DUMP_FORMAT}, switch {name}", team, policy, (*down, *notes))
