"""Ratios of two treatments: coverage of the interval and rate of false differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation_size import SimulationSize, quick_and_long
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.ratios import adjust_p_values, estimate_rank_ratio

SETS = 1000
SIZES = [(6, 6), (6, 13), (9, 9), (20, 30)]
SPREADS = ["normal", "heavy tails", "two modes"]
positive = st.lists(st.floats(0.01, 1e9), min_size=6, max_size=15)


def sides(kind: str, before: int, after: int, factor: float, seed: int) -> tuple[list[float], list[float]]:
    random = np.random.default_rng([seed, before, after])
    count = before + after
    noise = {
        "normal": random.normal(0, 0.05, count),
        "heavy tails": 0.03 * random.standard_t(2, count),
        "two modes": np.where(random.random(count) < 0.3, -0.36, 0) + random.normal(0, 0.05, count),
    }[kind]
    values = np.exp(noise)
    return values[:before].tolist(), (factor * values[before:]).tolist()


@quick_and_long(SETS)
@pytest.mark.parametrize("kind", SPREADS)
@pytest.mark.parametrize(("before", "after"), SIZES)
def test_intervals_cover_the_true_ratio(kind: str, before: int, after: int, size: SimulationSize) -> None:
    covered = 0
    for seed in range(size.campaigns):
        found = estimate_rank_ratio(*sides(kind, before, after, 1.3, seed), 0.95)
        assert found.low is not None and found.high is not None
        covered += found.low <= 1.3 <= found.high

    size.check_at_least(0.93, covered)


@quick_and_long(SETS)
@pytest.mark.parametrize("kind", SPREADS)
@pytest.mark.parametrize(("before", "after"), SIZES)
def test_p_values_are_uniform_without_a_difference(
    kind: str, before: int, after: int, size: SimulationSize
) -> None:
    found = np.array(
        [
            estimate_rank_ratio(*sides(kind, before, after, 1.0, seed), 0.95).p_value
            for seed in range(size.campaigns)
        ]
    )

    for level in (0.01, 0.05, 0.2, 0.5):
        # Three standard errors of the simulation.
        assert np.mean(found <= level) <= level + 3 * math.sqrt(level * (1 - level) / size.campaigns)
    # Exact p values of few trials are discrete, so the rate may be slightly below the level.
    size.check_at_least(0.4, int(np.sum(found <= 0.5)))


@quick_and_long(SETS)
def test_intervals_cover_the_truth_if_the_noisier_side_has_more_trials(size: SimulationSize) -> None:
    covered = 0
    for seed in range(size.campaigns):
        random = np.random.default_rng(seed)
        steady, noisy = np.exp(random.normal(0, 0.01, 6)), np.exp(random.normal(0, 0.08, 30))
        found = estimate_rank_ratio(steady.tolist(), noisy.tolist(), 0.95)
        covered += found.low is not None and found.high is not None and found.low <= 1 <= found.high

    size.check_at_least(0.93, covered)


@given(positive, positive)
def test_swapped_sides_give_the_inverse_ratio(before: list[float], after: list[float]) -> None:
    there, back = estimate_rank_ratio(before, after, 0.95), estimate_rank_ratio(after, before, 0.95)

    assert there.low is not None and back.high is not None
    assert there.value * back.value == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.p_value == pytest.approx(back.p_value)


@given(positive, positive, st.floats(0.01, 100))
def test_scaled_trials_scale_the_ratio(before: list[float], after: list[float], factor: float) -> None:
    found, scaled = (
        estimate_rank_ratio(before, after, 0.95),
        estimate_rank_ratio(before, [factor * value for value in after], 0.95),
    )

    assert scaled.value == pytest.approx(factor * found.value)
    assert found.high is not None and scaled.high == pytest.approx(factor * found.high)


def test_three_trials_on_each_side_have_a_ratio_but_no_interval() -> None:
    found = estimate_rank_ratio([1.0, 1.1, 0.9], [2.0, 2.1, 1.9], 0.95)

    assert found.value == pytest.approx(2.0, rel=0.05)
    assert (found.low, found.high) == (None, None)
    assert found.p_value == pytest.approx(0.1)


def test_identical_trials_do_not_differ() -> None:
    found = estimate_rank_ratio([5.0] * 6, [5.0] * 6, 0.95)

    assert (found.value, found.low, found.high, found.p_value) == (1.0, 1.0, 1.0, 1.0)


def test_a_zero_side_gives_a_ratio_of_zero_or_infinity() -> None:
    dead, alive = [0.0] * 6, [1.0, 1.1, 1.2, 0.9, 1.05, 1.15]

    assert estimate_rank_ratio(alive, dead, 0.95).value == 0
    assert math.isinf(estimate_rank_ratio(dead, alive, 0.95).value)
    assert estimate_rank_ratio(dead, alive, 0.95).high is None
    assert estimate_rank_ratio(dead, dead, 0.95).value == 1


@pytest.mark.parametrize("bad", [[], [-1.0], [float("nan")]])
def test_values_without_a_logarithm_are_rejected(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="ratio needs"):
        estimate_rank_ratio([1.0, 2.0], bad, 0.95)


def test_p_values_are_adjusted_for_multiple_comparisons() -> None:
    """The example is from Benjamini & Hochberg (1995), section 3.2."""
    raw = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719]
    raw += [0.6528, 0.759, 1.0]
    adjusted = adjust_p_values([Ratio(1.0, None, None, 0.95, p) for p in raw])

    # The paper rejects the four smallest at 5 %.
    assert [each.p_value is not None and each.p_value <= 0.05 for each in adjusted] == [True] * 4 + [
        False
    ] * 11
    assert adjusted[0].p_value == pytest.approx(0.0015)
    assert all(each.is_p_value_adjusted for each in adjusted)


def test_a_ratio_without_a_p_value_stays_unchanged() -> None:
    known, unknown = Ratio(2.0, 1.5, 2.5, 0.95, 0.04), Ratio(2.0, None, None, 0.95, None)

    assert adjust_p_values([known, unknown]) == [
        Ratio(2.0, 1.5, 2.5, 0.95, 0.04, is_p_value_adjusted=True),
        unknown,
    ]
