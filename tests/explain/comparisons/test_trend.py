"""Trends over several treatments: slopes and false alarm rates."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from vnetbench.explain.comparisons.trend import trend_over_blocks, trend_over_metric

pytestmark = pytest.mark.pure

CAMPAIGNS = 200
BLOCKS = 8


def test_treatments_at_different_levels_share_one_slope() -> None:
    series = [{block: level - 0.25 * block for block in range(BLOCKS)} for level in (1.0, 50.0, 900.0)]
    result = trend_over_blocks(series)
    assert result is not None
    assert result.median_change_per_unit == pytest.approx(-0.25)
    # Two of 8! orders have this trend, so hardly any of the 1999 random ones.
    assert result.p_value <= 2 / 2000


def test_random_block_effects_are_rarely_a_trend() -> None:
    called = 0
    for seed in range(CAMPAIGNS):
        random = np.random.default_rng(seed)
        common = random.normal(0, 1, BLOCKS)
        series = [dict(enumerate(common + random.normal(0, 0.1, BLOCKS))) for _ in range(6)]
        result = trend_over_blocks(series)
        assert result is not None
        called += result.p_value <= 0.05
    assert called <= 0.08 * CAMPAIGNS


def test_a_treatment_with_a_missing_block_counts_in_its_other_blocks() -> None:
    result = trend_over_blocks([{0: 1.0, 2: 3.0}, {1: 7.0, 2: 8.0}])
    assert result is not None and result.median_change_per_unit == pytest.approx(1.0)
    assert trend_over_blocks([{0: 1.0}, {1: 2.0}]) is None
    assert trend_over_blocks([]) is None


def test_hundreds_of_blocks_need_only_megabytes() -> None:
    series = [dict(enumerate(np.random.default_rng(0).normal(0, 1, 150).tolist()))]
    tracemalloc.start()
    trend_over_blocks(series)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 30e6


def test_a_trend_over_a_metric_has_its_slope_and_kendalls_p_value() -> None:
    metrics = [[1.0, 5.0, 2.0, 4.0, 3.0], [40.0, 10.0, 30.0, 20.0]]
    values = [[9.0 - 2 * each for each in row] for row in metrics]
    result = trend_over_metric(values, metrics)
    assert result is not None and result.median_change_per_unit == pytest.approx(-2)
    # S = 10 + 6, its variance 5·4·15/18 + 4·3·13/18 = 25.33: z = 3.18.
    assert result.p_value == pytest.approx(0.00148, rel=0.01)


def test_unrelated_metrics_are_rarely_a_trend() -> None:
    called = 0
    for seed in range(CAMPAIGNS):
        random = np.random.default_rng([1, seed])
        result = trend_over_metric(random.normal(0, 1, (4, 9)).tolist(), random.normal(0, 1, (4, 9)).tolist())
        assert result is not None
        called += result.p_value <= 0.05
    assert called <= 0.08 * CAMPAIGNS


def test_a_constant_metric_has_no_trend() -> None:
    assert trend_over_metric([[1.0, 2.0, 3.0]], [[7.0, 7.0, 7.0]]) is None
    assert trend_over_metric([], []) is None
