"""Teams of real guests: Linux bonding, LACP between two guests, predictions, and a link that goes down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.team_traffic import DIRECTIONS, collect_team_traffic
from vnetbench.lab.guest.lab import QemuLab, guest_shape
from vnetbench.lab.guest.prerequisites import prepare_guests
from vnetbench.results.records import HOST, TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.teams import IN_GATEWAYS, IN_GUESTS, TeamSpec
from vnetbench.study.workloads import DISRUPTION, TCP_STREAM

pytestmark = pytest.mark.lab

LINKS = 2
MIN_LOAD_BYTES = 10_000
"""A few full frames of a stream; more than LACP and requests for addresses can be."""
EVENT_S = 1.5
"""A trial fails if its event ends 20 % later: long enough for guests to be late on a busy machine."""


def make_instrument(location: str) -> LabInstrument:
    spec = TestbedSpec(lab=QEMU, teams=(TeamSpec(location=location, links=LINKS, speed="20 Mbit/s"),))
    prerequisites = prepare_guests([guest_shape(levels(location), spec)])
    return LabInstrument(QemuLab(spec, "a test", prerequisites), spec)


def levels(location: str, workload: str = TCP_STREAM, **more: Level) -> Mapping[str, Level]:
    role = "bridge" if location == IN_GATEWAYS else "guest-to-guest"
    return complete_levels({"role": role, **more}, workload, QEMU)


@pytest.fixture(scope="module")
def gateways() -> Iterator[LabInstrument]:
    with closing(make_instrument(IN_GATEWAYS)) as instrument:
        yield instrument


@pytest.fixture(scope="module")
def guests() -> Iterator[LabInstrument]:
    with closing(make_instrument(IN_GUESTS)) as instrument:
        yield instrument


def measure_streams(instrument: LabInstrument, location: str, policy: str) -> TrialMeasurement:
    factors = levels(location, team_policy=policy, streams=4, direction="both")
    return instrument.measure(TrialLoad(factors, 3.0, 0.1, TCP_STREAM), lambda: False).measurement


def check_that_predicted_links_carry_the_load(measured: TrialMeasurement, policy: str) -> None:
    trial = TrialRecord(0, 0, "", 0.0, 1.0, 0.0, dict(measured.effective), measured.endpoints)
    (team,) = collect_team_traffic(select_steady_part(trial, 0))
    assert (team.policy, team.flows) == (policy, 8)
    assert [link.speed_bps for link in team.links] == [20_000_000] * LINKS
    for direction in DIRECTIONS:
        carried = [getattr(link, direction) for link in team.links]
        assert not team.open_flows[direction]
        assert [each.bytes >= MIN_LOAD_BYTES for each in carried] == [
            bool(each.predicted_flows) for each in carried
        ]


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


def test_the_teams_of_two_guests_are_their_interfaces(guests: LabInstrument) -> None:
    measured = measure_streams(guests, IN_GUESTS, "802.3ad/layer3+4")
    check_that_predicted_links_carry_the_load(measured, "802.3ad/layer3+4")


def test_a_gateway_moves_the_flow_from_a_link_without_carrier(gateways: LabInstrument) -> None:
    factors = levels(
        IN_GATEWAYS,
        DISRUPTION,
        team_policy="active-backup",
        event="team-link-down",
        event_duration=EVENT_S,
        rate=500,
    )
    load = TrialLoad(factors, 4.5, 0.1, DISRUPTION)
    measured = gateways.measure(load, lambda: False).measurement
    event: Any = next(each.totals["network_event"] for each in measured.endpoints if each.name == HOST)
    proof = event["proof"]
    assert proof["team_noticed"] and proof["carrier_changes"] >= 2
    assert (proof["link_before"], proof["link_during"]) == (0, 1)
