"""The truth of a simulated device, against what can be worked out by hand and by steps of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.simulated_devices import (
    DEVICE_TYPES,
    DeviceModel,
    SimulatedDevice,
    draw_device_model,
    true_throughput_fps,
)
from tests.search.search_parameters import ASKED

LIMIT_FPS = 1e6
SHARP = DeviceModel(LIMIT_FPS)


def truth(physics: DeviceModel, goal: float) -> float:
    return true_throughput_fps(physics, ASKED, goal)


@pytest.mark.parametrize("goal", ASKED.goals)
@pytest.mark.parametrize(
    ("physics", "expected_fps"),
    [
        (SHARP, LIMIT_FPS),
        (replace(SHARP, spare_s=0.25), 1.25 * LIMIT_FPS),
        (replace(SHARP, slow_share=0.3, slow_limit=0.9), LIMIT_FPS),
        (replace(SHARP, slow_share=0.7, slow_limit=0.9), 0.9 * LIMIT_FPS),
        (replace(SHARP, noise=0.02), LIMIT_FPS),
        (replace(SHARP, drift=0.01), LIMIT_FPS),
        (replace(SHARP, stalls_per_s=0.3, stall_s=0.01), LIMIT_FPS),
    ],
    ids=["sharp", "buffer", "slow at times", "slow mostly", "noisy", "drifting", "stalling"],
)
def test_the_true_throughput_matches_the_analytical_value(
    physics: DeviceModel, expected_fps: float, goal: float
) -> None:
    assert truth(physics, goal) == pytest.approx(expected_fps / (1 - goal), rel=1.5e-3)


def test_loss_at_the_start_lowers_the_throughput_of_goals_that_it_misses() -> None:
    physics = replace(SHARP, start_s=0.001, start_from=0.8)

    assert truth(physics, 0.0001) == pytest.approx(0.8 * LIMIT_FPS, rel=1e-4)
    assert truth(physics, 0.005) == pytest.approx(LIMIT_FPS / (1 - 0.004), rel=1e-4)


def test_single_lost_frames_lower_the_probability_of_a_lossless_step() -> None:
    physics = replace(SHARP, early_from=0.1, early_ratio=1e-5, early_power=1.0)

    found = truth(physics, 0.0)

    ratio = 1e-5 * (found / LIMIT_FPS - 0.1) / 0.9
    assert (1 - ratio) ** (found * ASKED.step_s) == pytest.approx(0.5, abs=0.03)


def test_the_throughput_is_below_lossy_loads() -> None:
    physics = replace(SHARP, hole_from=0.5, hole_to=0.6, hole_ratio=0.001)

    assert truth(physics, 0.0) == pytest.approx(0.5 * LIMIT_FPS, rel=1e-4)
    assert truth(physics, 0.005) == pytest.approx(LIMIT_FPS / 0.995, rel=1e-4)


def test_a_device_that_passes_everything_or_nothing_has_a_bound_as_throughput() -> None:
    assert truth(DeviceModel(1e9), 0.0) == ASKED.max_load_fps
    assert truth(DeviceModel(1.0), 0.005) == 0.0


def test_a_drifting_limit_is_averaged_over_the_time_of_the_search() -> None:
    rising = replace(SHARP, drift=0.02, drift_period_s=400.0)

    assert true_throughput_fps(rising, ASKED, 0.0, over_s=10.0) < 1.003 * LIMIT_FPS
    assert true_throughput_fps(rising, ASKED, 0.0, over_s=200.0) > 1.01 * LIMIT_FPS


@pytest.mark.parametrize("kind", [kind for kind in DEVICE_TYPES if not kind.startswith("loses")])
def test_steps_below_the_truth_keep_the_goal_more_often_than_not_and_above_it_less_often(kind: str) -> None:
    physics, goal = draw_device_model(kind, 2), 0.0001
    device = SimulatedDevice(physics, seed=3)
    found = truth(physics, goal)

    def kept(load_fps: float) -> float:
        counts = [device.measure(load_fps, ASKED.step_s) for _ in range(300)]
        return float(np.mean([each.sent - each.received <= goal * each.sent for each in counts]))

    assert kept(found * 0.97) > 0.5 > kept(found * 1.03)


def test_the_same_seed_gives_the_same_counts() -> None:
    physics = draw_device_model("two troubles", 4)

    one, again = (
        [SimulatedDevice(physics, seed=1).measure(load, 1.0) for load in (1e4, 1e6, 1e7)] for _ in range(2)
    )

    assert one == again
