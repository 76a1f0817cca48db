"""Surprises: injected outliers and contradictions, and false alarm rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.explain.comparisons.simulated import simulated
from vnetbench.explain.comparisons.surprises import find_contradictions, find_outliers, surprise_findings
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

CAMPAIGNS = 100
MATRIX: Mapping[str, tuple[Level, ...]] = {
    "streams": (1, 2, 4, 8),
    "mtu": (1500, 9000),
    "direction": ("forward", "reverse"),
    "congestion_control": ("cubic", "bbr"),
}


def smooth(levels: Mapping[str, Level]) -> float:
    """Return goodput with main effects and an interaction of MTU and streams."""
    streams = float(levels["streams"])
    jumbo = 1.2 * math.pow(streams, 0.1) if levels["mtu"] == 9000 else 1.0
    return 1e10 * math.sqrt(streams) * jumbo * (0.9 if levels["congestion_control"] == "bbr" else 1.0)


def is_odd(levels: Mapping[str, Level], *odd: tuple[int, int, str]) -> bool:
    here = (levels["streams"], levels["mtu"], levels["direction"])
    return levels["congestion_control"] == "cubic" and here in odd


def with_one(levels: Mapping[str, Level]) -> float:
    return smooth(levels) * (0.6 if is_odd(levels, (4, 9000, "reverse")) else 1.0)


def with_two(levels: Mapping[str, Level]) -> float:
    return smooth(levels) * (0.6 if is_odd(levels, (4, 9000, "reverse"), (8, 1500, "forward")) else 1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [1, 2, 3, 4, 8])
def test_without_noise_only_the_odd_treatment_is_an_outlier(odd: int) -> None:
    def flat(levels: Mapping[str, Level]) -> float:
        return 1e9 * (0.6 if (levels["streams"], levels["mtu"]) == (odd, 9000) else 1.0)

    matrix = {"streams": (1, 2, 3, 4, 8, 16), "mtu": (1500, 4000, 9000)}
    result = find_outliers(simulated(np.random.default_rng(0), matrix, flat, noise=0.0, of_blocks=0.0))

    assert [each.cell_mean.treatment.factors for each in result] == [{"streams": odd, "mtu": 9000}]


def test_an_exact_model_gives_a_surprise_in_at_most_5_of_100_campaigns() -> None:
    seen = sum(
        bool(find_outliers(simulated(np.random.default_rng(s), MATRIX, smooth))) for s in range(CAMPAIGNS)
    )

    assert seen <= 0.05 * CAMPAIGNS


def test_an_outlier_is_found_with_its_ratio() -> None:
    result, covered, false = 0, 0, 0
    for seed in range(CAMPAIGNS):
        seen = find_outliers(simulated(np.random.default_rng([1, seed]), MATRIX, with_one))
        odd = [each for each in seen if is_odd(each.cell_mean.treatment.factors, (4, 9000, "reverse"))]
        result += bool(odd)
        false += len(seen) > len(odd)
        for each in odd:
            assert (
                each.measured_to_predicted_ratio.low is not None
                and each.measured_to_predicted_ratio.high is not None
            )
            covered += each.measured_to_predicted_ratio.low <= 0.6 <= each.measured_to_predicted_ratio.high

    assert result >= 0.95 * CAMPAIGNS
    assert covered >= 0.9 * result
    assert false <= 0.05 * CAMPAIGNS


def test_an_outlier_below_the_studys_precision_is_not_a_surprise() -> None:
    def hardly(levels: Mapping[str, Level]) -> float:
        return smooth(levels) * (0.98 if is_odd(levels, (4, 9000, "reverse")) else 1.0)

    fine, coarse = (
        find_outliers(simulated(np.random.default_rng(8), MATRIX, hardly, noise=0.001, half_width=width))
        for width in (0.005, 0.03)
    )
    assert len(fine) == 1 and coarse == ()


def test_an_outlier_does_not_mask_another_one() -> None:
    both = sum(
        len(find_outliers(simulated(np.random.default_rng([2, seed]), MATRIX, with_two))) == 2
        for seed in range(CAMPAIGNS)
    )

    assert both >= 0.9 * CAMPAIGNS


def test_a_level_of_a_single_treatment_is_not_a_surprise() -> None:
    def without(levels: Mapping[str, Level]) -> bool:
        return levels["streams"] == 8 and (
            levels["mtu"] == 9000 or levels["direction"] == "reverse" or levels["congestion_control"] == "bbr"
        )

    assert find_outliers(simulated(np.random.default_rng(3), MATRIX, smooth, without=without)) == ()


def test_too_few_treatments_give_no_surprise() -> None:
    assert (
        find_outliers(simulated(np.random.default_rng(4), {"streams": (1, 2, 4, 8)}, smooth_of_streams)) == ()
    )


def test_a_campaign_without_values_has_no_surprise() -> None:
    campaign = simulated(np.random.default_rng(5), {"streams": (4,)}, smooth_of_streams)
    dead = [replace(each, metrics={}, points=()) for each in campaign.treatments]

    assert find_outliers(replace(campaign, treatments=tuple(dead))) == ()


def smooth_of_streams(levels: Mapping[str, Level]) -> float:
    return 1e10 * math.sqrt(float(levels["streams"]))


def test_declines_are_reported_with_few_false_alarms() -> None:
    def falling(levels: Mapping[str, Level]) -> float:
        return smooth(levels) * (0.5 if levels["streams"] == 8 else 1.0)

    false = 0
    for seed in range(CAMPAIGNS):
        false += bool(
            find_contradictions(simulated(np.random.default_rng([5, seed]), MATRIX, lambda x: 1e10))
        )
    assert false <= 0.05 * CAMPAIGNS

    (finding,) = surprise_findings(simulated(np.random.default_rng(6), MATRIX, falling))
    assert finding.kind == "surprise"
    assert finding.text.startswith("Unexpected decline: 8 streams instead of 4 streams")
    assert "in 8 of 24 pairs of treatments that differ only in streams" in finding.text


def test_a_harmful_offload_is_reported() -> None:
    def truth(levels: Mapping[str, Level]) -> float:
        return 9e9 if levels["gro"] == "on" else 1e10

    (finding,) = surprise_findings(
        simulated(np.random.default_rng(7), {"gro": ("off", "on")}, truth, noise=0.01)
    )

    assert finding.text.startswith("Unexpected decline: GRO on instead of GRO off multiplies goodput by 0.8")
