"""Evidence of frames: drop locations, search steps and receiving threads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from tests.estimate.evidence.fixtures import trial_evidence, with_observation, with_totals
from vnetbench.results.records import SEARCH_STEP, StepRecord, TrialRecord

TESTBED = {
    "endpoints": [{"name": "a1"}, {"name": "b1"}],
    "observed_interfaces": [
        {"name": "a1", "role": "port", "leads_to": "a1"},
        {"name": "b1", "role": "port", "leads_to": "b1"},
    ],
}
PORTS = {"rx_packets": 0, "tx_packets": 0, "rx_dropped": 0, "tx_dropped": 0}


def frames(sent: int, received: int, **effective: object) -> TrialRecord:
    endpoints = fixtures.frame_endpoint_records(1.0, 0.05, sent, received)
    return replace(fixtures.make_trial(), endpoints=endpoints, effective=effective)


def loss_evidence(trial: TrialRecord) -> dict[str, float]:
    evidence = trial_evidence(trial, testbed=TESTBED)
    return {name: value for name, value in evidence.items() if name.startswith("lost_")}


def test_lost_frames_are_reported_by_location_as_shares() -> None:
    ports = [
        {**PORTS, "name": "a1", "rx_packets": 4000, "rx_dropped": 6000},
        {**PORTS, "name": "b1", "tx_packets": 2000, "tx_dropped": 2000},
    ]
    assert loss_evidence(with_totals(frames(10_000, 2000), "host", interfaces=ports)) == {
        "lost_at_switch_percent": 75, "lost_before_receiver_percent": 25, "lost_before_link_percent": 0,
        "lost_in_backlog_percent": 0, "lost_elsewhere_percent": 0,
    }  # fmt: skip


def test_frames_dropped_by_the_sink_itself_are_not_lost() -> None:
    trial = frames(10_000, 8000)
    assert trial_evidence(trial)["frames_lost_percent"] == pytest.approx(20)
    assert trial_evidence(with_totals(trial, "b1", sink_dropped=1500))[
        "frames_lost_percent"
    ] == pytest.approx(5)


def test_paced_and_unpaced_sources_are_distinguished() -> None:
    trial = frames(1000, 1000)
    (source,) = (dict(stream) for stream in trial.endpoints[0].totals["streams"])  # type: ignore[attr-defined]
    paced = with_totals(trial, "a1", streams=[{**source, "pacing": {"due": 1000, "unsent": 0}}])
    assert trial_evidence(trial)["frames_unpaced"] == 1
    assert trial_evidence(paced)["frames_unpaced"] == 0


def test_a_few_lost_frames_have_no_location() -> None:
    assert loss_evidence(frames(10_000, 9960)) == {}


def test_other_loads_have_no_lost_frames() -> None:
    assert loss_evidence(fixtures.make_trial()) == {}


def test_interface_drops_are_absent_with_frames() -> None:
    evidence = trial_evidence(with_observation(frames(1000, 1000), a1={**PORTS, "rx_dropped": 5}))
    assert not {"interface_drops_per_s", "switch_drops_per_s"} & evidence.keys()


def step(number: int, load_fps: float, received: int, dropped: int) -> StepRecord:
    interfaces = {"a1": {**PORTS, "rx_dropped": dropped}}
    counted = {"interfaces": {"host": interfaces}, "softnet_dropped": 0, "rejected": 0}
    return StepRecord(
        number, SEARCH_STEP, load_fps, None, 1.0, 0.0, 1.0, 1000, received, {"path_counters": counted}
    )


def test_a_search_locates_the_losses_of_steps_a_little_above_the_throughput() -> None:
    answer = {"goal": 0.01, "throughput_fps": 1000.0, "limited_by": "device"}
    answer |= {"low_fps": 990.0, "high_fps": 1010.0, "confidence": None}
    search = {"direction_count": 1, "frame_bytes": 64, "goal_results": [answer]}
    steps = (
        step(0, 900.0, 800, 0),  # below the throughput: a momentary disturbance
        step(1, 1100.0, 800, 200),
        step(2, 1200.0, 995, 0),  # within the loss goal
        step(3, 5000.0, 100, 0),  # far above the throughput
    )
    assert (
        loss_evidence(replace(frames(1000, 1000, search=search), steps=steps))["lost_at_switch_percent"]
        == 100
    )


def test_the_receiving_thread_with_the_most_runnable_time_counts() -> None:
    trial = with_observation(
        frames(1000, 1000),
        {"a1 switch0": 0.02, "b1 switch0": 0.03, "b1 sink0": 0.01, "a1 vcpu0": 0.05},
        {"a1 switch0": 0.03, "b1 switch0": 0.0},
    )
    evidence = trial_evidence(trial)
    shares = ("switch_thread_busy", "switch_thread_waiting", "switch_thread_runnable", "sink_thread_runnable")
    assert [evidence[f"{share}_percent"] for share in shares] == pytest.approx([40, 60, 100, 20])
    assert "sink_thread_waiting_percent" not in evidence
