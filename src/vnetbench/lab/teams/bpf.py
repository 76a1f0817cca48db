"""A team of BPF programs behind a bridge, as in testbeds, and which member carries each flow by policy."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_agents_in_namespaces
from vnetbench.lab import netlink, registry
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.bpf_policies import BPF_POLICY_BY_NAME, find_predicted_policy
from vnetbench.lab.netns.topology import NetDevice, namespace_name, team_port
from vnetbench.lab.teams.agreement import (
    Agreement,
    carry_flows,
    compare_with_prediction,
    wait_until_forwarding,
)
from vnetbench.lab.teams.members import MAX_FRAMES_IN_FLIGHT, CarriedFrames
from vnetbench.study.teams import ACTIVE_BACKUP, BALANCE_RR, PHYSICAL_LOAD, PORT_ID, SOURCE_MAC
from vnetbench.teaming.flows import Flow, parse_mac
from vnetbench.teaming.team import Team, Uplink

BRIDGE = "sw0"
SOURCE_COUNT = 4
"""Ports of the bridge from which frames come: `port-id` gives each a member."""
_PORT_POLICIES = (PORT_ID, PHYSICAL_LOAD)


@dataclass(frozen=True)
class BpfTeam:
    """A team of BPF programs between the sources at a bridge and as many links as it has members."""

    agent: AgentClient
    sources: tuple[NetDevice, ...]
    """Interfaces whose frames the bridge receives."""
    port_ids: tuple[int, ...]
    """Index of the bridge's port of each source."""
    members: tuple[NetDevice, ...]
    """The far end of each member's link."""

    def configure(self, policy: str, active: int, balance: Mapping[str, Any] | None = None) -> None:
        """Start the team anew with this policy and active member; raises AgentError.

        Args:
            policy: One of BPF_POLICIES.
            active: Number of the active member.
            balance: The parameter `balance` of `team.start`; None moves no port.
        """
        names = [_member_name(number) for number in range(len(self.members))]
        parameters = BPF_POLICY_BY_NAME[policy].parameters()
        self.agent.call(
            "team.start",
            port=team_port(BRIDGE),
            members=names,
            active=active,
            balance=balance,
            **parameters,
        )

    def read_team(self, policy: str, active: int) -> Team:
        """Return the state for predictions: the active member and the table of ports or MAC addresses."""
        table = self.agent.call("team.read", port=team_port(BRIDGE))["table"]
        ports = {_port_name(number): port_id for number, port_id in enumerate(self.port_ids)}
        return Team(
            tuple(Uplink(_member_name(number)) for number in range(len(self.members))),
            active=active if policy == ACTIVE_BACKUP else None,
            uplink_by_port_id={ports[row["port"]]: int(row["member"]) for row in table if "port" in row},
            uplink_by_mac={parse_mac(row["mac"]): int(row["member"]) for row in table if "mac" in row},
            packets_carry_hash=False,
        )


@contextmanager
def start_bpf_team(member_count: int) -> Iterator[BpfTeam]:
    """Create a bridge, sources and links, and start an agent; all end with the context. Raises BenchError."""
    name = f"team-{secrets.token_hex(4)}"
    namespace = namespace_name(name, "sw")
    registry.register_testbed(name, "team of BPF programs", {"name": name, "members": member_count})
    agents: dict[str, AgentClient] = {}
    try:
        builder.add_namespace(namespace, builder.NO_IPV6_SYSCTLS)
        with netlink.open_in_namespace(namespace) as ipr:
            (bridge,) = builder.add_bridges(ipr, [BRIDGE]).values()
            builder.add_team_port(ipr, BRIDGE, bridge)
            for number in range(SOURCE_COUNT):
                builder.add_veth(ipr, _port_name(number), f"source{number}")
                builder.attach_port(ipr, _port_name(number), bridge)
            for number in range(member_count):
                builder.add_veth(ipr, _member_name(number), f"far{number}")
            port_ids = tuple(netlink.interface_index(ipr, _port_name(n)) for n in range(SOURCE_COUNT))
        start_agents_in_namespaces({"sw": namespace}, name, agents)
        sources, members = (
            tuple(NetDevice(f"interface {kind}{n}", namespace, f"{kind}{n}") for n in range(count))
            for kind, count in (("source", SOURCE_COUNT), ("far", member_count))
        )
        yield BpfTeam(agents["sw"], sources, port_ids, members)
    finally:
        for agent in agents.values():
            agent.close()
        registry.remove_testbed_and_list_remaining_groups(name)


def measure_policy(team: BpfTeam, policy: str, flows: Sequence[Flow]) -> Agreement:
    """Run a policy and return how many flows the predicted members carried; raises BenchError.

    Where a table decides, the prediction uses the table that the flows have filled before.
    """
    # The last one, so that "the first member" is no right answer.
    active = len(team.members) - 1
    team.configure(policy, active)
    for source in team.sources:
        wait_until_forwarding(source, team.members)
    if policy == SOURCE_MAC:
        _carry_from_all_sources(team, flows, policy)
    predicted = team.read_team(policy, active)
    carried = _carry_from_all_sources(team, flows, policy)
    sent = [replace(flow, source_port_id=_port_id(team, number)) for number, flow in enumerate(flows)]
    return compare_with_prediction(find_predicted_policy(policy), predicted, sent, carried)


def _port_id(team: BpfTeam, flow_number: int) -> int:
    return team.port_ids[flow_number % SOURCE_COUNT]


def _carry_from_all_sources(team: BpfTeam, flows: Sequence[Flow], policy: str) -> CarriedFrames:
    """Send each flow's frame: from all sources in turn if ports decide, else from the first."""
    if policy not in _PORT_POLICIES:
        # Frames that take turns have to reach the team in their order.
        window = 1 if policy == BALANCE_RR else MAX_FRAMES_IN_FLIGHT
        return carry_flows(team.sources[0], team.members, flows, max_frames_in_flight=window)
    carried = CarriedFrames()
    for first, source in enumerate(team.sources):
        part = carry_flows(source, team.members, flows[first::SOURCE_COUNT])
        carried.foreign_frame_count += part.foreign_frame_count
        for number, members in part.members_by_frame.items():
            carried.members_by_frame[first + number * SOURCE_COUNT] = members
    return carried


def _port_name(number: int) -> str:
    return f"port{number}"


def _member_name(number: int) -> str:
    return f"member{number}"
