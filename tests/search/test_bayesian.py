"""vnetbench's own search: what misleads others does not mislead it, and it decides the same when resumed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from bench.simulated_devices import SimulatedDevice, draw_device_model
from tests.search.search_parameters import ASKED, Replayed, Rote, sharp
from vnetbench.search.goal_estimator import step_lengths
from vnetbench.search.interface import GoalResult
from vnetbench.search.methods import run_search

LIMIT_FPS = 1e6


def found_of(device: Rote, seed: int = 1) -> tuple[GoalResult, ...]:
    return run_search("vnetbench", device, ASKED, seed).goal_results


@pytest.mark.parametrize("unlucky", range(2, 12))
def test_one_unlucky_step_is_not_a_limit(unlucky: int) -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        stalled = load_fps * duration_s * 0.1 if before == unlucky else 0.0
        return stalled + sharp(LIMIT_FPS)(load_fps, duration_s, before)

    for answer in found_of(Rote(lost)):
        assert answer.throughput_fps == pytest.approx(LIMIT_FPS / (1 - answer.goal), rel=ASKED.relative_width)


@pytest.mark.parametrize("lucky", range(2, 12))
def test_one_lucky_step_is_no_proof(lucky: int) -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        return 0.0 if before == lucky else sharp(LIMIT_FPS)(load_fps, duration_s, before)

    for answer in found_of(Rote(lost)):
        assert answer.throughput_fps == pytest.approx(LIMIT_FPS / (1 - answer.goal), rel=ASKED.relative_width)


def test_a_lossy_load_below_passing_loads_is_found() -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        in_the_hole = 0.6e6 < load_fps < 0.75e6
        return load_fps * duration_s * 0.02 if in_the_hole else sharp(LIMIT_FPS)(load_fps, duration_s, before)

    for answer in found_of(Rote(lost)):
        assert answer.throughput_fps == pytest.approx(0.6e6, rel=ASKED.relative_width)


def test_a_goal_that_accepts_the_loss_below_is_found_above_it() -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        in_the_hole = 0.6e6 < load_fps < 0.75e6
        return (
            load_fps * duration_s * 0.002 if in_the_hole else sharp(LIMIT_FPS)(load_fps, duration_s, before)
        )

    strict, middle, lax = found_of(Rote(lost))

    assert strict.throughput_fps == pytest.approx(0.6e6, rel=ASKED.relative_width)
    assert middle.throughput_fps == pytest.approx(0.6e6, rel=ASKED.relative_width)
    assert lax.throughput_fps == pytest.approx(LIMIT_FPS / 0.995, rel=ASKED.relative_width)


def test_short_steps_that_lose_more_than_full_ones_do_not_mislead() -> None:
    def lost(load_fps: float, duration_s: float, before: int) -> float:
        return 0.002 * load_fps + sharp(LIMIT_FPS)(load_fps, duration_s, before)

    strict, _, lax = found_of(Rote(lost))

    assert strict.limited_by == "nothing passes" or strict.high_fps < 2e3
    assert lax.throughput_fps == pytest.approx(LIMIT_FPS / (1 - 0.003), rel=ASKED.relative_width)


def test_short_steps_that_lose_less_than_full_ones_do_not_mislead() -> None:
    buffered = 0.3 * LIMIT_FPS

    def lost(load_fps: float, duration_s: float, _: int) -> float:
        return max(0.0, (load_fps - LIMIT_FPS) * duration_s - buffered)

    for answer in found_of(Rote(lost)):
        assert answer.throughput_fps == pytest.approx(1.3e6 / (1 - answer.goal), rel=ASKED.relative_width)


@pytest.mark.parametrize("kept", [0, 1, 7, 15])
def test_a_replayed_search_continues_as_the_uninterrupted_one(kept: int) -> None:
    physics = draw_device_model("noisy limit", 3)
    whole = run_search("vnetbench", SimulatedDevice(physics, 1), ASKED, seed=5)
    again = SimulatedDevice(physics, 1)
    for step in whole.steps[:kept]:
        again.measure(step.load_fps, step.duration_s)

    resumed = run_search("vnetbench", Replayed(whole.steps[:kept], again.measure), ASKED, seed=5)

    assert resumed == whole


def test_another_seed_measures_other_loads() -> None:
    one, other = (run_search("vnetbench", Rote(sharp(LIMIT_FPS)), ASKED, seed) for seed in (1, 2))

    assert {step.load_fps for step in one.steps[1:]}.isdisjoint(step.load_fps for step in other.steps[1:])


def test_steps_have_few_durations_and_full_steps_take_most_of_the_time() -> None:
    steps = run_search("vnetbench", Rote(sharp(LIMIT_FPS)), ASKED, seed=1).steps

    assert {step.duration_s for step in steps} == set(step_lengths(ASKED.step_s)) == {0.1, 1.0}
    full_s = sum(step.duration_s for step in steps if step.duration_s == ASKED.step_s)
    assert full_s > sum(step.duration_s for step in steps) / 2


def test_a_laxer_goal_never_has_a_lower_throughput() -> None:
    for seed in range(6):
        answers = run_search("vnetbench", Rote(sharp(LIMIT_FPS)), ASKED, seed).goal_results
        assert all(strict.throughput_fps <= lax.throughput_fps for strict, lax in itertools.pairwise(answers))


def test_a_wider_interval_takes_less_time() -> None:
    noisy = draw_device_model("noisy limit", 0)
    narrow, wide = (
        run_search("vnetbench", SimulatedDevice(noisy, 1), replace(ASKED, relative_width=width), seed=1)
        for width in (0.005, 0.05)
    )

    assert len(wide.steps) < len(narrow.steps)
