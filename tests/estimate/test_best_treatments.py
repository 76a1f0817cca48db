"""Multiple comparisons with the best: coverage of the set and of the bounds."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy import special, stats

from tests.estimate.test_effects import NOISES, Noise
from tests.simulation_size import SimulationSize, quick_and_long
from vnetbench.estimate.best_treatments import (
    MAX_BEST_TREATMENTS_COMPARED_WITH_ALL,
    compare_with_best_of_others,
    critical_value,
)
from vnetbench.estimate.paired_ratios import untrimmed_block_count

pytestmark = pytest.mark.pure

CAMPAIGNS = 400
MIN_COVERED = 0.95 - 2 * math.sqrt(0.95 * 0.05 / CAMPAIGNS)
"""Two standard errors of the long simulation below the confidence."""


def simulated(
    random: np.random.Generator, noise: Noise, log_means: list[float], blocks: int = 10
) -> dict[int, dict[int, float]]:
    """Return values by block. Later treatments are noisier, and all share the effects of the blocks."""
    common = random.normal(0, 0.1, blocks)
    return {
        index: dict(
            enumerate(
                np.exp(
                    mean + common + noise(random, blocks) + random.normal(0, 0.01 * index, blocks)
                ).tolist()
            )
        )
        for index, mean in enumerate(log_means)
    }


def best_first(values: dict[int, dict[int, float]]) -> list[int]:
    return sorted(values, key=lambda index: -float(np.median(list(values[index].values()))))


@quick_and_long(CAMPAIGNS)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("treatment_count", [2, 6, 20])
def test_the_set_contains_the_best_treatment_with_the_confidence(
    noise: str, treatment_count: int, size: SimulationSize
) -> None:
    covered = 0
    for seed in range(size.campaigns):
        # All are equal but one: the hardest case for the set.
        log_means = [0.0] * treatment_count
        log_means[treatment_count // 2] = 0.001
        values = simulated(np.random.default_rng([1, seed]), NOISES[noise], log_means)
        result = compare_with_best_of_others(values, best_first(values), 0.95, is_lower_better=False)
        covered += treatment_count // 2 in result.candidates

    size.check_at_least(MIN_COVERED, covered)


@quick_and_long(CAMPAIGNS)
@pytest.mark.parametrize("noise", NOISES)
def test_the_bounds_hold_together_with_the_confidence(noise: str, size: SimulationSize) -> None:
    log_means = [0.0, -0.02, -0.1, 0.0, -0.3, -0.02]
    true_ratios = [mean - max(each for j, each in enumerate(log_means) if j != i)
                   for i, mean in enumerate(log_means)]  # fmt: skip
    covered = 0
    for seed in range(size.campaigns):
        values = simulated(np.random.default_rng([2, seed]), NOISES[noise], log_means)
        bounds = compare_with_best_of_others(
            values, best_first(values), 0.95, is_lower_better=False
        ).min_log_ratio_to_best
        covered += all(bounds[i] <= min(0.0, true) for i, true in enumerate(true_ratios))

    size.check_at_least(MIN_COVERED, covered)


def test_a_clearly_best_treatment_is_alone_in_the_set_and_its_bound_is_one() -> None:
    values = simulated(np.random.default_rng(3), NOISES["normal"], [0.0, 1.0, 0.2])
    result = compare_with_best_of_others(values, best_first(values), 0.95, is_lower_better=False)
    assert result.candidates == (1,)
    assert result.min_log_ratio_to_best[1] == 0
    assert -1.5 < result.min_log_ratio_to_best[0] < -1 < result.min_log_ratio_to_best[2] < -0.7


def test_the_lowest_treatment_is_best_if_lower_is_better() -> None:
    values = simulated(np.random.default_rng(4), NOISES["normal"], [0.0, 1.0, 0.5])
    order = best_first(values)[::-1]
    assert compare_with_best_of_others(values, order, 0.95, is_lower_better=True).candidates == (0,)


def test_too_few_blocks_exclude_no_treatment() -> None:
    values = simulated(np.random.default_rng(5), NOISES["normal"], [0.0, 3.0], blocks=5)
    result = compare_with_best_of_others(values, best_first(values), 0.95, is_lower_better=False)
    assert result.candidates == (1, 0)
    assert result.min_log_ratio_to_best[0] == -math.inf


def test_hundreds_of_equal_treatments_have_no_bounds() -> None:
    count = MAX_BEST_TREATMENTS_COMPARED_WITH_ALL + 20
    values = simulated(np.random.default_rng(6), NOISES["normal"], [0.0] * count)
    result = compare_with_best_of_others(values, best_first(values), 0.95, is_lower_better=False)
    assert len(result.candidates) > MAX_BEST_TREATMENTS_COMPARED_WITH_ALL
    assert set(result.min_log_ratio_to_best.values()) == {-math.inf}


def test_the_critical_value_of_hundreds_of_blocks_needs_little_memory() -> None:
    tracemalloc.start()
    try:
        critical = critical_value(300, 5, 0.95, 179)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100e6
    assert critical == pytest.approx(_student_quantile(179, 5), rel=0.02)


def test_thousands_of_blocks_have_the_quantile_of_student() -> None:
    assert critical_value(5_000, 5, 0.95, 2_999) == _student_quantile(2_999, 5)


def _student_quantile(freedom: float, comparison_count: int) -> float:
    return -float(special.stdtrit(freedom, -math.expm1(math.log(0.95) / comparison_count)))


@pytest.mark.parametrize("block_count", [6, 10])
@pytest.mark.parametrize("comparison_count", [1, 5])
def test_one_comparison_keeps_its_share_of_the_error(block_count: int, comparison_count: int) -> None:
    untrimmed = untrimmed_block_count(block_count)
    critical = critical_value(block_count, comparison_count, 0.95, untrimmed - 1)
    tail = -math.expm1(math.log(0.95) / comparison_count)
    random, count = np.random.default_rng(7), 5_000
    samples = random.normal(0, 0.05, (count, block_count))
    trimmed = stats.trim_mean(samples, 0.2, axis=1)
    winsorised = np.asarray(stats.mstats.winsorize(samples, limits=(0.2, 0.2), axis=1))
    error = winsorised.std(ddof=0, axis=1) * math.sqrt(block_count / (untrimmed * (untrimmed - 1)))
    errors = int(np.sum(trimmed / error > critical))
    assert errors / count == pytest.approx(tail, abs=3 * math.sqrt(tail / count) + 0.05 * tail)
