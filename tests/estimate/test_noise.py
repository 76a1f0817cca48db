"""Noise estimates from samples with shifts of their level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from vnetbench.estimate.noise import long_run_variance


def autoregression(seed: int, correlation: float, shape: tuple[int, int]) -> np.ndarray:
    shocks = np.random.default_rng(seed).standard_normal((shape[0], shape[1] + 200))
    return np.asarray(signal.lfilter([1.0], [1.0, -correlation], shocks, axis=1))[:, 200:]


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.8])
def test_long_run_variance_is_the_variance_of_a_mean_times_the_number_of_samples(correlation: float) -> None:
    found = [long_run_variance([row]) for row in autoregression(1, correlation, (200, 400))]

    assert np.median(found) == pytest.approx(1 / (1 - correlation) ** 2, rel=0.3)


def test_several_trials_count_together() -> None:
    rows = autoregression(2, 0.6, (60, 40))
    rows += 50 * np.arange(60)[:, None]
    trials = [row[: 20 + position % 20] for position, row in enumerate(rows)]

    assert long_run_variance(trials) == pytest.approx(1 / 0.4**2, rel=0.25)


def test_a_few_level_shifts_do_not_count_as_noise() -> None:
    samples = autoregression(3, 0.0, (1, 400))[0]
    samples[100:] += 8
    samples[250:] -= 20

    assert long_run_variance([samples]) == pytest.approx(1.0, rel=0.3)


def test_constant_samples_have_no_noise() -> None:
    assert long_run_variance([np.full(50, 3.0)]) == 0
    assert long_run_variance([np.array([1.0, 2.0])]) == 0
