"""The predicted time left of a search, compared with the actual one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.simulated_devices import DeviceModel, SimulatedDevice, draw_device_model
from tests.search.search_parameters import PARAMETERS
from vnetbench.search.bayesian import BayesianSearch
from vnetbench.search.interface import SearchEstimate
from vnetbench.search.methods import run_search
from vnetbench.search.remaining_time import expected_full_steps

ONE_GOAL = replace(PARAMETERS, goals=(0.0,), time_limit_s=60)


def predictions(model: DeviceModel, seed: int) -> list[tuple[float, float]]:
    """Return the predicted and the actual time left at a quarter, half and three quarters of a search."""
    estimates: list[SearchEstimate] = []
    device = SimulatedDevice(model, seed, ONE_GOAL.settle_s)
    steps = run_search("vnetbench", device, ONE_GOAL, seed, estimates.append).steps
    ends_s = np.cumsum([step.duration_s + ONE_GOAL.settle_s for step in steps])
    finished = [
        max(0, int(np.searchsorted(ends_s, share * ends_s[-1], side="right")) - 1)
        for share in (0.25, 0.5, 0.75)
    ]
    return [(estimates[index].expected_remaining_s, float(ends_s[-1] - ends_s[index])) for index in finished]


def test_the_time_left_is_mostly_within_a_factor_of_two() -> None:
    pairs = [
        pair
        for device_type in ("sharp limit", "big buffer", "token bucket", "noisy limit", "slow drift")
        for seed in (40, 41)
        for pair in predictions(draw_device_model(device_type, seed), seed)
    ]

    assert np.mean([actual / 2 <= expected <= 2 * actual for expected, actual in pairs]) >= 0.7


@pytest.fixture(scope="module")
def estimators_after_overload() -> BayesianSearch:
    search = BayesianSearch(ONE_GOAL, seed=1)
    run = run_search("vnetbench", SimulatedDevice(DeviceModel(1e6), 1), ONE_GOAL, seed=1)
    for step in run.steps[:5]:
        search.add_step(step)
    return search


def test_a_search_without_open_goals_needs_no_more_steps() -> None:
    assert expected_full_steps([], 0.01, 30.0) == 0.0


def test_a_narrower_interval_and_a_longer_past_need_more_steps(
    estimators_after_overload: BayesianSearch,
) -> None:
    estimators = estimators_after_overload.estimators

    usual = expected_full_steps(estimators, 0.01, 10.0)

    assert expected_full_steps(estimators, 0.005, 10.0) > 2 * usual
    assert expected_full_steps(estimators, 0.01, 40.0) > 1.5 * usual


def test_the_time_left_ends_at_the_time_limit() -> None:
    noisy = DeviceModel(1e6, noise=0.03)
    search = BayesianSearch(ONE_GOAL, seed=1)
    for step in run_search("vnetbench", SimulatedDevice(noisy, 1), ONE_GOAL, seed=1).steps[:40]:
        search.add_step(step)
    spent_s = sum(step.duration_s + ONE_GOAL.settle_s for step in search.steps)

    assert search.expected_remaining_s() <= ONE_GOAL.time_limit_s - spent_s + 1e-9
