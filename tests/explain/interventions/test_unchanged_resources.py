"""A change that did not reach its resource refutes no cause: a larger MTU with segments of the same size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.campaigns import SENDER_SATURATED, SimulatedTreatment, campaign
from tests.explain.interventions.test_findings import LEVELS, candidate
from tests.report.explanations import TRIED
from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.explain.experiment_verdicts import apply_experiment_verdicts
from vnetbench.explain.interventions.unchanged_resources import mark_unchanged_resources
from vnetbench.explain.interventions.verdicts import apply_resource_verdicts
from vnetbench.explain.model import REFUTED
from vnetbench.explain.rules import load_rules
from vnetbench.explain.scoring import rank_causes
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM

pytestmark = pytest.mark.pure

STUDY = 'title = "t"\n[factors]\nstreams = 1\nmtu = [1500, 9000]\n'
JUMBO: dict[str, Level] = {"mtu": 9000}
LARGER_MTU = replace(
    TRIED,
    ratio=Ratio(0.653, 0.599, 0.711, 0.975, 0.0),
    resource="mtu",
    resource_ratio=6.0,
    base_levels=LEVELS,
    changed_levels=JUMBO,
)
"""Recorded behind a route with an MTU of 1000."""
# Open vSwitch's userspace datapath, with a firewall that clamps the segment size.
CLAMPED = {
    "mtu_bytes": 1500.0,
    "segment_share_of_mtu_percent": 6.1,
    "segments_per_packet": 1.0,
    "bytes_per_call": 1048576.0,
    "cpu_work_time_percent": 60.0,
}


def measured_with_segments(before_bytes: float, after_bytes: float) -> Experiment:
    """Return the experiment after its series showed these segment sizes without and with the larger MTU."""
    treatments = [
        SimulatedTreatment({**SENDER_SATURATED, "mss_bytes": size}) for size in (before_bytes, after_bytes)
    ]
    (measured,) = mark_unchanged_resources([LARGER_MTU], campaign(STUDY, *treatments))
    return measured


@pytest.mark.parametrize("size_bytes", [948.0, 88.0])
def test_an_mtu_that_left_the_segments_as_they_were_refutes_nothing(size_bytes: float) -> None:
    measured = measured_with_segments(size_bytes, size_bytes)
    assert not measured.has_changed_resource and measured.resource == ""
    small = candidate("small_mtu", "very likely")
    small = replace(small, cause=replace(small.cause, experiment_levels=JUMBO))
    tested = apply_experiment_verdicts([small], LEVELS, [measured])
    (judged,) = apply_resource_verdicts([small], tested, LEVELS, [measured])
    assert judged.confidence == "very likely"
    assert judged.experiment_result is not None and judged.experiment_result.verdict == "inconclusive"


def test_an_mtu_that_enlarged_the_segments_refutes_their_size_as_the_cause() -> None:
    measured = measured_with_segments(1448.0, 8948.0)
    assert measured == LARGER_MTU
    small = candidate("small_mtu", "very likely")
    (judged,) = apply_resource_verdicts([small], [small], LEVELS, [measured])
    assert judged.confidence == REFUTED


def test_one_odd_trial_does_not_hide_that_the_buffers_grew() -> None:
    study = 'title = "t"\n[factors]\nstreams = 1\nsocket_buffer = ["256 KiB", "auto"]\n'
    names = ("send_buffer_bytes", "receive_buffer_bytes")

    def sized(size_bytes: float) -> SimulatedTreatment:
        return SimulatedTreatment({**SENDER_SATURATED, **dict.fromkeys(names, size_bytes)}, trials=10)

    proof = campaign(study, sized(524_288), sized(6e6))
    base, automatic = proof.treatments
    odd = replace(automatic.points[0], evidence={**SENDER_SATURATED, **dict.fromkeys(names, 500e3)})
    proof = replace(proof, treatments=(base, replace(automatic, points=(odd, *automatic.points[1:]))))
    larger = replace(LARGER_MTU, resource="", changed_levels={"socket_buffer": "auto"})
    (measured,) = mark_unchanged_resources([larger], proof)
    assert measured.has_changed_resource
    (unchanged,) = mark_unchanged_resources([larger], campaign(study, sized(524_288), sized(524_288)))
    assert not unchanged.has_changed_resource


def test_without_segment_sizes_the_experiment_stays_as_it_is() -> None:
    proof = campaign(STUDY, SimulatedTreatment(SENDER_SATURATED), SimulatedTreatment(SENDER_SATURATED))
    assert mark_unchanged_resources([LARGER_MTU], proof) == (LARGER_MTU,)


def test_segments_that_a_firewall_clamps_have_no_mtu_to_try() -> None:
    (clamped, *_) = rank_causes([CLAMPED] * 6, load_rules(), TCP_STREAM).candidates
    assert clamped.cause.name == "small_mtu" and not clamped.cause.experiment_levels
    small_mtu = {"mtu_bytes": 1280.0, "packets_per_s": 700e3}
    (unclamped, *_) = rank_causes([small_mtu] * 6, load_rules(), TCP_STREAM).candidates
    assert unclamped.cause.name == "small_mtu" and unclamped.cause.experiment_levels == JUMBO
