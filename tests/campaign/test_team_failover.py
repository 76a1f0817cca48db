"""Events on a real team: the flow moves to another link, or stays silent where no LACP can notice."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.estimate.disruption import EventWindow, Outage, find_outages
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.results.records import HOST
from vnetbench.study.factors.disruption_factors import FLAP_PERIOD_S
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.teams import TeamSpec
from vnetbench.study.workloads import DISRUPTION

pytestmark = pytest.mark.lab

SPEC = TestbedSpec(teams=(TeamSpec(links=2),))
EVENT_S = 1.0
"""A trial fails if its event lasts twice as long: the bench may be late on a busy machine."""


def measure(event: str, event_s: float, duration_s: float, spec: TestbedSpec = SPEC) -> TrialMeasurement:
    levels: dict[str, Level] = {"vswitch": "openvswitch", "event": event, "event_duration": event_s}
    levels["rate"] = 2000
    load = TrialLoad(complete_levels(levels, DISRUPTION), duration_s, 0.1, DISRUPTION)
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec)) as instrument:
        return instrument.measure(load, lambda: False).measurement


def event_and_outage(measurement: TrialMeasurement) -> tuple[Any, Outage]:
    record: Any = next(each.totals["network_event"] for each in measurement.endpoints if each.name == HOST)
    window = EventWindow(record["begin_monotonic_ns"][0], record["end_monotonic_ns"][1])
    (outage,) = find_outages(measurement.endpoints, window)
    return record, outage


def test_a_team_moves_the_flow_from_a_link_without_carrier() -> None:
    record, _ = event_and_outage(measure("team-link-down", EVENT_S, 2.6))
    proof = record["proof"]
    assert record["target"] == "link0 of team uplinks"
    assert proof["carrier_changes"] >= 2 and proof["team_noticed"]
    assert (proof["link_before"], proof["link_during"]) == (0, 1)


def test_a_team_without_lacp_keeps_the_flow_on_a_silent_link_and_the_trial_says_so() -> None:
    measurement = measure("team-link-silent", EVENT_S, 2.6)
    record, outage = event_and_outage(measurement)
    proof = record["proof"]
    assert proof["link_was_up"] and proof["dropped_packets"] > 0
    assert not proof["team_noticed"] and proof["link_during"] == proof["link_before"] == 0
    assert any("because it has no LACP" in note for note in measurement.notes)
    assert outage.longest_ns >= record["end_monotonic_ns"][0] - record["begin_monotonic_ns"][1]


def test_a_link_that_flaps_goes_down_repeatedly_and_the_team_survives() -> None:
    record, _ = event_and_outage(measure("team-link-flap", 2.5 * FLAP_PERIOD_S, 2.6))
    proof = record["proof"]
    assert proof["downs"] >= 2 and proof["carrier_changes"] >= 2 * proof["downs"]
    assert proof["link_before"] == 0


def test_the_primary_link_of_active_backup_takes_the_flow_back_when_it_comes_up() -> None:
    record, outage = event_and_outage(measure("team-link-up", EVENT_S, 2.6))
    proof = record["proof"]
    assert (proof["link_before"], proof["link_during"]) == (1, 0)
    assert proof["team_noticed"] and proof["flow_returned"]
    assert outage.recovered_ns is not None


def test_a_rebalance_moves_the_flow_to_another_link_and_back() -> None:
    spec = TestbedSpec(teams=(TeamSpec(links=2, policy="balance-slb"),))
    record, _ = event_and_outage(measure("team-rebalance", EVENT_S, 2.6, spec))
    proof = record["proof"]
    assert {proof["link_before"], proof["link_during"]} == {0, 1}
    assert record["target"] == f"bucket {proof['bucket']} of team uplinks"


def test_a_team_without_its_lacp_partner_is_silent_after_the_timeout_although_all_links_are_up() -> None:
    spec = TestbedSpec(teams=(TeamSpec(links=2, policy="balance-tcp"),))
    record, outage = event_and_outage(measure("team-lacp-stop", 4.5, 11.0, spec))
    proof = record["proof"]
    assert proof["links_were_up"] and proof["dropped_packets"] > 0
    assert proof["team_noticed"] and proof["used_links_during"] == []
    assert outage.longest is not None and outage.longest.end_ns >= record["end_monotonic_ns"][0]
