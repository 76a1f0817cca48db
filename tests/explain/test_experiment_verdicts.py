"""Verdicts of experiments: confirmed, refuted or inconclusive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.explanations import QUOTA, RECEIVER, TRIED
from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.estimate.paired_ratios import combine_paired_ratios, estimate_paired_ratio
from vnetbench.explain.experiment_verdicts import (
    apply_experiment_verdicts,
    experiment_verdict,
    has_experiment_on_levels,
)
from vnetbench.explain.model import CandidateCause
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

LEVELS: dict[str, Level] = {"streams": 1, "direction": "forward", "mtu": 1500}


def ratio(value: float, low: float | None, high: float | None) -> Ratio:
    return Ratio(value, low, high, 0.95, 0.01)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ratio(1.8, 1.7, 1.9), "confirmed"),
        (ratio(1.06, 1.01, 1.11), "confirmed"),
        (ratio(1.02, 1.01, 1.03), "refuted"),  # better, but by less than what a limit would hold back
        (ratio(0.99, 0.97, 1.01), "refuted"),
        (ratio(0.8, 0.75, 0.85), "refuted"),
        (ratio(1.3, 0.9, 1.8), "inconclusive"),
        (ratio(1.0, 0.9, 1.1), "inconclusive"),
        (ratio(1.8, None, None), "inconclusive"),
    ],
)
def test_an_experiment_confirms_a_relevant_and_significant_improvement(result: Ratio, expected: str) -> None:
    assert experiment_verdict(result, "goodput_bps") == expected


def test_traffic_with_the_setting_only_confirms_and_traffic_without_it_only_refutes() -> None:
    dead, alive = (dict.fromkeys(range(8), value) for value in (0.0, 1e9))
    pairs = [estimate_paired_ratio(dead, alive), estimate_paired_ratio(alive, dead)]
    revived, killed = (combine_paired_ratios([pair], 0.95) for pair in pairs if pair is not None)
    few = estimate_paired_ratio({0: 0.0}, {0: 1e9})
    assert few is not None
    expected = [
        experiment_verdict(each, "goodput_bps")
        for each in (revived, killed, combine_paired_ratios([few], 0.95))
    ]
    assert expected == ["confirmed", "refuted", "inconclusive"]


def test_a_decrease_of_a_lower_is_better_metric_confirms() -> None:
    assert experiment_verdict(ratio(0.5, 0.45, 0.55), "latency_p50_us") == "confirmed"
    assert experiment_verdict(ratio(1.5, 1.4, 1.6), "latency_p50_us") == "refuted"
    assert experiment_verdict(ratio(0.9, 0.5, 1.2), "latency_p50_us") == "inconclusive"


def tried(value: float, spread: float) -> Experiment:
    return replace(TRIED, ratio=ratio(value, value - spread, value + spread))


def candidates() -> tuple[CandidateCause, ...]:
    quota = CandidateCause(replace(QUOTA, experiment_levels={"threads": 2}), 0.6, "likely", ())
    return (quota, CandidateCause(RECEIVER, 0.9, "very likely", ()))


def test_confirmed_candidates_come_first_and_refuted_ones_last() -> None:
    names = [
        (each.cause.name, each.confidence)
        for each in apply_experiment_verdicts(candidates(), LEVELS, [tried(1.9, 0.1)])
    ]
    assert names == [("receiver_cpu", "confirmed"), ("cpu_quota", "likely")]
    first, last = apply_experiment_verdicts(candidates()[::-1], LEVELS, [tried(1.0, 0.02)])
    assert (first.cause.name, first.experiment_result) == ("cpu_quota", None)
    assert (
        last.confidence == "refuted"
        and last.experiment_result is not None
        and last.experiment_result.verdict == "refuted"
    )


def test_the_confirmed_candidate_with_the_larger_gain_comes_first() -> None:
    gained = replace(tried(9.0, 1.0), changed_levels={"threads": 2})
    for order in (candidates(), candidates()[::-1]):
        names = [
            each.cause.name for each in apply_experiment_verdicts(order, LEVELS, [tried(1.3, 0.1), gained])
        ]
        assert names == ["cpu_quota", "receiver_cpu"]


def test_an_inconclusive_experiment_keeps_the_confidence() -> None:
    (_, receiver) = apply_experiment_verdicts(candidates(), LEVELS, [tried(1.1, 0.3)])
    assert receiver.confidence == "very likely"
    assert receiver.experiment_result is not None and receiver.experiment_result.verdict == "inconclusive"


def test_an_experiment_with_another_treatment_or_setting_is_ignored() -> None:
    for other in (
        replace(tried(1.9, 0.1), base_levels={**TRIED.base_levels, "mtu": 9000}),
        replace(tried(1.9, 0.1), changed_levels={"streams": 8}),
    ):
        assert apply_experiment_verdicts(candidates(), LEVELS, [other]) == candidates()
    assert has_experiment_on_levels(LEVELS, [TRIED]) and not has_experiment_on_levels(
        {**LEVELS, "mtu": 9000}, [TRIED]
    )
