"""The flows of a testbed's load just before it starts, and the link that its team gives each of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Protocol

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.endpoint import PairSide
from vnetbench.lab.netns.bpf_policies import find_predicted_policy
from vnetbench.lab.netns.testbed_team import TeamStates, TestbedTeam
from vnetbench.lab.netns.topology import Vm
from vnetbench.teaming.advice import advise
from vnetbench.teaming.flow_sources.socket_list import parse_socket_list
from vnetbench.teaming.flows import UDP, Flow, parse_mac
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.predict import MAC_LEARNING, count_independent_flows, predict_flows
from vnetbench.teaming.prediction import Prediction, certain, undecided
from vnetbench.teaming.team import Team

MAX_ADVISED_FLOWS = 64
"""Advice for more flows would delay the load, whose connections wait meanwhile."""
MAX_LISTED_FLOWS = 64
"""Results files list the links of each flow up to this number of flows."""
_FIRST_TRIED_PORT, _TRIED_PORTS = 32768, 256
"""Ports that are tried to find the links that a parity reaches, from the start of Linux's default range."""
_LIST_TIMEOUT_S = 60.0
"""Limit for listing sockets, which takes milliseconds, also on a busy machine."""
_SOCKET_LIST_COMMAND = ("ss", "--tcp", "--udp", "--numeric")


class HostEndpoints(Protocol):
    """A topology with endpoints on the host."""

    @property
    def switch_namespace(self) -> str:
        """The namespace of the virtual switches, whose ports to the endpoints have their names."""

    def endpoints_on_side(self, side: PairSide) -> tuple[Vm, ...]:
        """Return the endpoints on the host on one side, by pair."""


def list_load_flows(topology: HostEndpoints) -> tuple[Flow, ...]:
    """Return the connected flows between the VMs of all pairs, from side a to side b.

    Flows of UDP have a TCP connection each for control, which carries no load: it is left out. Frames have no
    sockets, so their flows are not listed.

    Raises:
        BenchError: if the sockets of a VM cannot be listed.
    """
    sides = zip(topology.endpoints_on_side("a"), topology.endpoints_on_side("b"), strict=True)
    flows = [flow for a, b in sides for flow in _list_pair_flows(topology, a, b)]
    datagrams = tuple(flow for flow in flows if flow.protocol == UDP)
    return datagrams or tuple(flows)


def _list_pair_flows(topology: HostEndpoints, a: Vm, b: Vm) -> Iterable[Flow]:
    command = ["ip", "netns", "exec", a.namespace, *_SOCKET_LIST_COMMAND]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_LIST_TIMEOUT_S
        )
        reasons = process.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
        is_listed = process.returncode == 0
    except subprocess.TimeoutExpired:
        reasons, is_listed = [f"ss did not end within {_LIST_TIMEOUT_S:g} s"], False
    if not is_listed:
        raise BenchError(
            f"the sockets of {a.name} cannot be listed: {reasons[0]}",
            where=a.name,
            fix="install iproute2, which contains ss",
        )
    macs = [parse_mac(netlink.interface_mac(*vm.device.location)) for vm in (a, b)]
    with netlink.open_in_namespace(topology.switch_namespace) as ipr:
        # The port of a VM has its name.
        ports = [netlink.interface_index(ipr, vm.name) for vm in (a, b)]
    sources, destinations = ({ip_address(vm.address), ip_address(vm.ipv6_address)} for vm in (a, b))
    for flow in parse_socket_list(process.stdout).flows:
        if flow.source in sources and flow.destination in destinations:
            yield replace(
                flow,
                source_mac=macs[0],
                destination_mac=macs[1],
                source_port_id=ports[0],
                destination_port_id=ports[1],
            )


def predict_load(team: TestbedTeam, states: TeamStates, flows: Sequence[Flow]) -> dict[str, Any]:
    """Return how many flows the team puts on each link, for the results file.

    Args:
        team: The team.
        states: Its states just before the load.
        flows: Flows of the load, from side a to side b.

    Returns:
        `flows`; `distinct_flows`, how many of them the policy can distinguish; `same_parity_links`, see
        `count_links_of_same_parity`; for each direction the number of flows on each link, and of those whose
        link the state does not show; `links_by_flow`, see `list_links_by_flow`; and `advice`, sentences
        about what would spread the flows better.
    """
    policy = find_predicted_policy(states.near.policy_name or team.spec.policy)
    if states.far is not None and states.far.policy_name is not None:
        far_policy = find_predicted_policy(states.far.policy_name)
        prediction = predict_flows(flows, policy, states.near.team, far_policy, states.far.team)
        reverse = [each.reverse for each in prediction.flows]
    else:
        prediction = predict_flows(flows, policy, states.near.team, MAC_LEARNING)
        reverse = predict_learned_answers(flows, [each.forward for each in prediction.flows])
    forward = [each.forward for each in prediction.flows]
    has_advice = 0 < len(flows) <= MAX_ADVISED_FLOWS
    return {
        "flows": len(flows),
        "distinct_flows": count_independent_flows(prediction),
        "same_parity_links": count_links_of_same_parity(flows, policy, states.near.team),
        **count_by_link("forward", forward, team.spec.links),
        **count_by_link("reverse", reverse, team.spec.links),
        **list_links_by_flow(flows, forward, reverse),
        "advice": list(advise(prediction).sentences) if has_advice else [],
    }


def count_links_of_same_parity(flows: Sequence[Flow], policy: Policy, team: Team) -> int | None:
    """Return how many links flows reach whose source ports are all even, or all odd, as those of these flows.

    Linux gives connections even ports first (net/ipv4/inet_hashtables.c, __inet_hash_connect). A hash that
    keeps the lowest bit of the port then reaches half of an even number of links.

    Returns:
        None if there are fewer than two flows, if their ports are not all even or all odd, or if the policy
        does not read source ports or does not decide by them alone.
    """
    ports = [flow.source_port for flow in flows if flow.source_port is not None]
    parities = {port % 2 for port in ports}
    if len(flows) < 2 or len(ports) < len(flows) or len(parities) != 1 or "source_port" not in policy.needs:
        return None
    (parity,) = parities
    first = _FIRST_TRIED_PORT + parity
    tried = [replace(flows[0], source_port=first + 2 * step) for step in range(_TRIED_PORTS)]
    links = {policy.predict(flow, team).uplink for flow in tried}
    return None if None in links else len(links)


def predict_learned_answers(flows: Sequence[Flow], forward: Sequence[Prediction]) -> list[Prediction]:
    """Return the links of answers from a switch that learns addresses.

    An address whose flows take several links moves with each frame, so nothing shows the link of an answer.
    """
    links_by_mac: dict[bytes | None, set[int]] = {}
    for flow, each in zip(flows, forward, strict=True):
        links_by_mac.setdefault(flow.source_mac, set()).update(each.candidates)
    return [
        certain(min(links))
        if len(links := links_by_mac[flow.source_mac]) == 1
        else undecided(links, "the link on which the switch last saw the address")
        for flow in flows
    ]


def count_by_link(direction: str, predictions: Sequence[Prediction], links: int) -> dict[str, object]:
    """Return the number of flows on each link in a direction, and of those whose link is open."""
    counts = [sum(each.uplink == number for each in predictions) for number in range(links)]
    return {direction: counts, f"{direction}_open": len(predictions) - sum(counts)}


def list_links_by_flow(
    flows: Sequence[Flow], forward: Sequence[Prediction], reverse: Sequence[Prediction]
) -> dict[str, object]:
    """Return the ports of each flow and its link in each direction, None if open; empty if there are many."""
    if len(flows) > MAX_LISTED_FLOWS:
        return {}
    return {
        "links_by_flow": [
            {
                "source_port": flow.source_port,
                "destination_port": flow.destination_port,
                "forward": there.uplink,
                "reverse": back.uplink,
            }
            for flow, there, back in zip(flows, forward, reverse, strict=True)
        ]
    }
