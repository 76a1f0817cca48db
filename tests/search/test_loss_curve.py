"""The loss curve: frame loss ratio against load, with its band."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests.search.search_parameters import PARAMETERS, ScriptedDevice, sharp_limit
from vnetbench.search.interface import SearchStep
from vnetbench.search.loss_curve import fit_loss_curve
from vnetbench.search.methods import SEARCH_BY_METHOD, run_search

LIMIT_FPS = 1e6
LOADS = LIMIT_FPS * np.array([0.5, 0.9, 0.98, 1.02, 1.1])


def measure_loads(
    device: SimulatedDevice, loads: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> list[SearchStep]:
    counts = [(float(load), device.measure(float(load), 1.0)) for load in loads]
    return [SearchStep(load, 1.0, count.sent, count.received) for load, count in counts]


@pytest.mark.parametrize("method", SEARCH_BY_METHOD)
def test_the_band_of_a_sharp_limit_contains_its_loss_for_every_method(method: str) -> None:
    curve = fit_loss_curve(
        run_search(method, ScriptedDevice(sharp_limit(LIMIT_FPS)), PARAMETERS, seed=1).steps
    )

    median, low, high = curve.median_low_high_loss_ratios(LOADS)

    # MLRsearch offers no load below 90 % of the limit, so the curve has no value there.
    known = ~np.isnan(median)
    truth = np.maximum(0, 1 - LIMIT_FPS / LOADS)
    assert known[3:].all()
    assert np.all(((low <= truth) & (truth <= high))[known])
    assert np.all(((low <= median) & (median <= high))[known])
    assert median[known & (LOADS < LIMIT_FPS)] == pytest.approx(0.0, abs=1e-4)


def test_the_median_follows_the_loss_of_many_steps() -> None:
    steps = measure_loads(SimulatedDevice(DeviceModel(LIMIT_FPS), 1), np.geomspace(2e5, 5e6, 80))

    median, _, _ = fit_loss_curve(steps).median_low_high_loss_ratios(
        np.array([0.5, 1.2, 2.0, 4.0]) * LIMIT_FPS
    )

    assert median == pytest.approx([0.0, 1 / 6, 0.5, 0.75], abs=0.06)


def test_the_band_of_a_noisy_device_contains_the_stated_share_of_new_steps() -> None:
    device = SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.02), 1)
    curve = fit_loss_curve(measure_loads(device, np.geomspace(0.85, 1.2, 60) * LIMIT_FPS))

    new_steps = measure_loads(device, np.tile(np.geomspace(0.87, 1.18, 40) * LIMIT_FPS, 10))
    loss_ratios = np.array([step.loss_ratio for step in new_steps])
    _, low, high = curve.median_low_high_loss_ratios([step.load_fps for step in new_steps], share=0.8)

    assert np.mean((low <= loss_ratios) & (loss_ratios <= high)) > 0.75


def test_the_band_is_wider_with_fewer_steps() -> None:
    device = SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.01), 1)
    steps = measure_loads(device, np.geomspace(0.8, 1.3, 60) * LIMIT_FPS)

    (many_low, many_high), (few_low, few_high) = (
        fit_loss_curve(some).median_low_high_loss_ratios([1.02 * LIMIT_FPS])[1:]
        for some in (steps, steps[::12])
    )

    assert few_high - few_low > many_high - many_low


def test_loss_never_falls_with_the_load() -> None:
    # A wide interval keeps the search short.
    parameters = replace(PARAMETERS, relative_width=0.05)
    steps = run_search(
        "vnetbench", SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.02), 1), parameters, seed=1
    ).steps

    for line in fit_loss_curve(steps).median_low_high_loss_ratios(
        np.geomspace(1.1 * min(step.load_fps for step in steps), 1.4e7, 50)
    ):
        assert np.all(np.diff(line) >= -1e-9)


def test_loads_outside_the_offered_range_have_no_value() -> None:
    curve = fit_loss_curve(measure_loads(SimulatedDevice(DeviceModel(LIMIT_FPS), 1), np.array([5e5, 1.5e6])))

    assert np.isnan(curve.median_low_high_loss_ratios([4e5, 1.6e6])).all()
    assert not np.isnan(curve.median_low_high_loss_ratios([5e5, 1e6, 1.5e6])).any()


def test_the_same_steps_give_the_same_loss_curve() -> None:
    steps = run_search(
        "vnetbench", ScriptedDevice(sharp_limit(LIMIT_FPS)), replace(PARAMETERS, goals=(0.0,)), seed=1
    ).steps

    assert np.array_equal(
        fit_loss_curve(steps).median_low_high_loss_ratios(LOADS),
        fit_loss_curve(steps).median_low_high_loss_ratios(LOADS),
    )


def test_a_loss_curve_needs_at_least_one_step() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        fit_loss_curve([])
