"""Loads below the throughput that lose frames although higher loads pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.search.search_parameters import PARAMETERS, ScriptedDevice, sharp_limit
from vnetbench.estimate.search_steps import format_nonmonotonic_loss_note
from vnetbench.search.bayesian import BayesianSearch
from vnetbench.search.interface import GoalResult, SearchStep
from vnetbench.search.methods import run_search
from vnetbench.search.monotonicity import MonotonicityCheck

LIMIT_FPS = 1e6
ONE_GOAL = replace(PARAMETERS, goals=(0.0,), time_limit_s=60)


def lossy_range(from_fps: float, to_fps: float) -> ScriptedDevice:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        if from_fps < load_fps < to_fps:
            return load_fps * duration_s * 0.01
        return sharp_limit(LIMIT_FPS)(load_fps, duration_s, before)

    return ScriptedDevice(lost)


@pytest.mark.parametrize("from_fps", [0.42e6, 0.6e6, 0.83e6])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_lossy_range_of_seven_percent_is_found_and_named(from_fps: float, seed: int) -> None:
    device = lossy_range(from_fps, 1.07 * from_fps)

    (result,) = run_search("vnetbench", device, ONE_GOAL, seed).goal_results

    assert result.throughput_fps == pytest.approx(from_fps, rel=ONE_GOAL.relative_width)
    assert (
        result.missed_load_below_kept_load_fps is not None
        and from_fps < result.missed_load_below_kept_load_fps < 1.07 * from_fps
    )
    assert "no single limit" in format_nonmonotonic_loss_note(result.missed_load_below_kept_load_fps)


def test_a_device_with_one_limit_has_no_lossy_load() -> None:
    (result,) = run_search("vnetbench", ScriptedDevice(sharp_limit(LIMIT_FPS)), ONE_GOAL, 1).goal_results

    assert result.missed_load_below_kept_load_fps is None


def test_results_stored_before_the_lossy_load_can_be_read() -> None:
    stored = {
        "goal": 0.0,
        "throughput_fps": 1.0,
        "low_fps": 1.0,
        "high_fps": 1.0,
        "confidence": 0.95,
        "limited_by": "device",
    }

    assert GoalResult.from_json(stored).missed_load_below_kept_load_fps is None


def search_after(steps: list[SearchStep]) -> BayesianSearch:
    search = BayesianSearch(ONE_GOAL, seed=1)
    for step in steps:
        search.add_step(step)
    return search


def step(share_of_limit: float, duration_s: float, loss_ratio: float) -> SearchStep:
    sent = round(share_of_limit * LIMIT_FPS * duration_s)
    return SearchStep(share_of_limit * LIMIT_FPS, duration_s, sent, sent - round(loss_ratio * sent))


NEAR_THE_LIMIT = [
    *(step(share, 1.0, 0.0) for share in (0.9, 0.97, 0.985, 0.992, 0.996)),
    *(step(share, 1.0, share - 1) for share in (1.05, 1.02, 1.01, 1.006, 1.003)),
]


def test_loads_that_differ_by_a_rounding_error_need_no_step_and_save_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = MonotonicityCheck(ONE_GOAL)
    loads = [LIMIT_FPS, LIMIT_FPS * (1 + 1e-12), 1.02 * LIMIT_FPS]
    monkeypatch.setattr(check, "_checked_loads_fps", lambda estimators, steps: loads)

    assert check.expected_step_count([], []) == 0


def test_a_short_step_that_misses_is_repeated_at_the_same_load_and_duration() -> None:
    search = search_after([*NEAR_THE_LIMIT, step(0.6, 0.1, 0.02)])

    assert search.plan_step() == (0.6 * LIMIT_FPS, 0.1)


def test_full_steps_follow_only_if_the_repetition_misses_too() -> None:
    stalled_once = search_after([*NEAR_THE_LIMIT, step(0.6, 0.1, 0.02), step(0.6, 0.1, 0.0)])
    missed_twice = search_after([*NEAR_THE_LIMIT, step(0.6, 0.1, 0.02), step(0.6, 0.1, 0.02)])

    planned = stalled_once.plan_step()
    assert planned is not None and planned.load_fps != 0.6 * LIMIT_FPS
    assert missed_twice.plan_step() == (0.6 * LIMIT_FPS, 1.0)


def test_an_early_step_that_missed_is_examined_once_the_throughput_is_known() -> None:
    search = search_after([step(0.6, 0.1, 0.02)])

    planned = []
    for each in NEAR_THE_LIMIT:
        search.add_step(each)
        planned.append(search.plan_step())
        if planned[-1] == (0.6 * LIMIT_FPS, 0.1):
            break

    assert planned[0] != planned[-1] == (0.6 * LIMIT_FPS, 0.1)


def test_steps_with_long_settling_check_fewer_loads() -> None:
    slow = replace(ONE_GOAL, settle_s=0.6)

    fast_checks, slow_checks = (
        sum(
            each.load_fps < 0.93 * LIMIT_FPS
            for each in run_search(
                "vnetbench", ScriptedDevice(sharp_limit(LIMIT_FPS)), parameters, seed=1
            ).steps
        )
        for parameters in (ONE_GOAL, slow)
    )

    assert slow_checks < fast_checks
