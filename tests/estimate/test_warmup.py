"""Detection of the warm-up, its false alarms, and trials without a steady state."""

from __future__ import annotations

import numpy as np
import pytest

from tests.estimate.simulated_trials import NOISE_MODELS, SimulatedCampaign
from vnetbench.estimate.warmup import find_shared_warmups, find_warmup, fixed_warmup

SEEDS = 200


def slow_beginning(random: np.random.Generator, warm: int) -> np.ndarray:
    samples = random.normal(10.0, 0.5, 40)
    samples[:warm] *= 0.6
    return samples


@pytest.mark.parametrize("warm", [4, 8, 12])
def test_a_slow_start_is_cut_at_its_end(warm: int) -> None:
    cuts = [find_warmup(slow_beginning(np.random.default_rng(seed), warm)).samples for seed in range(SEEDS)]

    # With forty samples, chance autocorrelation hides a step in one of ten trials.
    assert np.mean([abs(cut - warm) <= 1 for cut in cuts]) >= 0.85


@pytest.mark.parametrize("warm", [4, 8, 12])
def test_the_joint_analysis_misses_no_slow_start(warm: int) -> None:
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        trials = [slow_beginning(random, warm) for _ in range(6)]
        found = find_shared_warmups(trials, [find_warmup(samples) for samples in trials])
        assert all(warm <= each.samples <= 30 for each in found)


@pytest.mark.parametrize(
    ("kind", "seconds", "share"),
    [
        ("independent", 1.0, 0.05),
        ("independent", 4.0, 0.03),
        ("autocorrelated", 2.0, 0.10),
        ("default", 2.0, 0.15),
        ("heavy tails", 2.0, 0.15),
    ],
)
def test_little_is_cut_from_trials_without_warm_up(kind: str, seconds: float, share: float) -> None:
    cut = []
    for seed in range(SEEDS):
        campaign = SimulatedCampaign(NOISE_MODELS[kind], seed, trials=9)
        trials = [campaign.samples(trial, seconds) for trial in range(9)]
        found = find_shared_warmups(trials, [find_warmup(samples) for samples in trials])
        cut += [each.samples / len(samples) for each, samples in zip(found, trials, strict=True)]

    assert np.mean(cut) <= share


def test_noise_is_rarely_called_unsteady() -> None:
    unsteady = [
        not find_warmup(
            SimulatedCampaign(NOISE_MODELS["default"], seed, trials=1).samples(0, 2.0)
        ).has_steady_state
        for seed in range(500)
    ]

    assert np.mean(unsteady) <= 0.2


def test_a_slow_rise_hidden_in_single_trials_is_cut_by_the_joint_analysis() -> None:
    left = []
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        rise = 1 - 0.3 * np.exp(-np.arange(40) / 4)
        trials = [rise * random.normal(10.0, 1.0, 40) for _ in range(12)]
        found = find_shared_warmups(trials, [find_warmup(samples) for samples in trials])
        left.append(np.mean([1 - rise[each.samples :].mean() for each in found]))

    # Without a cut, the error would be 3 %.
    assert np.mean(left) < 0.004


def test_a_warm_up_of_more_than_half_a_trial_leaves_no_steady_state() -> None:
    samples = np.random.default_rng(1).normal(10.0, 0.3, 40)
    samples[:25] *= 0.5

    assert not find_warmup(samples).has_steady_state


def test_a_warm_up_seen_in_longer_trials_is_cut_from_shorter_ones() -> None:
    random = np.random.default_rng(5)
    trials = [random.normal(10.0, 0.5, length) for length in (20, 20, 20, 40, 40, 40, 40)]
    for samples in trials:
        samples[:12] *= 0.5
    found = find_shared_warmups(trials, [find_warmup(samples) for samples in trials])

    assert [each.samples >= 12 for each in found] == [True] * 7
    assert all(each.samples <= 0.75 * len(samples) for each, samples in zip(found, trials, strict=True))
    assert [each.has_steady_state for each in found[3:]] == [True] * 4


def test_a_shared_change_in_the_second_half_makes_trials_unsteady() -> None:
    random = np.random.default_rng(6)
    trials = [random.normal(10.0, 2.0, 20) for _ in range(6)]
    for samples in trials:
        samples[:13] *= 0.7
    found = find_shared_warmups(trials, [find_warmup(samples) for samples in trials])

    assert not any(each.has_steady_state for each in found)


@pytest.mark.parametrize("samples", [[], [3.0], [0.0] * 40, [7.0] * 40, [1.0, 2.0, 3.0]])
def test_zero_constant_and_short_trials_keep_all_samples(samples: list[float]) -> None:
    own = find_warmup(samples)

    assert (own.samples, own.has_steady_state) == (0, True)
    assert find_shared_warmups([samples] * 6, [own] * 6) == (own,) * 6


def test_a_fixed_warm_up_includes_every_sample_that_it_overlaps() -> None:
    assert fixed_warmup([1.0] * 100, 0.05, 0.12).samples == 3
    assert fixed_warmup([1.0] * 100, 0.1, 0.3).samples == 3


def test_a_fixed_warm_up_longer_than_the_trial_keeps_one_sample_without_a_steady_state() -> None:
    found = fixed_warmup([1.0] * 10, 0.05, 5.0)

    assert (found.samples, found.has_steady_state) == (9, False)


def test_a_fixed_warm_up_needs_an_interval() -> None:
    with pytest.raises(ValueError, match="interval_s"):
        fixed_warmup([1.0], 0.0, 1.0)
