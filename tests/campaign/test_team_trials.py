"""Trials over a real team: the links that were predicted carry the load, and the counters show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.lab.team_links import SOURCE_PORTS, check_links_with_data
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.estimate.evidence.trial_data import build_trial_data
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.team_traffic import DIRECTIONS, TeamTraffic, collect_team_traffic
from vnetbench.estimate.time_series import metric_time_series
from vnetbench.estimate.trial_metrics import metrics_of_steady_part, trial_metrics
from vnetbench.explain.rules import load_rules
from vnetbench.explain.scoring import rank_causes
from vnetbench.lab.netns import open_vswitch_team
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.netns.topology import NetnsShape, make_topology
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.teams import TeamSpec
from vnetbench.study.workloads import TCP_CRR, TCP_STREAM, UDP_STREAM

pytestmark = pytest.mark.lab

LINKS = 3
MAX_STRAY_PACKETS = 100
"""More than LACP (one frame a second at each end) and flooded frames can be, and far less than a stream."""
SPEC = TestbedSpec(teams=(TeamSpec(links=LINKS, speed="20 Mbit/s"),))


@pytest.fixture(scope="module")
def instrument() -> Iterator[LabInstrument]:
    with closing(LabInstrument(NetnsLab(SPEC, "a test"), SPEC)) as one:
        yield one


def measure(instrument: LabInstrument, workload: str = TCP_STREAM, /, **levels: Level) -> TrialRecord:
    factors = complete_levels({"vswitch": "openvswitch", **levels}, workload)
    completed = instrument.measure(TrialLoad(factors, 1.0, 0.05, workload), lambda: False)
    measured = completed.measurement
    return TrialRecord(
        0, 0, completed.testbed_shape, 0.0, 1.0, 0.0, dict(measured.effective), measured.endpoints
    )


def traffic(trial: TrialRecord) -> TeamTraffic:
    (team,) = collect_team_traffic(select_steady_part(trial, 0))
    return team


@pytest.fixture(autouse=True)
def tables_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no rebalance move flows between the reading of the table and the load."""
    monkeypatch.setattr(open_vswitch_team, "REBALANCE_INTERVAL_MS", 3_600_000)


@pytest.mark.parametrize("policy", ["active-backup", "balance-slb", "balance-tcp"])
def test_the_predicted_links_carry_the_load(instrument: LabInstrument, policy: str) -> None:
    trial = measure(instrument, team_policy=policy, streams=6, source_ports=SOURCE_PORTS)
    team = traffic(trial)
    assert (team.policy, team.flows) == (policy, 6)
    check_links_with_data(trial, team, "a1")
    for direction in DIRECTIONS:
        links = [getattr(link, direction) for link in team.links]
        assert sum(link.predicted_flows for link in links) + team.open_flows[direction] == 6
        for link in links:
            if not link.predicted_flows and not team.open_flows[direction]:
                assert link.packets < MAX_STRAY_PACKETS, links


def test_segments_of_one_flow_over_several_links_arrive_out_of_order(instrument: LabInstrument) -> None:
    trial = measure(instrument, vswitch="bridge", team_policy="balance-rr", streams=1)
    out_of_order = trial_metrics(trial, 0)["out_of_order_percent"]
    assert 0 < out_of_order <= 100
    assert trial_metrics(trial, 0)["team_links_used_forward"] == LINKS


def test_datagrams_are_predicted_without_their_control_connections(instrument: LabInstrument) -> None:
    load: dict[str, Level] = {"team_policy": "active-backup", "streams": 2, "bit_rate": 10**6}
    team = traffic(measure(instrument, UDP_STREAM, **load))
    assert [link.forward.predicted_flows for link in team.links] == [2, 0, 0]
    assert [bool(link.forward.packets) for link in team.links] == [True, False, False]


def test_the_cause_is_the_policy_that_puts_all_flows_on_one_link(instrument: LabInstrument) -> None:
    trial = measure(instrument, team_policy="balance-slb", streams=4)
    part = select_steady_part(trial, 0)
    testbed = make_topology("x", NetnsShape("openvswitch", team_link_count=LINKS)).describe()
    series = metric_time_series(trial, "goodput_bps")
    evidence = collect_evidence(build_trial_data(part, metrics_of_steady_part(part), series, testbed))
    assert evidence["uplink_count"] == LINKS
    assert evidence["busiest_uplink_percent"] > 95
    candidates = rank_causes([evidence], load_rules(), TCP_STREAM).candidates
    assert "one_uplink" in [each.cause.name for each in candidates]
    ((advice,),) = {traffic(trial).advice}
    assert advice == "No other port or last octet spreads these flows better."


def test_connections_for_single_requests_have_no_predicted_link(instrument: LabInstrument) -> None:
    team = traffic(measure(instrument, TCP_CRR, team_policy="balance-tcp"))
    assert team.flows is None
    assert {getattr(link, each).predicted_flows for link in team.links for each in DIRECTIONS} == {None}
    assert sum(link.forward.packets for link in team.links) > 0


@pytest.mark.parametrize(
    ("policy", "far_end", "predicted_reverse"),
    [("layer3+4", "auto", 6), ("port-id", "auto", 6), ("layer3+4", "switch", 0)],
)
def test_the_links_of_a_policy_between_bridges_carry_the_load(
    instrument: LabInstrument, policy: str, far_end: str, predicted_reverse: int
) -> None:
    """A switch that sees one address on several links sends answers anywhere: their link is open."""
    levels: dict[str, Level] = {"vswitch": "bridge", "team_policy": policy, "team_far_end": far_end}
    trial = measure(instrument, **levels, streams=6, source_ports=SOURCE_PORTS)
    team = traffic(trial)
    assert (team.policy, team.flows) == (policy, 6)
    assert team.open_flows == {"forward": 0, "reverse": 6 - predicted_reverse}
    forward = [link.forward for link in team.links]
    assert sum(link.predicted_flows or 0 for link in forward) == 6
    assert sum(link.predicted_flows == 0 for link in forward) == (2 if policy == "port-id" else 0)
    check_links_with_data(trial, team, "a1")
