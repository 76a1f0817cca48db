"""Metrics that separate groups of trials, with false alarm rates."""

from __future__ import annotations

import numpy as np
import pytest

from vnetbench.explain.comparisons.separation import rank_separations

pytestmark = pytest.mark.pure

SETS = 100


def test_60_unrelated_metrics_give_a_false_alarm_in_at_most_6_of_100_sets() -> None:
    called = 0
    for seed in range(SETS):
        random = np.random.default_rng(seed)
        upper = random.permutation([True] * 8 + [False] * 16).tolist()
        metrics = {f"f{n}": random.lognormal(0, 1, 24).tolist() for n in range(40)}
        metrics |= {f"n{n}": random.integers(0, 4, 24).astype(float).tolist() for n in range(20)}
        names = frozenset(name for name in metrics if name.startswith("n"))
        called += any(each.p_value <= 0.05 for each in rank_separations(metrics, upper, names))

    assert called <= 0.06 * SETS


def test_the_separating_metric_comes_first_with_both_medians() -> None:
    upper = [True] * 8 + [False] * 16
    random = np.random.default_rng(1)
    metrics = {
        "noise": random.normal(0, 1, 24).tolist(),
        "shared": [5.0 + 0.1 * n for n in range(8)] + [80.0 + 0.1 * n for n in range(16)],
    }
    first, second = rank_separations(metrics, upper)

    assert (first.metric, first.area_under_roc_curve, second.metric) == ("shared", 0.0, "noise")
    assert first.p_value < 0.001 < second.p_value
    assert (first.lower_group_value, first.upper_group_value) == pytest.approx((80.75, 5.35))


def test_nominal_values_are_ordered_by_group_share_not_by_size() -> None:
    upper = [True, True, True, True, True, False, False, False, False, False, False, False]
    cpu = [0.0, 3.0, 0.0, 3.0, 0.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0]
    (by_name,) = rank_separations({"cpu": cpu}, upper, frozenset({"cpu"}))
    (by_size,) = rank_separations({"cpu": cpu}, upper)

    assert (by_name.area_under_roc_curve, by_name.lower_group_value, by_name.upper_group_value) == (
        1.0,
        1.0,
        0.0,
    )
    assert by_size.separation_0_to_1 < 0.5 < by_name.separation_0_to_1


def test_many_nominal_values_that_separate_by_chance_are_not_significant() -> None:
    upper = [True] * 6 + [False] * 6
    (result,) = rank_separations({"order": [float(n) for n in range(12)]}, upper, frozenset({"order"}))

    assert (result.separation_0_to_1, result.p_value) == (1.0, 1.0)


def test_a_constant_metric_has_no_separation() -> None:
    assert rank_separations({"mtu_bytes": [1500.0] * 6}, [True, False] * 3) == []
