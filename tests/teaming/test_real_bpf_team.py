"""Predictions of every policy of a BPF team against its frames: which member carried each flow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.ssh_hosts import wait_until
from vnetbench.agents.client import AgentError
from vnetbench.lab.netns.bpf_policies import BPF_POLICY_BY_NAME, find_predicted_policy
from vnetbench.lab.netns.topology import team_port
from vnetbench.lab.teams.agreement import carry_flows
from vnetbench.lab.teams.bpf import BRIDGE, BpfTeam, measure_policy, start_bpf_team
from vnetbench.lab.teams.flows import random_flows
from vnetbench.study.teams import (
    ACTIVE_BACKUP,
    BALANCE_RR,
    BPF_POLICIES,
    IP_HASH,
    IP_HASH_WHOLE,
    PHYSICAL_LOAD,
)
from vnetbench.teaming.policies.registry import POLICIES
from vnetbench.teaming.team import make_team

MEMBER_COUNT = 3
"""Not a power of two, so that the byte order and each bit of a hash matter."""
FLOWS = random_flows(300, seed=20)


@pytest.fixture(scope="module")
def team() -> Iterator[BpfTeam]:
    with start_bpf_team(MEMBER_COUNT) as one:
        yield one


@pytest.mark.lab
@pytest.mark.parametrize("policy", BPF_POLICIES)
def test_the_predicted_member_carries_each_flow(team: BpfTeam, policy: str) -> None:
    found = measure_policy(team, policy, FLOWS)
    # Where members take turns, the turn of the first frame is not known.
    assert found.undecided_count == (1 if policy == BALANCE_RR else 0)
    assert (found.lost_count, found.disagreements) == (0, ())
    assert found.used_member_count == (1 if policy == ACTIVE_BACKUP else MEMBER_COUNT)


@pytest.mark.lab
def test_the_agent_counts_frames_by_member_and_those_without_the_fields(team: BpfTeam) -> None:
    measure_policy(team, "switch-src-ip", FLOWS[:50])
    counts = team.agent.call("team.read", port=team_port(BRIDGE))
    probes = len(team.sources)
    assert sum(each["sent"] for each in counts["members"]) >= 50 + probes
    assert (counts["lacking_fields"], counts["rejected"]) == (0, 0)
    assert team.agent.call("team.stop", port=team_port(BRIDGE))["was_running"]
    with pytest.raises(AgentError, match="sw0-team has no team"):
        team.agent.call("team.read", port=team_port(BRIDGE))


@pytest.mark.lab
def test_a_port_leaves_a_member_with_too_much_load_and_its_frames_follow(team: BpfTeam) -> None:
    # On the first member, which the first port gets, a single frame is too much load.
    balance = {"period_s": 0.1, "speeds_bps": [1, 10**12, 10**12]}
    team.configure(PHYSICAL_LOAD, 0, balance)
    assert team.agent.call("team.read", port=team_port(BRIDGE))["balance"] == balance

    def has_moved() -> bool:
        carry_flows(team.sources[0], team.members, FLOWS[:1])
        return bool(team.agent.call("team.read", port=team_port(BRIDGE))["moves"])

    wait_until(has_moved)
    moved = team.read_team(PHYSICAL_LOAD, 0)
    member = moved.uplink_by_port_id[team.port_ids[0]]
    assert member != 0
    carried = carry_flows(team.sources[0], team.members, FLOWS[1:])
    assert {tuple(each) for each in carried.members_by_frame.values()} == {(member,)}
    # The other members have room, so nothing moves again.
    assert team.agent.call("team.read", port=team_port(BRIDGE))["moves"] == 1


@pytest.mark.pure
def test_every_deterministic_policy_of_the_command_has_a_backend() -> None:
    assert tuple(BPF_POLICY_BY_NAME) == BPF_POLICIES
    of_guests, of_open_vswitch = {"balance-tlb", "balance-alb"}, {"balance-slb", "balance-tcp"}
    assert set(POLICIES) - set(BPF_POLICIES) == of_guests | of_open_vswitch


@pytest.mark.pure
def test_each_formula_of_ip_hash_is_predicted_alone() -> None:
    three = make_team(3)
    last, whole = (
        [find_predicted_policy(name).predict(flow, three).uplink for flow in FLOWS]
        for name in (IP_HASH, IP_HASH_WHOLE)
    )
    assert None not in last + whole
    assert last != whole
