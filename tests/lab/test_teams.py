"""Teams in testbeds of namespaces: bonds of Open vSwitch, created, shaped and proved for each treatment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from typing import Any

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.netns import open_vswitch_bonds
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape, describe_observed_interfaces, make_topology
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.teams import TeamSpec
from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.predict import predict_flows
from vnetbench.teaming.team import Team, Uplink

LINKS = 3
SPEED = "20 Mbit/s"


@pytest.fixture(scope="module")
def testbed() -> Iterator[NetnsTestbed]:
    shape = NetnsShape("openvswitch", team_link_count=LINKS)
    with closing(create_testbed("teams", shape, "a test")) as one:
        yield one


def set_up(testbed: NetnsTestbed, team: TeamSpec, **levels: Level) -> dict[str, Any]:
    factors = complete_levels({"vswitch": "openvswitch", **levels})
    return testbed.set_knobs_and_prove_paths(factors, TestbedSpec(teams=(team,)))


@pytest.mark.pure
def test_the_topology_names_both_ends_of_each_link() -> None:
    topology = make_topology("x", NetnsShape("openvswitch", pairs=2, team_link_count=2))
    assert topology.team is not None
    assert [device.interface for device in topology.team.near] == ["sw0-link0", "sw0-link1"]
    assert [device.interface for device in topology.team.far] == ["sw1-link0", "sw1-link1"]
    assert topology.rate_limited_devices == topology.team.devices
    observed = describe_observed_interfaces(topology)
    assert [(each["name"], each["role"], each["leads_to"], each["pairs"]) for each in observed] == [
        ("a1", "port", "a1", [1]),
        ("sw0-link0", "uplink", "sw1", [1, 2]),
        ("sw0-link1", "uplink", "sw1", [1, 2]),
        ("sw1-link0", "uplink", "sw0", [1, 2]),
        ("sw1-link1", "uplink", "sw0", [1, 2]),
        ("b1", "port", "b1", [1]),
        ("a2", "port", "a2", [2]),
        ("b2", "port", "b2", [2]),
    ]


@pytest.mark.pure
@pytest.mark.parametrize("links", [2, 4, 8])
def test_ip_hash_gives_successive_pairs_of_vms_different_links(links: int) -> None:
    topology = make_topology("x", NetnsShape("bridge", pairs=links, team_link_count=links))
    pairs = zip(topology.endpoints_on_side("a"), topology.endpoints_on_side("b"), strict=True)
    flows = [Flow(ip_address(a.address), ip_address(b.address)) for a, b in pairs]
    team = Team(tuple(Uplink(f"link{number}", None) for number in range(links)))
    prediction = predict_flows(flows, find_policy("ip-hash"), team)
    assert {each.forward.uplink for each in prediction.flows} == set(range(links))
    other = make_topology("y", NetnsShape("bridge", pairs=2))
    assert [vm.address for vm in other.endpoints_on_side("b")] == ["10.77.2.1", "10.77.2.2"]


@pytest.mark.pure
def test_treatments_with_other_policies_share_a_testbed() -> None:
    lab = NetnsLab(TestbedSpec(teams=(TeamSpec(links=4),)), "a test")
    shapes = {
        lab.testbed_shape(complete_levels({"vswitch": "openvswitch", **levels}))
        for levels in ({}, {"team_policy": "balance-slb"}, {"team_links": 2})
    }
    assert {shape.team_link_count for shape in shapes} == {4, 2}
    assert str(lab.testbed_shape(complete_levels({"vswitch": "openvswitch"}))) == (
        "openvswitch pairs=1 team_links=4"
    )


@pytest.mark.lab
@pytest.mark.parametrize(
    "team",
    [
        TeamSpec(policy="active-backup", links=LINKS, speed=SPEED),
        TeamSpec(policy="active-backup", links=LINKS, speed=SPEED, lacp="on"),
        TeamSpec(policy="balance-slb", links=LINKS, speed=SPEED),
        TeamSpec(policy="balance-slb", links=LINKS, speed=SPEED, lacp="on"),
        TeamSpec(policy="balance-tcp", links=LINKS, speed=SPEED),
    ],
    ids=lambda team: f"{team.policy}, lacp {team.lacp}",
)
def test_a_team_takes_effect_and_both_ends_are_read_back(testbed: NetnsTestbed, team: TeamSpec) -> None:
    effective = set_up(testbed, team)
    (proved,) = effective["teams"]
    assert (proved["policy"], proved["lacp"]) == (team.policy, "negotiated" if team.has_lacp else "off")
    assert proved["far_end"] == ("bond" if team.has_lacp else "switch without a bond")
    assert [each["speed_bps"] for each in proved["links"]] == [20_000_000] * LINKS
    assert effective["path_mtu_proved"] == 1500
    assert testbed.team is not None
    states = testbed.team.read_states()
    for state in (states.near, states.far):
        if state is not None:
            assert state.policy_name == team.policy
            assert [each.is_up for each in state.team.uplinks] == [True] * LINKS
    if team.policy == "active-backup":
        assert states.near.team.active == 0
    if team.policy == "balance-tcp":
        # The path proof has used the bond, which gives each of its buckets a member.
        assert len(states.near.team.uplink_by_bucket) == 256
        assert states.far is not None
        assert len(states.far.team.uplink_by_bucket) == 256


@pytest.mark.lab
@pytest.mark.parametrize(
    ("lacp_active", "lacp", "policy"),
    [("near", "negotiated", "balance-tcp"), ("neither", "not negotiated", "active-backup")],
)
def test_lacp_needs_one_active_end(testbed: NetnsTestbed, lacp_active: str, lacp: str, policy: str) -> None:
    effective = set_up(testbed, TeamSpec(policy="balance-tcp", links=LINKS, lacp_active=lacp_active))
    (proved,) = effective["teams"]
    assert (proved["lacp_active"], proved["lacp"], proved["policy"]) == (lacp_active, lacp, policy)
    attached = [link["lacp"]["is_attached"] for link in proved["links"]]
    partners = {link["lacp"]["partner_mac"] for link in proved["links"]}
    assert testbed.team is not None
    if lacp_active == "neither":
        assert partners == {"00:00:00:00:00:00"}
        assert testbed.team.read_near_state().team.active == 0
    else:
        assert attached == [True] * LINKS and len(partners) == 1


@pytest.mark.lab
def test_links_of_different_speeds_are_shaped_each(testbed: NetnsTestbed) -> None:
    team = TeamSpec(policy="balance-slb", links=LINKS, speed="10 Mbit/s, 20 Mbit/s, 30 Mbit/s")
    effective = set_up(testbed, team)
    (proved,) = effective["teams"]
    assert [each["speed_bps"] for each in proved["links"]] == [10_000_000, 20_000_000, 30_000_000]
    with netlink.open_in_namespace(testbed.topology.switch_namespace) as ipr:
        kinds = {
            name: [q.get_attr("TCA_KIND") for q in ipr.get_qdiscs(netlink.interface_index(ipr, name))]
            for link in proved["links"]
            for name in (link["near"], link["far"])
        }
    assert all("tbf" in found for found in kinds.values()), kinds


@pytest.mark.lab
def test_the_factor_link_rate_shapes_the_links(testbed: NetnsTestbed) -> None:
    effective = set_up(testbed, TeamSpec(links=LINKS), link_rate=30_000_000)
    assert effective["link_rate"] == 30_000_000
    assert effective["teams"][0]["links"][0]["speed_bps"] == 30_000_000


@pytest.mark.lab
def test_no_trial_starts_before_every_member_is_ready(
    testbed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_vswitch_bonds, "LACP_TIMEOUT_S", 0.5)
    with netlink.open_in_namespace(testbed.topology.switch_namespace) as ipr:
        index = netlink.interface_index(ipr, "sw1-link1")
        ipr.link("set", index=index, state="down")
        try:
            with pytest.raises(BenchError, match="did not reach the expected state") as caught:
                set_up(testbed, TeamSpec(links=LINKS))
        finally:
            ipr.link("set", index=index, state="up")
    assert "member sw0-link1: disabled" in caught.value.what


@pytest.fixture(scope="module")
def bridges() -> Iterator[NetnsTestbed]:
    with closing(create_testbed("bpf-teams", NetnsShape("bridge", team_link_count=LINKS), "a test")) as one:
        yield one


@pytest.mark.lab
@pytest.mark.parametrize(
    ("policy", "far_end", "far_policy"),
    [
        ("ip-hash", "auto", "ip-hash"),
        ("ip-hash", "switch", None),
        ("port-id", "auto", None),
        ("port-id", "layer2", "layer2"),
        ("physical-load", "auto", None),
        ("balance-rr", "same", "balance-rr"),
        ("broadcast", "switch", None),
        ("active-backup", "switch", None),
    ],
)
def test_bridges_run_a_policy_with_each_far_end(
    bridges: NetnsTestbed, policy: str, far_end: str, far_policy: str | None
) -> None:
    team = TeamSpec(policy=policy, links=LINKS, speed=SPEED, far_end=far_end)
    factors = complete_levels({"vswitch": "bridge"})
    effective = bridges.set_knobs_and_prove_paths(factors, TestbedSpec(teams=(team,)))
    (proved,) = effective["teams"]
    assert (proved["policy"], proved["far_policy"], proved["lacp"]) == (policy, far_policy, "off")
    assert [each["speed_bps"] for each in proved["links"]] == [20_000_000] * LINKS
    assert bridges.team is not None
    # The path proof has used the team.
    frames = bridges.team.backend_values()["frames"]
    assert sum(frames["near"]["sent"]) > 0
    assert set(frames) == ({"near"} if far_policy is None else {"near", "far"})
