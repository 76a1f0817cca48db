"""Teams of real guests: Linux bonding, LACP between two guests, predictions, and a link that goes down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from tests.lab.ssh_hosts import wait_until
from tests.lab.team_links import MIN_LOAD_BYTES, SOURCE_PORTS, check_links_with_data
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.team_traffic import TeamTraffic, collect_team_traffic
from vnetbench.lab.disruption.link_end import LinkEnd
from vnetbench.lab.guest.lab import QemuLab, guest_shape
from vnetbench.lab.guest.prerequisites import prepare_guests
from vnetbench.lab.guest.team_events import GuestLinkDown, find_adapters
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.teams import IN_GATEWAYS, IN_GUESTS, TeamSpec
from vnetbench.study.workloads import TCP_STREAM

pytestmark = pytest.mark.lab

LINKS = 2
LOAD_S = 3.0


def make_instrument(location: str) -> LabInstrument:
    spec = TestbedSpec(lab=QEMU, teams=(TeamSpec(location=location, links=LINKS, speed="20 Mbit/s"),))
    prerequisites = prepare_guests([guest_shape(levels(location), spec)])
    return LabInstrument(QemuLab(spec, "a test", prerequisites), spec)


def levels(location: str, **more: Level) -> Mapping[str, Level]:
    role = "bridge" if location == IN_GATEWAYS else "guest-to-guest"
    return complete_levels({"role": role, **more}, TCP_STREAM, QEMU)


@pytest.fixture(scope="module")
def gateways() -> Iterator[LabInstrument]:
    with closing(make_instrument(IN_GATEWAYS)) as instrument:
        yield instrument


@pytest.fixture(scope="module")
def guests() -> Iterator[LabInstrument]:
    with closing(make_instrument(IN_GUESTS)) as instrument:
        yield instrument


def measure_streams(instrument: LabInstrument, location: str, policy: str, **more: Level) -> TrialMeasurement:
    load: dict[str, Level] = {"streams": 4, "direction": "both", "source_ports": SOURCE_PORTS, **more}
    factors = levels(location, team_policy=policy, **load)
    return instrument.measure(TrialLoad(factors, LOAD_S, 0.1, TCP_STREAM), lambda: False).measurement


def make_record(measured: TrialMeasurement) -> TrialRecord:
    return TrialRecord(0, 0, "", 0.0, LOAD_S, 0.0, dict(measured.effective), measured.endpoints)


def team_traffic(measured: TrialMeasurement) -> TeamTraffic:
    (team,) = collect_team_traffic(select_steady_part(make_record(measured), 0))
    return team


def check_that_predicted_links_carry_the_load(measured: TrialMeasurement, policy: str) -> None:
    team = team_traffic(measured)
    assert (team.policy, team.flows) == (policy, 8)
    assert [link.speed_bps for link in team.links] == [20_000_000] * LINKS
    assert not any(team.open_flows.values())
    check_links_with_data(make_record(measured), team, "a1")


@pytest.mark.parametrize("policy", ["active-backup", "layer3+4", "802.3ad/layer3+4"])
def test_a_team_of_gateways_carries_each_flow_on_its_predicted_link(
    gateways: LabInstrument, policy: str
) -> None:
    measured = measure_streams(gateways, IN_GATEWAYS, policy)
    check_that_predicted_links_carry_the_load(measured, policy)
    teams: Any = measured.effective["teams"]
    (team,) = teams
    has_lacp = policy.startswith("802.3ad")
    assert (team["lacp"], team["lacp_timer"]) == (("negotiated", "fast") if has_lacp else ("off", None))
    assert team["far_end"] == ("switch without a bond" if policy == "active-backup" else "bond")
    assert team["ready_s"] > 0


def test_two_guests_negotiate_lacp_and_their_flow_takes_its_predicted_link(guests: LabInstrument) -> None:
    policy = "802.3ad/layer3+4"
    measured = measure_streams(guests, IN_GUESTS, policy, streams=1, direction="forward")
    teams: Any = measured.effective["teams"]
    assert (teams[0]["lacp"], teams[0]["far_end"]) == ("negotiated", "bond")
    team = team_traffic(measured)
    assert (team.policy, team.flows, team.open_flows) == (policy, 1, {"forward": 0, "reverse": 0})
    check_links_with_data(make_record(measured), team, "a1")
    # The other direction carries only acknowledgements: perhaps few, but none on the other link.
    others = [link.reverse for link in team.links if not link.reverse.predicted_flows]
    assert len(others) == LINKS - 1 and all(each.bytes < MIN_LOAD_BYTES for each in others)


def test_a_gateway_negotiates_lacp_with_open_vswitch(gateways: LabInstrument) -> None:
    policy = "802.3ad/layer3+4"
    measured = measure_streams(gateways, IN_GATEWAYS, policy, team_far_end="balance-tcp", direction="forward")
    teams: Any = measured.effective["teams"]
    (described,) = teams
    keys = ("lacp", "far_end", "far_policy")
    assert [described[key] for key in keys] == ["negotiated", "bond", "balance-tcp"]
    team = team_traffic(measured)
    assert (team.flows, team.open_flows) == (4, {"forward": 0, "reverse": 0})
    check_links_with_data(make_record(measured), team, "a1")


def test_a_gateway_without_a_link_uses_the_other_one_until_it_is_back(gateways: LabInstrument) -> None:
    measure_streams(gateways, IN_GATEWAYS, "active-backup")
    (testbed,) = gateways._testbeds.values()
    assert isinstance(testbed, GuestTestbed) and testbed.team is not None
    team = testbed.team
    ends = LinkEnd(team.links.near[0]), LinkEnd(team.links.far[0])
    event = GuestLinkDown(*ends, find_adapters(0, team, testbed.running))
    try:
        event.prepare()
        event.begin()
        wait_until(lambda: team.read_near_state().team.active == 1)
        assert [uplink.is_up for uplink in team.read_near_state().team.uplinks] == [False, True]
        event.observe_during()
        event.end()
        wait_until(lambda: team.read_near_state().team.active == 0)
        assert event.prove()["carrier_changes"] == 2
    finally:
        event.restore()


def test_the_hash_policy_of_a_bond_is_set_through_the_bridge_above_it(gateways: LabInstrument) -> None:
    measure_streams(gateways, IN_GATEWAYS, "layer3+4")
    (testbed,) = gateways._testbeds.values()
    assert isinstance(testbed, GuestTestbed) and testbed.team is not None
    agent = testbed.agents[testbed.team.topology.team_ends[0].guest.name]
    knob: Any = {"interface": "br0", "knob": "team_hash_policy"}
    assert agent.call("knob.get", interface="br0", knobs=["team_hash_policy"])["values"] == {
        "team_hash_policy": "layer3+4"
    }
    assert agent.call("knob.set", **knob, value="layer2+3")["effective"] == "layer2+3"
    assert testbed.team.read_near_state().policy_name == "layer2+3"
    assert agent.call("knob.set", **knob, value="layer3+4")["effective"] == "layer3+4"
    assert testbed.team.read_near_state().policy_name == "layer3+4"
