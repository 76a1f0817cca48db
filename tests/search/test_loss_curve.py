"""The model of loss against load that a report draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests.search.search_parameters import ASKED, Rote, sharp
from vnetbench.search.interface import SearchStep
from vnetbench.search.loss_curve import fit_loss_curve
from vnetbench.search.methods import METHODS, run_search

LIMIT_FPS = 1e6
LOADS = LIMIT_FPS * np.array([0.5, 0.9, 0.98, 1.02, 1.1])


def swept(device: SimulatedDevice, loads: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[SearchStep]:
    counted = [(float(load), device.measure(float(load), 1.0)) for load in loads]
    return [SearchStep(load, 1.0, each.sent, each.received) for load, each in counted]


@pytest.mark.parametrize("method", METHODS)
def test_the_band_of_a_sharp_limit_contains_its_loss_for_every_method(method: str) -> None:
    model = fit_loss_curve(run_search(method, Rote(sharp(LIMIT_FPS)), ASKED, seed=1).steps)

    median, low, high = model.loss_ratios_at(LOADS)

    # MLRsearch offers no load below nine tenths of the limit: nothing is said of those.
    known = ~np.isnan(median)
    truth = np.maximum(0, 1 - LIMIT_FPS / LOADS)
    assert known[3:].all()
    assert np.all(((low <= truth) & (truth <= high))[known])
    assert np.all(((low <= median) & (median <= high))[known])
    assert median[known & (LOADS < LIMIT_FPS)] == pytest.approx(0.0, abs=1e-4)


def test_the_median_follows_the_loss_of_many_steps() -> None:
    steps = swept(SimulatedDevice(DeviceModel(LIMIT_FPS), 1), np.geomspace(2e5, 5e6, 80))

    median, _, _ = fit_loss_curve(steps).loss_ratios_at(np.array([0.5, 1.2, 2.0, 4.0]) * LIMIT_FPS)

    assert median == pytest.approx([0.0, 1 / 6, 0.5, 0.75], abs=0.06)


def test_the_band_of_a_noisy_device_contains_the_stated_share_of_new_steps() -> None:
    physics = DeviceModel(LIMIT_FPS, noise=0.02)
    device = SimulatedDevice(physics, 1)
    model = fit_loss_curve(swept(device, np.geomspace(0.85, 1.2, 60) * LIMIT_FPS))

    fresh = swept(device, np.tile(np.geomspace(0.87, 1.18, 40) * LIMIT_FPS, 10))
    lost = np.array([step.loss_ratio for step in fresh])
    _, low, high = model.loss_ratios_at([step.load_fps for step in fresh], share=0.8)

    assert np.mean((low <= lost) & (lost <= high)) > 0.75


def test_the_band_is_wider_with_fewer_steps() -> None:
    device = SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.01), 1)
    steps = swept(device, np.geomspace(0.8, 1.3, 60) * LIMIT_FPS)

    (many_low, many_high), (few_low, few_high) = (
        fit_loss_curve(some).loss_ratios_at([1.02 * LIMIT_FPS])[1:] for some in (steps, steps[::12])
    )

    assert few_high - few_low > many_high - many_low


def test_loss_never_falls_with_the_load() -> None:
    steps = run_search(
        "vnetbench", SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.02), 1), ASKED, seed=1
    ).steps

    for line in fit_loss_curve(steps).loss_ratios_at(
        np.geomspace(1.1 * min(s.load_fps for s in steps), 1.4e7, 50)
    ):
        assert np.all(np.diff(line) >= -1e-9)


def test_loads_outside_the_offered_range_have_no_value() -> None:
    model = fit_loss_curve(swept(SimulatedDevice(DeviceModel(LIMIT_FPS), 1), np.array([5e5, 1.5e6])))

    assert np.isnan(model.loss_ratios_at([4e5, 1.6e6])).all()
    assert not np.isnan(model.loss_ratios_at([5e5, 1e6, 1.5e6])).any()


def test_the_same_steps_give_the_same_loss_curve() -> None:
    steps = run_search("vnetbench", Rote(sharp(LIMIT_FPS)), replace(ASKED, goals=(0.0,)), seed=1).steps

    assert np.array_equal(
        fit_loss_curve(steps).loss_ratios_at(LOADS), fit_loss_curve(steps).loss_ratios_at(LOADS)
    )


def test_a_loss_curve_needs_at_least_one_step() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        fit_loss_curve([])
