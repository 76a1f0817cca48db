"""Testbeds whose guests have a team, as data: guests, links, and the options of the bonding driver."""

from __future__ import annotations

from typing import Any

import pytest

from vnetbench.lab.guest.lab import guest_shape
from vnetbench.lab.guest.team_topology import GuestTeamTopology, make_guest_topology
from vnetbench.lab.guest.topology import TEAM_LINK_SPEED_MBPS, Guest, GuestTopology
from vnetbench.lab.netns.topology import observed_devices
from vnetbench.study.bonding_policies import BONDING_POLICIES, bonding_options
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.teams import IN_GATEWAYS, IN_GUESTS, TeamSpec
from vnetbench.study.workloads import TCP_STREAM
from vnetbench.teaming.policies.registry import find_policy

pytestmark = pytest.mark.pure

LINKS = 3


def topology_of(location: str, **factors: Level) -> GuestTeamTopology:
    spec = TestbedSpec(lab=QEMU, teams=(TeamSpec(location=location, links=LINKS),))
    topology = make_guest_topology("t-team", guest_shape(complete_levels(factors, TCP_STREAM, QEMU), spec))
    assert isinstance(topology, GuestTeamTopology)
    return topology


def path_names(topology: GuestTopology, pair: int) -> list[str]:
    elements = topology.path_elements(pair)
    return [element.name if isinstance(element, Guest) else element.interface for element in elements]


def test_the_guests_of_a_pair_have_a_member_for_each_link() -> None:
    topology = topology_of(IN_GUESTS)
    assert [(guest.name, len(guest.nics)) for guest in topology.guests] == [("a1", LINKS), ("b1", LINKS)]
    assert [(each.name, each.interface) for each in topology.endpoints] == [("a1", "bond0"), ("b1", "bond0")]
    assert path_names(topology, 1) == [
        "a1", "a1-eth0", "a1-eth1", "a1-eth2", "sw0-link0", "sw0-link1", "sw0-link2",
        "sw1-link0", "sw1-link1", "sw1-link2", "b1-eth0", "b1-eth1", "b1-eth2", "b1",
    ]  # fmt: skip
    macs = [nic.mac for guest in topology.guests for nic in guest.nics]
    assert len(set(macs)) == 2 * LINKS


def test_gateways_forward_for_all_pairs_of_vms() -> None:
    topology = topology_of(IN_GATEWAYS, role="bridge", guests=2)
    assert [guest.name for guest in topology.guests] == ["g1", "g2"]
    assert [vm.name for vm in topology.vms] == ["a1", "b1", "a2", "b2"]
    for end in topology.team_ends:
        assert [nic.guest_interface for nic in end.inner_nics] == ["eth0"]
        assert end.member_names == ("eth1", "eth2", "eth3")
        assert end.adapter_number(2) == 3
    names = path_names(topology, 2)
    assert names[:3] == ["eth0", "a2", "g1"] and names[-3:] == ["g2", "b2", "eth0"]
    assert all(len(name) <= 15 for name in [*observed_devices(topology), *topology.vswitches])


def test_virtio_members_report_a_speed_that_lacp_needs() -> None:
    for adapter, speed in (("virtio-net", TEAM_LINK_SPEED_MBPS), ("vmxnet3", None)):
        shape = topology_of(IN_GATEWAYS, role="bridge", adapter=adapter).shape
        hardware = shape.hardware("tcg")
        assert [each.link_speed_mbps for each in hardware.adapters] == [speed] * (1 + LINKS)
    assert str(shape) == "vmxnet3 role=bridge team_location=gateways team_link_count=3"


@pytest.mark.parametrize(
    ("policy", "lacp", "expected"),
    [
        ("active-backup", "auto", {"mode": "active-backup", "primary": "eth1"}),
        ("balance-rr", "auto", {"mode": "balance-rr"}),
        ("layer2+3", "auto", {"mode": "balance-xor", "xmit_hash_policy": "layer2+3"}),
        (
            "802.3ad/layer3+4",
            "auto",
            {"mode": "802.3ad", "xmit_hash_policy": "layer3+4", "lacp_rate": "fast"},
        ),
        (
            "802.3ad/layer2",
            "slow",
            {"mode": "802.3ad", "xmit_hash_policy": "layer2", "lacp_rate": "slow"},
        ),
    ],
)
def test_a_policy_has_its_options_of_the_driver(policy: str, lacp: str, expected: dict[str, Any]) -> None:
    options = bonding_options(TeamSpec(location=IN_GUESTS, policy=policy, lacp=lacp), "eth1")
    assert options == {"miimon": "100", **expected}


def test_the_passive_end_of_lacp_only_answers() -> None:
    team = TeamSpec(location=IN_GUESTS, policy="802.3ad/layer2")
    assert "lacp_active" not in bonding_options(team, "eth0")
    assert bonding_options(team, "eth0", is_passive=True)["lacp_active"] == "off"


def test_each_policy_can_be_predicted_and_only_some_need_a_team_at_the_other_end() -> None:
    assert {find_policy(policy).family for policy in BONDING_POLICIES} == {"Linux bonding"}
    plain = {
        policy
        for policy in BONDING_POLICIES
        if TeamSpec(location=IN_GUESTS, policy=policy).far_policy is None
    }
    assert plain == {"active-backup", "balance-tlb", "balance-alb"}
