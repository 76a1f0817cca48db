"""The true throughput of simulated devices, compared with analytical values and simulated steps."""

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
from tests.search.search_parameters import PARAMETERS

LIMIT_FPS = 1e6
SHARP = DeviceModel(LIMIT_FPS)


def true_fps(model: DeviceModel, goal: float) -> float:
    return true_throughput_fps(model, PARAMETERS, goal)


@pytest.mark.parametrize("goal", PARAMETERS.goals)
@pytest.mark.parametrize(
    ("model", "expected_fps"),
    [
        (SHARP, LIMIT_FPS),
        (replace(SHARP, buffer_s=0.25), 1.25 * LIMIT_FPS),
        (replace(SHARP, slow_share=0.3, slow_limit=0.9), LIMIT_FPS),
        (replace(SHARP, slow_share=0.7, slow_limit=0.9), 0.9 * LIMIT_FPS),
        (replace(SHARP, noise=0.02), LIMIT_FPS),
        (replace(SHARP, drift=0.01), LIMIT_FPS),
        (replace(SHARP, stalls_per_s=0.3, stall_s=0.01), LIMIT_FPS),
    ],
    ids=["sharp", "buffer", "slow at times", "slow mostly", "noisy", "drifting", "stalling"],
)
def test_the_true_throughput_matches_the_analytical_value(
    model: DeviceModel, expected_fps: float, goal: float
) -> None:
    assert true_fps(model, goal) == pytest.approx(expected_fps / (1 - goal), rel=1.5e-3)


def test_loss_at_the_start_lowers_the_throughput_of_goals_that_it_misses() -> None:
    model = replace(SHARP, start_s=0.001, start_from=0.8)

    assert true_fps(model, 0.0001) == pytest.approx(0.8 * LIMIT_FPS, rel=1e-4)
    assert true_fps(model, 0.005) == pytest.approx(LIMIT_FPS / (1 - 0.004), rel=1e-4)


def test_single_lost_frames_lower_the_probability_of_a_lossless_step() -> None:
    model = replace(SHARP, early_from=0.1, early_ratio=1e-5, early_power=1.0)

    throughput_fps = true_fps(model, 0.0)

    ratio = 1e-5 * (throughput_fps / LIMIT_FPS - 0.1) / 0.9
    assert (1 - ratio) ** (throughput_fps * PARAMETERS.step_s) == pytest.approx(0.5, abs=0.03)


def test_the_throughput_is_below_lossy_loads() -> None:
    model = replace(SHARP, lossy_from=0.5, lossy_to=0.6, lossy_ratio=0.001)

    assert true_fps(model, 0.0) == pytest.approx(0.5 * LIMIT_FPS, rel=1e-4)
    assert true_fps(model, 0.005) == pytest.approx(LIMIT_FPS / 0.995, rel=1e-4)


def test_a_device_that_passes_everything_or_nothing_has_a_bound_as_throughput() -> None:
    assert true_fps(DeviceModel(1e9), 0.0) == PARAMETERS.max_load_fps
    assert true_fps(DeviceModel(1.0), 0.005) == 0.0


def test_a_drifting_limit_is_averaged_over_the_time_of_the_search() -> None:
    rising = replace(SHARP, drift=0.02, drift_period_s=400.0)

    assert true_throughput_fps(rising, PARAMETERS, 0.0, over_s=10.0) < 1.003 * LIMIT_FPS
    assert true_throughput_fps(rising, PARAMETERS, 0.0, over_s=200.0) > 1.01 * LIMIT_FPS


@pytest.mark.parametrize("device_type", [name for name in DEVICE_TYPES if not name.startswith("loses")])
def test_most_steps_below_the_true_throughput_keep_the_goal_and_most_above_it_do_not(
    device_type: str,
) -> None:
    model, goal = draw_device_model(device_type, 2), 0.0001
    device = SimulatedDevice(model, seed=3)
    throughput_fps = true_fps(model, goal)

    def pass_share(load_fps: float) -> float:
        counts = [device.measure(load_fps, PARAMETERS.step_s) for _ in range(300)]
        return float(np.mean([each.sent - each.received <= goal * each.sent for each in counts]))

    assert pass_share(throughput_fps * 0.97) > 0.5 > pass_share(throughput_fps * 1.03)


def test_the_same_seed_gives_the_same_counts() -> None:
    model = draw_device_model("two troubles", 4)

    first, second = (
        [SimulatedDevice(model, seed=1).measure(load, 1.0) for load in (1e4, 1e6, 1e7)] for _ in range(2)
    )

    assert first == second
