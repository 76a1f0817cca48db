"""Interim analyses: over all analyses together, intervals miss no more often than requested."""

from __future__ import annotations

import numpy as np
import pytest

from vnetbench.estimate.interim_analyses import (
    interim_analysis_trial_counts,
    median_interval_bounds,
    min_trials_for_interval,
)
from vnetbench.estimate.median import median_interval
from vnetbench.study.model import Precision

CAMPAIGNS = 4000


def test_default_analyses_are_at_6_9_13_20_and_30_trials() -> None:
    assert interim_analysis_trial_counts(Precision()) == (6, 9, 13, 20, 30)


def test_the_first_analysis_needs_enough_trials_for_an_interval() -> None:
    assert min_trials_for_interval(0.95) == 6
    assert interim_analysis_trial_counts(Precision(confidence=0.99))[0] == min_trials_for_interval(0.99) == 9
    assert interim_analysis_trial_counts(Precision(min_trials=10))[0] == 10


def test_too_few_trials_for_any_interval_have_no_analysis() -> None:
    assert interim_analysis_trial_counts(Precision(max_trials=5)) == ()
    assert interim_analysis_trial_counts(Precision(max_trials=6)) == (6,)


def test_an_invalid_confidence_is_rejected() -> None:
    with pytest.raises(ValueError, match="confidence"):
        min_trials_for_interval(1.0)


@pytest.mark.parametrize(
    "precision",
    [
        Precision(),
        Precision(confidence=0.9),
        Precision(confidence=0.99),
        Precision(max_trials=100),
        Precision(min_trials=3, max_trials=12),
        Precision(max_trials=6),
    ],
    ids=str,
)
def test_the_chance_that_any_analysis_misses_is_one_minus_the_confidence(precision: Precision) -> None:
    judged_at = interim_analysis_trial_counts(precision)
    random = np.random.default_rng(7)
    missed = 0
    for _ in range(CAMPAIGNS):
        values = random.exponential(size=judged_at[-1]).tolist()
        bounds = [median_interval(values[:look], precision.confidence, judged_at) for look in judged_at]
        missed += any(found is None or not found[0] <= np.log(2) <= found[1] for found in bounds)

    error = 1 - precision.confidence
    assert missed / CAMPAIGNS == pytest.approx(error, abs=0.007 + 0.12 * error)


def test_between_analyses_the_interval_is_that_of_the_next_analysis_done_early() -> None:
    random = np.random.default_rng(8)
    missed = 0
    for _ in range(CAMPAIGNS):
        low, high = median_interval(random.random(11).tolist(), 0.95, (6, 9, 13, 20, 30)) or (1.0, 0.0)
        missed += not low <= 0.5 <= high

    assert missed / CAMPAIGNS <= 0.05


def test_more_trials_than_the_last_analysis_replace_it() -> None:
    assert median_interval_bounds(60, 0.95, (6, 9, 13, 20, 30)) == median_interval_bounds(
        60, 0.95, (6, 9, 13, 20, 60)
    )


def test_each_analysis_has_some_error_to_spend() -> None:
    reached = [median_interval_bounds(look, 0.95, (6, 9, 13, 20, 30)) for look in (9, 13, 20, 30)]

    # If the first analysis spent all error, each later interval would be about the whole range of the trials.
    assert [reach.order_from_each_end for reach in reached if reach is not None] == [1, 2, 4, 8]


def test_more_analyses_make_wider_intervals() -> None:
    fixed, watched = median_interval_bounds(30, 0.95), median_interval_bounds(30, 0.95, (6, 9, 13, 20, 30))

    assert fixed is not None and watched is not None
    assert (fixed.order_from_each_end, fixed.fraction) > (watched.order_from_each_end, watched.fraction)


def test_thousands_of_trials_have_the_bounds_of_the_normal_approximation() -> None:
    for trials in (1001, 2000, 20_000):
        found = median_interval_bounds(trials, 0.95)
        assert found is not None
        assert found.order_from_each_end == pytest.approx(trials / 2 - 1.96 * trials**0.5 / 2, abs=1.5)
