"""The teams of hosts in a trial: the state of each, and the member that it gives each flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.hosts.team_reading import OPEN_VSWITCH, HostTeam
from vnetbench.lab.netns.bpf_policies import find_predicted_policy
from vnetbench.lab.netns.team_load import (
    MAX_ADVISED_FLOWS,
    count_by_link,
    count_links_of_same_parity,
    list_links_by_flow,
    predict_learned_answers,
)
from vnetbench.lab.netns.testbed_team import CHANNEL
from vnetbench.study.teams import ACTIVE_BACKUP, BALANCE_ALB, BALANCE_TLB, IN_HOSTS, POLICIES_WITHOUT_CHANNEL
from vnetbench.teaming.advice import advise
from vnetbench.teaming.flows import TCP, UDP, Flow
from vnetbench.teaming.predict import UNKNOWN, count_independent_flows, predict_flows
from vnetbench.teaming.prediction import Prediction
from vnetbench.teaming.state.linux_bonding import NO_PARTNER

_REBALANCE_INTERVAL_S = 10.0
"""Interval in which Open vSwitch (its default), balance-tlb and balance-alb move flows between members."""
_NOT_COUNTED = "{} bypasses the kernel, so nothing counts what it carries."
_DIRECTION_BY_SIDE = {"a": ("forward", "reverse"), "b": ("reverse", "forward")}
"""The direction in which the host of a side sends, and the one in which it receives."""


def describe_host_team(endpoint: Endpoint, team: HostTeam) -> dict[str, Any]:
    """Return a team of a host as it was read, for the results file."""
    policy = str(team.state.policy_name)
    has_partner = any(each["partner_mac"] not in (None, NO_PARTNER) for each in team.lacp_by_member.values())
    has_balancer = policy in (BALANCE_TLB, BALANCE_ALB) or (
        team.kind == OPEN_VSWITCH and policy != ACTIVE_BACKUP
    )
    uncounted = [name for name in team.members if name not in team.counted_members]
    return {
        "name": f"{endpoint.name} {team.name}",
        "location": IN_HOSTS,
        "endpoint": endpoint.name,
        "side": endpoint.side,
        "kind": team.kind,
        "policy": policy,
        "lacp": _lacp_state(team, has_partner=has_partner),
        "far_end": CHANNEL if team.has_lacp and has_partner else "",
        **({"rebalance_interval_s": _REBALANCE_INTERVAL_S} if has_balancer else {}),
        **({} if team.state.team.active is None else {"active": team.state.team.active}),
        "remarks": [*team.state.notes, *(_NOT_COUNTED.format(name) for name in uncounted)],
        "links": [
            {
                "name": each.name,
                "interface": each.name,
                "speed_bps": each.speed_bps,
                "enabled": each.is_up,
                "lacp": team.lacp_by_member.get(each.name),
            }
            for each in team.state.team.uplinks
        ],
    }


def _lacp_state(team: HostTeam, *, has_partner: bool) -> str:
    if not team.has_lacp:
        return "off"
    if not team.lacp_by_member:
        return "unknown"
    return "negotiated" if has_partner else "not negotiated"


def describe_unreadable_team(endpoint: Endpoint, reason: str) -> dict[str, Any]:
    """Return the record of a team that cannot be read."""
    name = f"{endpoint.name} {endpoint.interface}"
    return {"name": name, "location": IN_HOSTS, "endpoint": endpoint.name, "unreadable": reason, "links": []}


def list_sent_flows(
    endpoint: Endpoint, peer: Endpoint, team: HostTeam, streams: Sequence[Mapping[str, Any]], ip_version: str
) -> tuple[Flow, ...]:
    """Return the flows of the connected streams of a host, in the direction in which it sends."""
    return tuple(
        Flow(
            ip_address(endpoint.address_for(ip_version)),
            ip_address(peer.address_for(ip_version)),
            team.source_mac,
            team.next_hop_mac,
            stream["local_port"],
            stream["remote_port"],
            UDP if "udp_gro" in stream else TCP,
            vlan=team.vlan,
        )
        for stream in streams
        if stream.get("local_port") is not None and stream.get("remote_port") is not None
    )


def predict_host_load(team: HostTeam, side: str, flows: Sequence[Flow]) -> dict[str, Any]:
    """Return how many flows the team puts on each member, for the results file; empty if it cannot say.

    The switch chooses the member of frames that the host receives. Without a channel, it sends where it
    learned the host's address. The hash of a channel is unknown, so the members of these frames are open.

    Args:
        team: The team just before the load.
        side: Side of the host.
        flows: Flows of the load in the direction in which the host sends.
    """
    policy = find_predicted_policy(str(team.state.policy_name))
    state = team.state.team
    try:
        prediction = predict_flows(flows, policy, state, UNKNOWN)
        sent = [each.forward for each in prediction.flows]
        has_advice = 0 < len(flows) <= MAX_ADVISED_FLOWS
        advice = list(advise(prediction).sentences) if has_advice else []
    except BenchError:
        return {}  # The host does not know an address that the policy reads.
    received: list[Prediction] = [each.reverse for each in prediction.flows]
    if policy.name in POLICIES_WITHOUT_CHANNEL and not team.has_lacp:
        received = predict_learned_answers(flows, sent)
    sending, receiving = _DIRECTION_BY_SIDE[side]
    is_forward = side == "a"
    links = len(state.uplinks)
    return {
        "flows": len(flows),
        "distinct_flows": count_independent_flows(prediction),
        "same_parity_links": count_links_of_same_parity(flows, policy, state),
        **count_by_link(sending, sent, links),
        **count_by_link(receiving, received, links),
        **list_links_by_flow(flows, *((sent, received) if is_forward else (received, sent))),
        "advice": advice,
    }
