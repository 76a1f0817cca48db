"""Elasticities from ratios, and their verdicts."""

from __future__ import annotations

import math

import pytest

from vnetbench.estimate.model import Ratio
from vnetbench.explain.interventions import elasticity
from vnetbench.explain.interventions.elasticity import (
    estimate_elasticity,
    intervention_verdict,
    strongest_verdict,
)

pytestmark = pytest.mark.pure


def ratio(value: float, low: float | None, high: float | None) -> Ratio:
    return Ratio(value, low, high, 0.975, 0.01)


@pytest.mark.parametrize("resource_ratio", [0.85, 0.7, 1.2, 2.0])
def test_a_result_that_follows_its_resource_has_the_elasticity_one(resource_ratio: float) -> None:
    low, high = sorted((0.97 * resource_ratio, 1.03 * resource_ratio))
    found = estimate_elasticity(ratio(resource_ratio, low, high), "goodput_bps", resource_ratio)
    assert found is not None and found.low is not None and found.high is not None
    assert found.value == pytest.approx(1) and found.low < 1 < found.high


def test_a_latency_that_falls_with_more_of_the_resource_has_a_positive_elasticity() -> None:
    found = estimate_elasticity(ratio(0.5, 0.45, 0.55), "latency_p50_us", 2.0)
    assert found is not None and found.value == pytest.approx(1)


def test_a_switch_and_a_treatment_without_traffic_have_no_elasticity() -> None:
    assert estimate_elasticity(ratio(1.5, 1.4, 1.6), "goodput_bps", None) is None
    assert estimate_elasticity(ratio(0, None, None), "goodput_bps", 0.85) is None
    assert estimate_elasticity(ratio(math.inf, None, None), "goodput_bps", 1.2) is None


@pytest.mark.parametrize(
    ("result", "resource_ratio", "verdict"),
    [
        (ratio(0.71, 0.67, 0.75), 0.7, elasticity.LIMITS),
        (ratio(1.0, 0.97, 1.03), 0.7, elasticity.NO_LIMIT),
        (ratio(0.93, 0.91, 0.95), 0.7, elasticity.CONTRIBUTES),
        (ratio(0.85, 0.6, 1.2), 0.7, elasticity.UNDECIDED),
        (ratio(0.71, None, None), 0.7, elasticity.UNDECIDED),
        (ratio(0.35, 0.25, 0.48), 0.7, elasticity.UNDECIDED),  # more than the resource itself
        (ratio(1.9, 1.8, 2.0), 2.0, elasticity.LIMITS),
        (ratio(0.8, 0.75, 0.85), 2.0, elasticity.NO_LIMIT),  # more of it costs: it does not limit
        (ratio(1.4, 1.3, 1.5), None, elasticity.GAIN),
        (ratio(0.6, 0.55, 0.65), None, elasticity.LOSS),
        (ratio(1.0, 0.98, 1.02), None, elasticity.NO_EFFECT),
        (ratio(1.0, 0.8, 1.25), None, elasticity.UNDECIDED),
    ],
)
def test_a_verdict_follows_from_the_interval(
    result: Ratio, resource_ratio: float | None, verdict: str
) -> None:
    assert intervention_verdict(result, "goodput_bps", resource_ratio) == verdict


def test_less_of_a_resource_decides_if_more_of_it_is_undecided() -> None:
    assert strongest_verdict([elasticity.UNDECIDED, elasticity.NO_LIMIT]) == elasticity.NO_LIMIT
    assert strongest_verdict([elasticity.NO_LIMIT, elasticity.LIMITS]) == elasticity.LIMITS
    assert strongest_verdict([]) == elasticity.UNDECIDED
