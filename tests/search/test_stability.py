"""The test of a constant throughput, and the estimates of a search that is stopped early."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from bench.simulated_devices import DeviceModel, SimulatedDevice, draw_device_model
from tests.search.search_parameters import PARAMETERS
from vnetbench.search.bayesian import BayesianSearch
from vnetbench.search.interface import SearchEstimate, SearchStep, SentAndReceivedFrames
from vnetbench.search.methods import SEARCH_BY_METHOD, estimate_from_steps, run_search
from vnetbench.search.stability import find_range_if_throughput_changed

LIMIT_FPS = 1e6
ONE_GOAL = replace(PARAMETERS, goals=(0.0,), time_limit_s=60)


def measure_steps(
    limits_fps: list[float], share_of_limit: list[float], noise: float = 0.003
) -> list[SearchStep]:
    """Return full steps at these shares of 1 Mframe/s through devices with these limits."""
    steps = []
    for number, (limit_fps, share) in enumerate(zip(limits_fps, share_of_limit, strict=True)):
        load_fps = share * LIMIT_FPS
        counts = SimulatedDevice(DeviceModel(limit_fps, noise=noise), number).measure(load_fps, 1.0)
        steps.append(SearchStep(load_fps, 1.0, counts.sent, counts.received))
    return steps


SHARES = [0.9, 0.97, 1.03, 0.985, 1.015, 0.95, 1.05, 0.98, 1.02, 0.96]
SLOWER_SHARES = [0.95, 0.68, 0.72, 0.9, 0.69, 0.71, 0.8, 0.66, 0.97, 0.685]
FAST, SLOW = [LIMIT_FPS] * 10, [0.7 * LIMIT_FPS] * 10


def test_a_throughput_that_falls_during_the_search_drifts_and_the_range_has_both() -> None:
    found = find_range_if_throughput_changed(
        measure_steps(FAST + SLOW, SHARES + SLOWER_SHARES), 0.0, 0.9 * LIMIT_FPS, 0.95
    )

    assert found is not None and found.change == "drift"
    assert 0.65 < found.low_fps / LIMIT_FPS <= 0.71 and 0.98 < found.high_fps / LIMIT_FPS < 1.06


def test_a_throughput_that_recovers_was_disturbed() -> None:
    steps = measure_steps(FAST + SLOW + FAST, SHARES + SLOWER_SHARES + SHARES)
    found = find_range_if_throughput_changed(steps, 0.0, LIMIT_FPS, 0.9)

    assert found is not None and found.change == "disturbance"


@pytest.mark.parametrize("noise", [0.0005, 0.003, 0.03])
def test_a_constant_throughput_has_no_range(noise: float) -> None:
    steps = measure_steps(FAST + FAST, SHARES + SLOWER_SHARES, noise)

    assert find_range_if_throughput_changed(steps, 0.0, LIMIT_FPS, 0.95) is None


def test_too_few_steps_show_no_change() -> None:
    steps = measure_steps([LIMIT_FPS] * 2 + [0.5 * LIMIT_FPS] * 3, SHARES[:5])

    assert find_range_if_throughput_changed(steps, 0.0, LIMIT_FPS, 0.95) is None


@dataclass
class SlowingDevice:
    """A device that becomes slower by 30 % for the rest of the search."""

    device: SimulatedDevice
    slower_from_s: float

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        if self.device.now_s >= self.slower_from_s:
            self.device.model = DeviceModel(0.7 * LIMIT_FPS, noise=0.01)
        return self.device.measure(load_fps, duration_s)


def test_a_search_on_a_device_that_slows_down_reports_the_change_and_its_range() -> None:
    results = [
        run_search(
            "vnetbench",
            SlowingDevice(SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.01), seed), 12.0),
            ONE_GOAL,
            seed,
        ).goal_results[0]
        for seed in range(6)
    ]

    changed = [result for result in results if result.change_during_search != "none"]
    assert len(changed) >= 3
    for result in changed:
        assert result.low_fps < 0.75 * LIMIT_FPS and result.high_fps > 0.95 * LIMIT_FPS


@pytest.mark.parametrize("method", SEARCH_BY_METHOD)
def test_the_steps_of_a_search_give_its_result(method: str) -> None:
    result = run_search(method, SimulatedDevice(draw_device_model("stalls", 3), 1), ONE_GOAL, seed=5)

    assert estimate_from_steps(method, result.steps, ONE_GOAL) == result.goal_results


def test_the_expected_time_is_within_the_time_limit_and_ends_at_zero() -> None:
    estimates: list[SearchEstimate] = []
    result = run_search(
        "vnetbench",
        SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.02), 1),
        ONE_GOAL,
        1,
        estimates.append,
    )

    assert len(estimates) in (len(result.steps) - 1, len(result.steps))
    spent_s = 0.0
    for step, estimate in zip(result.steps, estimates, strict=False):
        spent_s += step.duration_s + ONE_GOAL.settle_s
        assert 0 <= estimate.expected_remaining_s <= ONE_GOAL.time_limit_s - spent_s + 1e-6


def test_a_stopped_search_covers_a_noisy_throughput() -> None:
    covered = []
    for seed in range(8):
        device = SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.015), seed)
        steps = run_search("vnetbench", device, ONE_GOAL, seed).steps
        for count in (5, 15, 30):
            search = BayesianSearch(ONE_GOAL, seed)
            for step in steps[:count]:
                search.add_step(step)
            (result,) = search.final_goal_results()
            covered.append(result.low_fps <= LIMIT_FPS <= result.high_fps)

    assert sum(covered) >= 22
