"""Knees of scaling curves: position, coverage of the interval, false alarms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.explain.comparisons.simulated import simulated
from vnetbench.explain.comparisons.knee import ScalingKnee, find_knee_per_curve, knee_findings
from vnetbench.explain.comparisons.scaling_laws import (
    NO_LAW,
    PLATEAU,
    POWER,
    SCALABILITY,
    choose_best_predicting_laws,
)
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

LEVELS = (1, 2, 4, 8, 16, 32)
CAMPAIGNS = 40

Curve = Callable[[float], float]


def plateau(n: float) -> float:
    """Return goodput that doubles up to 4 streams and then stays constant."""
    return 1e10 * min(n, 4)


def retrograde(n: float) -> float:
    """Return goodput with a peak at 8 streams."""
    return 1e10 * n / (1 + 0.1 * (n - 1) + 0.9 / 64 * n * (n - 1))


def growing(n: float) -> float:
    return 1e10 * math.pow(n, 0.7)


def one(seed: int, curve: Curve, noise: float = 0.03) -> ScalingKnee:
    def truth(levels: Mapping[str, Level]) -> float:
        return curve(float(levels["streams"]))

    (result,) = find_knee_per_curve(
        simulated(np.random.default_rng(seed), {"streams": LEVELS}, truth, noise=noise)
    )
    return result


def true_knee(curve: Curve) -> float:
    return next(n for i, n in enumerate(LEVELS) if max(map(curve, LEVELS[i:])) < 1.05 * curve(n))


@pytest.mark.parametrize("curve", [plateau, retrograde])
def test_the_knee_interval_covers_the_true_knee(curve: Curve) -> None:
    result = [one(seed, curve) for seed in range(CAMPAIGNS)]
    truth = true_knee(curve)

    assert sum(each.knee_level == truth for each in result) >= 0.9 * CAMPAIGNS
    assert sum(each.knee_low <= truth <= each.knee_high for each in result) >= 0.93 * CAMPAIGNS
    assert all(each.is_before_last_level for each in result)


def test_steady_growth_has_no_significant_knee() -> None:
    assert not any(one(seed, growing).is_before_last_level for seed in range(CAMPAIGNS))


def test_the_law_behind_the_curve_is_chosen() -> None:
    random = np.random.default_rng(0)

    def chosen(curve: Curve) -> str:
        logs = [math.log(curve(n)) + float(random.normal(0, 0.01)) for n in LEVELS]
        ((law, _),) = choose_best_predicting_laws(LEVELS, np.array([logs]), 0.05)
        return law.name

    assert [chosen(curve) for curve in (plateau, retrograde, growing)] == [PLATEAU, SCALABILITY, POWER]


def test_a_curve_without_a_fitting_law_is_interpolated() -> None:
    logs = np.log([[10, 40, 20, 80, 15, 60]])

    assert choose_best_predicting_laws(LEVELS, logs, 0.05)[0].law is NO_LAW


def test_a_peak_is_reported_with_the_decline_beyond_it() -> None:
    result = one(0, retrograde, noise=0.005)

    assert result.peak_level_within_measured == pytest.approx(8, rel=0.15)
    assert result.decline_share_of_peak == pytest.approx(1 - retrograde(32) / retrograde(8), abs=0.05)
    assert result.scalability_fit is not None
    for name, truth in (("gamma", 1e10), ("sigma", 0.1), ("kappa", 0.9 / 64)):
        low, high = result.scalability_fit.interval_by_parameter[name]
        assert 0.9 * low <= truth <= 1.1 * high


def test_the_finding_names_the_knee_and_draws_the_law() -> None:
    def truth(levels: Mapping[str, Level]) -> float:
        return plateau(float(levels["streams"])) * (1.3 if levels["mtu"] == 9000 else 1)

    factors = {"streams": LEVELS, "mtu": (1500, 9000)}
    (finding,) = knee_findings(simulated(np.random.default_rng(1), factors, truth, noise=0.01))

    assert finding.kind == "knee"
    assert finding.text == "In all 2 curves, goodput gains less than 5 % beyond 4 streams."
    assert finding.chart is not None and finding.chart.chart_type == "curve"
    series = {row["series"] for row in finding.chart.rows}
    assert {"measured", "MTU 1500: plateau", "MTU 9000: plateau"} == series


def test_a_missing_knee_is_reported() -> None:
    summary = simulated(np.random.default_rng(2), {"streams": LEVELS}, lambda x: growing(float(x["streams"])))
    (finding,) = knee_findings(summary)

    assert finding.text.startswith("Goodput has no knee up to 32 streams")


def test_few_levels_words_and_lower_is_better_metrics_have_no_knee() -> None:
    random = np.random.default_rng(3)
    few = simulated(random, {"streams": (1, 2, 4)}, lambda x: growing(float(x["streams"])))
    words = simulated(random, {"direction": ("forward", "reverse", "both", "mix")}, lambda x: 1e9)
    enough = simulated(random, {"streams": LEVELS}, lambda x: growing(float(x["streams"])))

    assert find_knee_per_curve(few) == () and find_knee_per_curve(words) == ()
    assert (
        find_knee_per_curve(enough)
        and find_knee_per_curve(replace(enough, deciding_metric="latency_p99_us")) == ()
    )
