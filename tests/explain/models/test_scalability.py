"""The universal scalability law: recovered parameters and coverage of intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vnetbench.explain.models.scalability import ScalabilityFit, fit_scalability_law

pytestmark = pytest.mark.pure

LEVELS = (1, 2, 4, 8, 16, 32)
FITS = 500


def test_the_fit_recovers_the_parameters() -> None:
    law = ScalabilityFit(gamma=17e9, sigma=0.08, kappa=0.004, peak_worker_count=0.0)
    result = fit_scalability_law(LEVELS, [law.throughput_at(n) for n in LEVELS])

    assert (result.gamma, result.sigma, result.kappa) == pytest.approx((17e9, 0.08, 0.004), rel=1e-6)
    assert result.peak_worker_count == pytest.approx(math.sqrt(0.92 / 0.004))
    assert result.interval_by_parameter["sigma"] == pytest.approx((0.08, 0.08), abs=1e-6)


def test_intervals_cover_the_truth() -> None:
    law = ScalabilityFit(gamma=10.0, sigma=0.2, kappa=0.01, peak_worker_count=math.sqrt(0.8 / 0.01))
    truth = {"gamma": law.gamma, "sigma": law.sigma, "kappa": law.kappa, "peak": law.peak_worker_count}
    covered = dict.fromkeys(truth, 0)
    for seed in range(FITS):
        noise = np.exp(np.random.default_rng(seed).normal(0, 0.02, len(LEVELS)))
        result = fit_scalability_law(
            LEVELS, [law.throughput_at(n) * float(e) for n, e in zip(LEVELS, noise, strict=True)]
        )
        for name, (low, high) in result.interval_by_parameter.items():
            covered[name] += low <= truth[name] <= high

    assert min(covered.values()) >= 0.93 * FITS


def test_linear_scaling_has_no_peak() -> None:
    result = fit_scalability_law((1, 2, 4, 8), (10.0, 20.0, 40.0, 80.0))

    assert (result.sigma, result.kappa, result.peak_worker_count) == pytest.approx(
        (0.0, 0.0, math.inf), abs=1e-9
    )


def test_superlinear_scaling_stays_at_the_bounds() -> None:
    result = fit_scalability_law((1, 2, 4), (1.0, 4.0, 16.0))

    assert (result.sigma, result.kappa) == (0.0, 0.0)
    assert result.interval_by_parameter == {}


def test_too_few_or_invalid_values_are_rejected() -> None:
    for levels, values in (((1, 2), (1.0, 2.0)), ((1, 1, 2), (1.0, 1.0, 2.0)), ((0, 1, 2), (1.0, 1.0, 2.0))):
        with pytest.raises(ValueError, match="three different n"):
            fit_scalability_law(levels, values)
    with pytest.raises(ValueError, match="values above zero"):
        fit_scalability_law((1, 2, 4), (1.0, 0.0, 2.0))


def test_extremely_different_values_have_an_infinite_interval() -> None:
    result = fit_scalability_law((1, 2, 4, 8), (1e18, 1e-15, 1e18, 1e-15))

    assert result.interval_by_parameter["gamma"] == pytest.approx((0.0, math.inf))
