"""The Bayesian search: misleading steps, lossy ranges of loads, and resumed searches."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from bench.simulated_devices import SimulatedDevice, draw_device_model
from tests.search.search_parameters import PARAMETERS, ReplayDevice, ScriptedDevice, sharp_limit
from vnetbench.search.goal_estimator import step_durations_s
from vnetbench.search.interface import GoalResult
from vnetbench.search.methods import run_search

LIMIT_FPS = 1e6
MISLEADING_STEPS = [
    pytest.param(step, marks=() if step in (2, 6, 11) else pytest.mark.long) for step in range(2, 12)
]
"""An early, a middle and a late step of a search; `make test-long` tests all between them too."""
REPLAYED_STEPS = [7, *(pytest.param(count, marks=pytest.mark.long) for count in (0, 1, 15))]


def find_throughputs(device: ScriptedDevice, seed: int = 1) -> tuple[GoalResult, ...]:
    return run_search("vnetbench", device, PARAMETERS, seed).goal_results


@pytest.mark.parametrize("unlucky", MISLEADING_STEPS)
def test_one_unlucky_step_does_not_lower_the_result(unlucky: int) -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        stalled = load_fps * duration_s * 0.1 if before == unlucky else 0.0
        return stalled + sharp_limit(LIMIT_FPS)(load_fps, duration_s, before)

    for result in find_throughputs(ScriptedDevice(lost)):
        assert result.throughput_fps == pytest.approx(
            LIMIT_FPS / (1 - result.goal), rel=PARAMETERS.relative_width
        )


@pytest.mark.parametrize("lucky", MISLEADING_STEPS)
def test_one_lucky_step_does_not_raise_the_result(lucky: int) -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        return 0.0 if before == lucky else sharp_limit(LIMIT_FPS)(load_fps, duration_s, before)

    for result in find_throughputs(ScriptedDevice(lost)):
        assert result.throughput_fps == pytest.approx(
            LIMIT_FPS / (1 - result.goal), rel=PARAMETERS.relative_width
        )


def test_a_lossy_load_below_passing_loads_is_found() -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        is_lossy = 0.6e6 < load_fps < 0.75e6
        return (
            load_fps * duration_s * 0.02 if is_lossy else sharp_limit(LIMIT_FPS)(load_fps, duration_s, before)
        )

    for result in find_throughputs(ScriptedDevice(lost)):
        assert result.throughput_fps == pytest.approx(0.6e6, rel=PARAMETERS.relative_width)


def test_a_goal_that_accepts_the_loss_below_is_found_above_it() -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        is_lossy = 0.6e6 < load_fps < 0.75e6
        return (
            load_fps * duration_s * 0.002
            if is_lossy
            else sharp_limit(LIMIT_FPS)(load_fps, duration_s, before)
        )

    strict, middle, lax = find_throughputs(ScriptedDevice(lost))

    assert strict.throughput_fps == pytest.approx(0.6e6, rel=PARAMETERS.relative_width)
    assert middle.throughput_fps == pytest.approx(0.6e6, rel=PARAMETERS.relative_width)
    assert lax.throughput_fps == pytest.approx(LIMIT_FPS / 0.995, rel=PARAMETERS.relative_width)


def test_short_steps_that_lose_more_than_full_ones_do_not_mislead() -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        return 0.002 * load_fps + sharp_limit(LIMIT_FPS)(load_fps, duration_s, before)

    strict, _, lax = find_throughputs(ScriptedDevice(lost))

    assert strict.limited_by == "nothing passes" or strict.high_fps < 2e3
    assert lax.throughput_fps == pytest.approx(LIMIT_FPS / (1 - 0.003), rel=PARAMETERS.relative_width)


def test_short_steps_that_lose_less_than_full_ones_do_not_mislead() -> None:
    buffer_frames = 0.3 * LIMIT_FPS

    def lost(load_fps: float, duration_s: float, _: int) -> float:
        return max(0.0, (load_fps - LIMIT_FPS) * duration_s - buffer_frames)

    for result in find_throughputs(ScriptedDevice(lost)):
        assert result.throughput_fps == pytest.approx(
            1.3e6 / (1 - result.goal), rel=PARAMETERS.relative_width
        )


@pytest.mark.parametrize("step_count", REPLAYED_STEPS)
def test_a_replayed_search_continues_as_the_uninterrupted_one(step_count: int) -> None:
    model = draw_device_model("noisy limit", 3)
    uninterrupted = run_search("vnetbench", SimulatedDevice(model, 1), PARAMETERS, seed=5)
    device = SimulatedDevice(model, 1)
    for step in uninterrupted.steps[:step_count]:
        device.measure(step.load_fps, step.duration_s)

    resumed = run_search(
        "vnetbench", ReplayDevice(uninterrupted.steps[:step_count], device.measure), PARAMETERS, seed=5
    )

    assert resumed == uninterrupted


def test_another_seed_measures_other_loads() -> None:
    one, other = (
        run_search("vnetbench", ScriptedDevice(sharp_limit(LIMIT_FPS)), PARAMETERS, seed) for seed in (1, 2)
    )

    assert {step.load_fps for step in one.steps[1:]}.isdisjoint(step.load_fps for step in other.steps[1:])


def test_steps_have_few_durations_and_full_steps_take_most_of_the_time() -> None:
    steps = run_search("vnetbench", ScriptedDevice(sharp_limit(LIMIT_FPS)), PARAMETERS, seed=1).steps

    assert {step.duration_s for step in steps} == set(step_durations_s(PARAMETERS.step_s)) == {0.1, 1.0}
    full_s = sum(step.duration_s for step in steps if step.duration_s == PARAMETERS.step_s)
    assert full_s > sum(step.duration_s for step in steps) / 2


def test_a_laxer_goal_never_has_a_lower_throughput() -> None:
    for seed in range(6):
        results = run_search(
            "vnetbench", ScriptedDevice(sharp_limit(LIMIT_FPS)), PARAMETERS, seed
        ).goal_results
        assert all(strict.throughput_fps <= lax.throughput_fps for strict, lax in itertools.pairwise(results))


def test_a_wider_interval_takes_less_time() -> None:
    noisy = draw_device_model("noisy limit", 0)
    narrow, wide = (
        run_search("vnetbench", SimulatedDevice(noisy, 1), replace(PARAMETERS, relative_width=width), seed=1)
        for width in (0.005, 0.05)
    )

    assert len(wide.steps) < len(narrow.steps)
