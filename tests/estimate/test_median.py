"""The estimate of a treatment: median, distribution-free interval, modes and outliers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import estimate_median, find_outliers, median_interval
from vnetbench.study.model import Precision

LOOKS = interim_analysis_trial_counts(Precision())
trials = st.lists(st.floats(0, 1e12, allow_subnormal=False), min_size=6, max_size=40)


@given(trials)
def test_the_interval_contains_the_median_and_lies_within_the_trials(values: list[float]) -> None:
    found = estimate_median(values, 0.95, LOOKS)

    assert found.low is not None and found.high is not None
    assert min(values) <= found.low <= found.value <= found.high <= max(values)


@given(trials, st.randoms())
def test_the_order_of_trials_does_not_matter(values: list[float], random: np.random.Generator) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)

    assert median_interval(shuffled, 0.95, LOOKS) == median_interval(values, 0.95, LOOKS)


@given(trials, st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**30]))
def test_the_unit_does_not_matter(values: list[float], factor: float) -> None:
    found, scaled = estimate_median(values, 0.95), estimate_median([value * factor for value in values], 0.95)

    assert found.low is not None and found.high is not None
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
        (found.value * factor, found.low * factor, found.high * factor)
    )
    assert scaled.outliers == found.outliers


@given(st.lists(st.floats(1, 10), min_size=1, max_size=5))
def test_fewer_than_six_trials_have_a_median_but_no_interval(values: list[float]) -> None:
    found = estimate_median(values, 0.95, LOOKS)

    assert (found.low, found.high, found.relative_half_width) == (None, None, None)
    assert found.value == pytest.approx(float(np.median(values)))


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_identical_trials_have_an_interval_of_no_width(value: float) -> None:
    found = estimate_median([value] * 8, 0.95, LOOKS)

    assert (found.value, found.low, found.high, found.outliers) == (value, value, value, ())


@pytest.mark.parametrize("bad", [[], [1.0, float("nan")], [float("inf")]])
def test_invalid_values_are_rejected(bad: Sequence[float]) -> None:
    with pytest.raises(ValueError):
        estimate_median(bad, 0.95)


@pytest.mark.parametrize("draw", ["normal", "cauchy", "lognormal"])
@pytest.mark.parametrize("count", [6, 7, 10, 21])
def test_95_percent_of_intervals_cover_the_median_for_a_fixed_number_of_trials(draw: str, count: int) -> None:
    random = np.random.default_rng(count)
    sets = {
        "normal": random.standard_normal((4000, count)),
        "cauchy": random.standard_cauchy((4000, count)),
        "lognormal": np.exp(random.standard_normal((4000, count))),
    }[draw]
    truth = 1.0 if draw == "lognormal" else 0.0
    bounds = [median_interval(values.tolist(), 0.95) or (1.0, 0.0) for values in sets]

    assert np.mean([low <= truth <= high for low, high in bounds]) == pytest.approx(0.95, abs=0.014)


@pytest.mark.parametrize("count", [5, 6, 9, 13, 30])
def test_one_in_twenty_sets_of_normal_trials_has_an_outlier(count: int) -> None:
    sets = np.random.default_rng(100 + count).normal(5.0, 0.2, (4000, count))

    assert np.mean([bool(find_outliers(values.tolist())) for values in sets]) == pytest.approx(
        0.05, abs=0.014
    )


def test_an_outlier_is_marked_and_still_counts() -> None:
    values = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.97, 4.0, 10.03]
    found = estimate_median(values, 0.95)

    assert found.outliers == (7,)
    assert found.trial_count == 9


def test_the_interval_of_each_mode_covers_its_median() -> None:
    random = np.random.default_rng(7)
    covered = []
    for _ in range(400):
        is_upper = random.random(40) < 0.6
        values = np.where(is_upper, 27.0, 19.0) * np.exp(0.02 * random.standard_normal(40))
        found = estimate_median(list(values), 0.95)
        assert found.modality == "two"
        for mode, truth in zip(found.modes, (19.0, 27.0), strict=True):
            assert mode.low is not None and mode.high is not None
            covered.append(mode.low <= truth <= mode.high)
    assert np.mean(covered) > 0.93


def test_a_mode_with_too_few_trials_has_no_interval() -> None:
    values = [19.0 + place / 10 for place in range(5)] + [27.0 + place / 10 for place in range(20)]
    few, many = estimate_median(values, 0.95).modes
    assert (few.low, few.high) == (None, None)
    assert many.low is not None and many.low < many.value


def test_trials_of_a_second_mode_are_not_outliers() -> None:
    any_marked = []
    for seed in range(500):
        random = np.random.default_rng(seed)
        found = estimate_median([*random.normal(10, 0.1, 20), *random.normal(7, 0.1, 8), 2.0], 0.95)
        assert 28 in found.outliers
        any_marked.append(len(found.outliers) > 1)
        assert found.modality == "two"

    assert np.mean(any_marked) <= 0.1


def test_if_most_trials_are_identical_any_other_is_an_outlier() -> None:
    assert find_outliers([5.0, 5.0, 5.0, 5.0, 5.1]) == (4,)
    assert find_outliers([0.0, 0.0, 0.0, 0.0, 3.0]) == (4,)
