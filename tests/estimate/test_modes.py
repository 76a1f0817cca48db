"""Detection of two modes: its rate, and its rate of false alarms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vnetbench.estimate.modes import find_modes

SETS = 1000
Draw = Callable[[np.random.Generator, int], np.ndarray]

ONE_MODE: dict[str, Draw] = {
    "normal": lambda random, n: random.normal(1, 0.05, n),
    "uniform": lambda random, n: random.uniform(0.9, 1.1, n),
    "lognormal": lambda random, n: np.exp(random.normal(0, 0.8, n)),
    "Student's t, 2": lambda random, n: np.exp(0.03 * random.standard_t(2, n)),
    "exponential": lambda random, n: random.exponential(1, n),
    "capped from above": lambda random, n: np.exp(-0.05 * random.exponential(1, n)),
    "counts": lambda random, n: random.poisson(1.0, n).astype(float),
}


def share_called_two(draw: Draw, trials: int) -> float:
    random = np.random.default_rng(trials)
    return float(np.mean([find_modes(draw(random, trials).tolist()).modality == "two" for _ in range(SETS)]))


@pytest.mark.parametrize("trials", [20, 30, 100])
@pytest.mark.parametrize("name", ONE_MODE)
def test_a_single_mode_is_called_two_in_at_most_5_percent_of_sets(name: str, trials: int) -> None:
    assert share_called_two(ONE_MODE[name], trials) <= 0.05


@pytest.mark.parametrize(
    ("trials", "apart", "minor", "found"),
    [
        (20, 6.0, 0.5, 0.80),
        (30, 6.0, 0.5, 0.90),
        (30, 6.0, 0.3, 0.80),
        (100, 5.0, 0.3, 0.90),
    ],
)
def test_two_modes_are_detected_at_the_documented_rate(
    trials: int, apart: float, minor: float, found: float
) -> None:
    """`apart` is in standard deviations of one mode, `minor` is the share of the smaller mode."""

    def draw(random: np.random.Generator, n: int) -> np.ndarray:
        return np.exp(0.03 * (random.standard_normal(n) - apart * (random.random(n) < minor)))

    assert share_called_two(draw, trials) >= found


def test_an_outlier_does_not_hide_a_mode() -> None:
    random = np.random.default_rng(4)
    values = [*random.normal(10, 0.1, 14), *random.normal(7, 0.1, 8)]

    assert find_modes(values).modality == "two"
    assert find_modes([*values, 2.0]).modality == "two"
    assert find_modes([*values, 30.0]).modality == "two"


def test_each_mode_has_its_own_median_and_share() -> None:
    found = find_modes([10.0, 10.1, 9.9] * 7 + [7.0, 7.1, 6.9] * 3)

    assert found.modality == "two"
    assert [mode.value for mode in found.modes] == [7.0, 10.0]
    assert [mode.share for mode in found.modes] == [0.3, 0.7]


def test_fewer_than_twenty_trials_have_unknown_modality() -> None:
    assert find_modes([1.0, 2.0] * 9).modality == "unknown"


@pytest.mark.parametrize("values", [[0.0] * 20, [5.0] * 30, [1.0, 1.0 + 2e-16] * 15])
def test_identical_trials_are_one_mode(values: list[float]) -> None:
    assert find_modes(values).modality == "one"


def test_zero_trials_can_be_a_mode() -> None:
    found = find_modes([0.0] * 10 + [9.0, 9.1, 8.9, 9.2] * 5)

    assert [mode.value for mode in found.modes] == pytest.approx([0.0, 9.05])
