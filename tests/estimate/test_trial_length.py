"""The length of the next trials balances the cost of a trial against the noise of its samples."""

from __future__ import annotations

import numpy as np
import pytest

from vnetbench.estimate.model import Warmup
from vnetbench.estimate.trial_length import PastTrial, choose_trial_length_s

INTERVAL_S = 0.05


def past(between: float, within: float, seed: int = 0, cut: int = 0, steady: bool = True) -> list[PastTrial]:
    """Return thirty trials of 4 s; `within` is the standard deviation of the mean of one second."""
    random = np.random.default_rng(seed)
    levels = random.normal(1.0, between, 30)
    return [
        PastTrial(
            random.normal(level, within * np.sqrt(20), 80), INTERVAL_S, Warmup(cut, steady, "change-point")
        )
        for level in levels
    ]


def test_the_length_is_the_root_of_cost_times_variance_within_over_between_trials() -> None:
    found = [choose_trial_length_s(past(0.03, 0.06, seed), setup_s=1.0) for seed in range(200)]

    assert np.median(found) == pytest.approx(2.0, rel=0.2)


def test_a_longer_setup_makes_longer_trials() -> None:
    assert choose_trial_length_s(past(0.03, 0.06), 4.0) > 1.5 * choose_trial_length_s(past(0.03, 0.06), 1.0)


def test_the_warm_up_is_added_and_counts_as_cost() -> None:
    trials, warmup_s = past(0.03, 0.06, cut=20), 1.0
    cheap, dear = (
        choose_trial_length_s(trials, setup_s, longest_s=100.0) - warmup_s for setup_s in (1.0, 7.0)
    )

    # Four times the cost, 8 s instead of 2 s, doubles the steady part.
    assert dear == pytest.approx(2 * cheap)


def test_the_length_stays_within_its_bounds() -> None:
    assert choose_trial_length_s(past(0.1, 0.001), 0.1) == 1.0
    assert choose_trial_length_s(past(0.001, 0.5), 60.0) == 10.0
    assert choose_trial_length_s(past(0.1, 0.001), 0.1, 0.5, 2.0) == 0.5


def test_if_most_trials_are_unsteady_the_next_are_half_as_long_again() -> None:
    assert choose_trial_length_s(past(0.1, 0.001, steady=False), 0.1) == pytest.approx(6.0)


def test_identical_trials_get_the_shortest_length() -> None:
    alike = [PastTrial([5.0] * 40, INTERVAL_S, Warmup(0, True, "change-point"))] * 3

    assert choose_trial_length_s(alike, 1.0) == 1.0


def test_one_past_trial_is_rejected() -> None:
    with pytest.raises(ValueError, match="two past trials"):
        choose_trial_length_s(past(0.1, 0.1)[:1], 1.0)
