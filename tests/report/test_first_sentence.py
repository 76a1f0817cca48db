"""The first sentence: the effect, the knee and the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.explain.campaigns import QUOTA, SENDER_SATURATED
from tests.explain.comparisons.simulated import simulated
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.report.text.narrative import combine_narrative
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

FULL_CPUS = {
    **SENDER_SATURATED,
    "load_cpus": 2.0,
    "threads_per_load_cpu": 4.0,
    "load_cpus_occupied_percent": 99.5,
}
FACTORS: Mapping[str, tuple[Level, ...]] = {"streams": (1, 2, 4, 8, 16), "mtu": (1500, 9000)}


def flat_from_two_streams(levels: Mapping[str, Level]) -> float:
    return 10e9 if levels["streams"] == 1 else 20e9


def first_sentence(
    mtu_effect: float = 1.0,
    evidence: Mapping[str, float] = FULL_CPUS,
    other: Mapping[str, float] | None = None,
) -> str:
    """Return the first sentence of a campaign whose goodput is flat from two streams on.

    Args:
        mtu_effect: Goodput with MTU 9000 over that with MTU 1500.
        evidence: Evidence of the treatments with at least two streams.
        other: Evidence of 16 streams, if it differs.
    """

    def truth(levels: Mapping[str, Level]) -> float:
        return flat_from_two_streams(levels) * (mtu_effect if levels["mtu"] == 9000 else 1.0)

    summary = simulated(np.random.default_rng(1), FACTORS, truth, noise=0.01)

    def trial_evidence(streams: Level) -> Mapping[str, float]:
        if streams == 1:
            return SENDER_SATURATED
        return other if other is not None and streams == 16 else evidence

    treatments = (
        replace(
            each,
            points=tuple(
                replace(point, evidence=trial_evidence(each.factors["streams"])) for point in each.points
            ),
        )
        for each in summary.treatments
    )
    return answer_of(replace(summary, treatments=tuple(treatments)))[0]


def answer_of(summary: CampaignSummary) -> tuple[str, ...]:
    return combine_narrative(summary, explain(summary)).answer


def test_it_joins_the_effect_the_knee_and_the_limit() -> None:
    sentence = first_sentence()
    assert sentence.startswith("MTU 9000 instead of 1500 makes ")
    assert sentence.endswith("; from 2 streams on, more brings nothing: both CPUs are full.")


def test_a_relevant_effect_is_a_factor_with_its_interval() -> None:
    assert first_sentence(1.4).startswith(
        "MTU 9000 instead of 1500 multiplies goodput by 1.396 (1.389 to 1.403)"
    )


def test_a_significant_effect_within_the_precision_is_called_little() -> None:
    assert "makes little difference in goodput here: ×1.009 (1.004 to 1.014)" in first_sentence(1.012)


def test_limits_that_differ_beyond_the_knee_stay_out_of_the_first_sentence() -> None:
    assert first_sentence(other=QUOTA).endswith("; from 2 streams on, more brings nothing.")


def test_the_answer_names_the_limit_once() -> None:
    summary = simulated(np.random.default_rng(2), {"streams": (1,)}, lambda levels: 10e9)
    treatments = (
        replace(each, points=tuple(replace(point, evidence=FULL_CPUS) for point in each.points))
        for each in summary.treatments
    )
    (sentence,) = answer_of(replace(summary, treatments=tuple(treatments)))
    assert sentence.startswith("Goodput is ")
    assert sentence.endswith(" Gbit/s: both CPUs are full.")
