"""The traffic of a team's links, from the counters of both ends and the flows that were predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests import fixtures
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.team_traffic import TEAM_METRICS, collect_team_traffic
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.results.records import HOST, Observation, TrialRecord

pytestmark = pytest.mark.pure

SAMPLES = 20
NAMES = {metric.name for metric in TEAM_METRICS}


def team(
    predicted: dict[str, Any] | None = None, speeds_bps: Sequence[int | None] = (10**9,) * 4
) -> dict[str, Any]:
    links = [
        {"name": f"link{i}", "near": f"sw0-link{i}", "far": f"sw1-link{i}", "speed_bps": speed_bps}
        for i, speed_bps in enumerate(speeds_bps)
    ]
    described = {"name": "uplinks", "policy": "balance-tcp", "lacp": "negotiated", "links": links}
    return described if predicted is None else {**described, "predicted": predicted}


def trial(sent_bytes: dict[str, int], *teams: dict[str, Any]) -> TrialRecord:
    """Return a trial in each of whose intervals the interfaces send these bytes, in packets of 100 bytes."""
    whole = fixtures.make_trial(rates=[8e9] * SAMPLES)
    others = {"rx_bytes": 10**12, "rx_dropped": 0, "tx_dropped": 0}
    counters = {name: {"tx_bytes": n, "tx_packets": n // 100, **others} for name, n in sent_bytes.items()}
    observation = Observation({}, counters, None)
    endpoints = tuple(
        replace(each, samples=tuple(replace(x, observation=observation) for x in each.samples))
        if each.name == HOST
        else each
        for each in whole.endpoints
    )
    return replace(whole, endpoints=endpoints, effective={**whole.effective, "teams": list(teams)})


FORWARD = {"sw0-link0": 7000, "sw0-link1": 2910, "sw0-link2": 90, "sw0-link3": 0}
REVERSE = {"sw1-link0": 500, "sw1-link1": 500, "sw1-link2": 500, "sw1-link3": 500}


def test_each_direction_has_its_own_shares() -> None:
    found = trial_metrics(trial({**FORWARD, **REVERSE}, team()), 0)
    assert set(METRICS) >= NAMES
    assert {name: value for name, value in found.items() if name in NAMES} == pytest.approx(
        {
            "team_links_used_forward": 2,  # The third carries 0.9 %.
            "team_busiest_link_forward_percent": 70.0,
            "team_imbalance_forward": 2.8,  # (7000 - 0) / 2500
            "team_links_used_reverse": 4,
            "team_busiest_link_reverse_percent": 25.0,
            "team_imbalance_reverse": 0.0,
        }
    )


def test_one_link_with_all_bytes_has_the_largest_imbalance() -> None:
    found = trial_metrics(trial({"sw0-link3": 10**6}, team()), 0)
    assert found["team_imbalance_forward"] == 4.0
    assert found["team_busiest_link_forward_percent"] == 100.0
    assert "team_imbalance_reverse" not in found, "no bytes have no balance"


def test_links_of_different_speeds_are_even_if_each_carries_its_share_of_the_capacity() -> None:
    # A link of 10 Gbit/s beside one of 10 Mbit/s: its fair share of the bytes is below 1 %.
    speeds_bps = (10**10, 10**7)
    fair = trial_metrics(trial({"sw0-link0": 10**7, "sw0-link1": 10**4}, team(None, speeds_bps)), 0)
    assert fair["team_links_used_forward"] == 2
    assert fair["team_imbalance_forward"] == pytest.approx(0)
    strays = trial_metrics(trial({"sw0-link0": 10**7, "sw0-link1": 10**2}, team(None, speeds_bps)), 0)
    assert strays["team_links_used_forward"] == 1
    one = trial_metrics(trial({"sw0-link1": 10**7}, team(None, speeds_bps)), 0)
    assert (one["team_links_used_forward"], one["team_imbalance_forward"]) == (1, 2.0)
    unknown = trial_metrics(trial({"sw0-link0": 10**7, "sw0-link1": 10**4}, team(None, (10**10, None))), 0)
    assert unknown["team_links_used_forward"] == 1


def test_bytes_packets_and_predictions_stand_by_link() -> None:
    predicted = {
        "flows": 4,
        "forward": [2, 1, 0, 0],
        "forward_open": 1,
        "reverse": [1, 1, 1, 1],
        "reverse_open": 0,
        "advice": ["Use more flows."],
    }
    part = select_steady_part(trial({**FORWARD, **REVERSE}, team(predicted)), 5)
    (traffic,) = collect_team_traffic(part)
    steady = SAMPLES - 5
    assert [link.forward.bytes for link in traffic.links] == [7000 * steady, 2910 * steady, 90 * steady, 0]
    assert [link.forward.packets for link in traffic.links] == [70 * steady, 29 * steady, 0, 0]
    assert [link.forward.share for link in traffic.links] == [0.7, 0.291, 0.009, 0.0]
    assert [link.forward.predicted_flows for link in traffic.links] == [2, 1, 0, 0]
    assert [link.reverse.predicted_flows for link in traffic.links] == [1, 1, 1, 1]
    assert (traffic.flows, traffic.open_flows) == (4, {"forward": 1, "reverse": 0})
    assert traffic.advice == ("Use more flows.",)


@pytest.mark.parametrize(
    "teams", [3, "x", [3], [{}], [{"links": 4}], [{"links": [{"speed_bps": float("inf")}], "predicted": [1]}]]
)
def test_a_damaged_description_gives_no_error(teams: object) -> None:
    whole = trial(FORWARD)
    damaged = replace(whole, effective={**whole.effective, "teams": teams})
    for traffic in collect_team_traffic(select_steady_part(damaged, 0)):
        assert {link.speed_bps for link in traffic.links} <= {None}
        assert traffic.flows is None


def test_without_a_team_or_predictions_nothing_is_invented() -> None:
    plain = fixtures.make_trial(rates=[8e9] * SAMPLES)
    assert collect_team_traffic(select_steady_part(plain, 0)) == ()
    assert not NAMES & set(trial_metrics(plain, 0))
    (traffic,) = collect_team_traffic(select_steady_part(trial(FORWARD, team()), 0))
    assert traffic.flows is None
    assert {link.forward.predicted_flows for link in traffic.links} == {None}


def test_a_team_that_reports_it_has_the_time_until_it_was_ready() -> None:
    found = trial_metrics(trial(FORWARD, {**team(), "ready_s": 2.5}), 0)
    assert found["team_ready_s"] == 2.5
    assert "team_ready_s" not in trial_metrics(trial(FORWARD, team()), 0)
