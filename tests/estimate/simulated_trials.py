"""Simulated campaigns with a known true median, to validate the estimates.

Goodput is in units of its steady level, 1. The level varies by 3 % from trial to trial and the mean of one
second by 5 % within a trial. Samples are 50 ms long. The noise models add further disturbances. A campaign is
one treatment with one trial in each block; the time of the trial within its block is random, as in a
randomised order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy import signal, stats
from scipy.special import ndtr

from vnetbench.campaign.schedule import choose_load_duration_s
from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.stopping_rule import decide_stopping
from vnetbench.estimate.trial_length import MAX_TRIAL_LENGTH_S, PastTrial
from vnetbench.estimate.warmup import find_shared_warmups, find_warmup, fixed_warmup
from vnetbench.study.model import Precision

INTERVAL_S = 0.05
SETUP_S = 0.5
"""Cost of a simulated trial without its load, for both methods."""
LONG_TRIALS, LONG_WARMUP_S, LONG_STEADY_S = 3, 5.0, 20.0
"""The usual method, with which the adaptive rule is compared."""
_TIMES_PER_BLOCK = 8
"""Times within a block at which a trial may run."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NoiseModel:
    """The noise of simulated trials, in units of the steady level."""

    name: str
    target: str
    """The quantity that the interval must cover, in words."""
    autocorrelation: float = 0.0
    """Autocorrelation of neighbouring 50 ms samples (first-order autoregression)."""
    second_sd: float = 0.05
    """Standard deviation of the mean of one second within a trial."""
    trial_sd: float = 0.03
    """Standard deviation of the level between trials; its scale with `tail_degrees_of_freedom`."""
    tail_degrees_of_freedom: float = math.inf
    """Degrees of freedom of the level between trials (Student's t)."""
    drift_sd: float = 0.0
    """Standard deviation of the level's trend over thirty blocks; a slow wave and a random walk add to it."""
    has_warmup: bool = False
    """Half rate for the first 0.2 to 0.6 s, or an exponential rise from half rate in 0.1 to 0.2 s."""
    slow_mode_share: float = 0.0
    """Share of the trials in a second mode, 30 % below the first."""
    disturbed_share: float = 0.0
    """Share of the trials that lose 30 to 50 % to other work on the machine."""
    trial_autocorrelation: float = 0.0
    """Autocorrelation of the level between successive trials, which are then not independent."""


_MEDIAN = "median of the trials' distribution"

NOISE_MODELS: Mapping[str, NoiseModel] = {
    model.name: model
    for model in (
        # 1 s means with an autocorrelation of 0.5 are 50 ms samples with 0.944 (Ornstein-Uhlenbeck process).
        NoiseModel("default", _MEDIAN, autocorrelation=0.944),
        NoiseModel("independent", _MEDIAN),
        NoiseModel("autocorrelated", _MEDIAN, autocorrelation=0.8),
        NoiseModel(
            "drifting", "median of the trials' distribution over the campaign's own time", drift_sd=0.05
        ),
        NoiseModel(
            "warm-up", "median of the steady level's distribution", autocorrelation=0.5, has_warmup=True
        ),
        NoiseModel("bimodal", "median of both modes' distribution together", slow_mode_share=0.3),
        NoiseModel(
            "outliers", "median of the trials' distribution, disturbed ones included", disturbed_share=0.08
        ),
        NoiseModel("heavy tails", _MEDIAN, autocorrelation=0.9, trial_sd=0.02, tail_degrees_of_freedom=2),
        NoiseModel(
            "dependent", "median of the trials' distribution over any time", trial_autocorrelation=0.5
        ),
    )
}


class SimulatedCampaign:
    """The trials of one treatment with a noise model and a seed; each call returns the same trial."""

    def __init__(
        self, model: NoiseModel, seed: int, trials: int = 30, longest_s: float = MAX_TRIAL_LENGTH_S
    ) -> None:
        random = np.random.default_rng([seed, *model.name.encode()])
        self.model = model
        samples = round(longest_s / INTERVAL_S)
        self._drift = _drift(random, model.drift_sd, trials)
        now = self._drift[np.arange(trials), random.integers(_TIMES_PER_BLOCK, size=trials)]
        is_slow = random.uniform(size=trials) < model.slow_mode_share
        is_disturbed = random.uniform(size=trials) < model.disturbed_share
        factor = np.where(is_slow, 0.7, 1.0) * np.where(is_disturbed, random.uniform(0.5, 0.7, trials), 1.0)
        off = _autoregression(random.standard_normal((1, trials)), model.trial_autocorrelation)[0]
        if math.isfinite(model.tail_degrees_of_freedom):
            off = random.standard_t(model.tail_degrees_of_freedom, trials)
        self._level: Floats = now * factor + model.trial_sd * off
        noise = _autoregression(random.standard_normal((trials, samples)), model.autocorrelation)
        self._noise = _sample_sd(model) * noise
        self._shape = (
            _warmup_shape(random, trials, samples) if model.has_warmup else np.ones((trials, samples))
        )

    def samples(self, trial: int, duration_s: float) -> Floats:
        """Return the samples of a trial, each the mean of 50 ms."""
        count = round(duration_s / INTERVAL_S)
        steady = self._level[trial] + self._noise[trial, :count]
        return np.asarray(np.maximum(steady * self._shape[trial, :count], 0.0))

    def truth(self, steady_s: Sequence[float]) -> float:
        """Return the true median for one trial of each of these steady lengths, one in each block."""
        model = self.model
        counts = np.maximum(1, np.round(np.asarray(steady_s) / INTERVAL_S))
        within = _sample_sd(model) ** 2 * _mean_variance(counts, model.autocorrelation)
        spread = np.sqrt(model.trial_sd**2 + within)[:, None, None]
        parts = [(1 - model.slow_mode_share - model.disturbed_share, 1.0), (model.slow_mode_share, 0.7)]
        parts += [(model.disturbed_share / 10, factor) for factor in np.linspace(0.51, 0.69, 10)]
        shares, factors = np.array([part for part in parts if part[0] > 0]).T
        moments = _TIMES_PER_BLOCK if model.drift_sd else 1
        centres = self._drift[: len(counts), :moments, None] * factors
        low, high = 0.0, 2.0
        for _ in range(24):
            middle = (low + high) / 2
            below = float(np.mean(ndtr((middle - centres) / spread) @ shares))
            low, high = (middle, high) if below < 0.5 else (low, middle)
        return (low + high) / 2


@dataclass(frozen=True)
class SimulationResult:
    """The result of one simulated campaign."""

    low: float
    high: float
    value: float
    truth: float
    trial_count: int
    total_s: float
    """Time of all trials in seconds: set-up, warm-up and steady part."""
    stopped_by: str

    @property
    def covers_truth(self) -> bool:
        """Whether the interval contains the true median."""
        return self.low <= self.truth <= self.high

    @property
    def half_width(self) -> float:
        """Half the interval's width as a share of the value."""
        return (self.high - self.low) / 2 / self.value


def run_adaptive_campaign(
    campaign: SimulatedCampaign, precision: Precision, setup_s: float = SETUP_S
) -> SimulationResult:
    """Run a campaign with detected warm-ups, adaptive trial lengths and the stopping rule.

    Raises:
        ValueError: The precision allows no interval.
    """
    past: list[PastTrial] = []
    own: list[Warmup] = []
    seconds = 0.0
    while True:
        samples = campaign.samples(
            len(past), choose_load_duration_s(past, setup_s, precision, treatment_count=1)
        )
        seconds += setup_s + len(samples) * INTERVAL_S
        own.append(find_warmup(samples))
        past.append(PastTrial(samples, INTERVAL_S, own[-1]))
        warmups = find_shared_warmups([each.samples for each in past], own)
        past = [
            each if each.warmup == warmup else replace(each, warmup=warmup)
            for each, warmup in zip(past, warmups, strict=True)
        ]
        decision = decide_stopping([each.steady_mean for each in past], precision)
        if decision.should_stop:
            return _simulation_result(campaign, past, precision, seconds, decision.reason)


def run_three_long_trials(
    campaign: SimulatedCampaign, confidence: float, setup_s: float = SETUP_S
) -> SimulationResult:
    """Run three trials of 20 s after 5 s of warm-up, with Student's t interval."""
    values = []
    for trial in range(LONG_TRIALS):
        samples = campaign.samples(trial, LONG_WARMUP_S + LONG_STEADY_S)
        values.append(float(np.mean(samples[fixed_warmup(samples, INTERVAL_S, LONG_WARMUP_S).samples :])))
    mean = float(np.mean(values))
    half_width = float(stats.t.ppf((1 + confidence) / 2, LONG_TRIALS - 1) * stats.sem(values))
    seconds = LONG_TRIALS * (LONG_WARMUP_S + LONG_STEADY_S + setup_s)
    truth = campaign.truth([LONG_STEADY_S] * LONG_TRIALS)
    return SimulationResult(mean - half_width, mean + half_width, mean, truth, LONG_TRIALS, seconds, "fixed")


def run_adaptive_campaigns(model: NoiseModel, campaigns: int, precision: Precision) -> list[SimulationResult]:
    """Run adaptive campaigns with seeds 0, 1, 2, … on all CPUs."""
    return _run_on_all_cpus(partial(_run_adaptive_campaign, model, precision), campaigns)


def run_long_campaigns(model: NoiseModel, campaigns: int, confidence: float) -> list[SimulationResult]:
    """Run campaigns of three long trials with seeds 0, 1, 2, … on all CPUs."""
    return _run_on_all_cpus(partial(_run_long_campaign, model, confidence), campaigns)


def _run_adaptive_campaign(model: NoiseModel, precision: Precision, seed: int) -> SimulationResult:
    return run_adaptive_campaign(SimulatedCampaign(model, seed, precision.max_trials), precision)


def _run_long_campaign(model: NoiseModel, confidence: float, seed: int) -> SimulationResult:
    longest_s = LONG_WARMUP_S + LONG_STEADY_S
    return run_three_long_trials(SimulatedCampaign(model, seed, LONG_TRIALS, longest_s), confidence)


def _run_on_all_cpus(run: Callable[[int], SimulationResult], campaigns: int) -> list[SimulationResult]:
    with ProcessPoolExecutor() as pool:
        return list(pool.map(run, range(campaigns), chunksize=50))


def _simulation_result(
    campaign: SimulatedCampaign,
    past: Sequence[PastTrial],
    precision: Precision,
    seconds: float,
    stopped_by: str,
) -> SimulationResult:
    values = [each.steady_mean for each in past]
    bounds = median_interval(values, precision.confidence, interim_analysis_trial_counts(precision))
    if bounds is None:
        raise ValueError("the requested precision leaves too few trials for an interval")
    truth = campaign.truth([each.steady_s for each in past])
    return SimulationResult(*bounds, float(np.median(values)), truth, len(past), seconds, stopped_by)


def _drift(random: np.random.Generator, drift: float, trials: int) -> Floats:
    """Return the slow drift of the level without noise, at each time of each block."""
    blocks = np.arange(trials * _TIMES_PER_BLOCK) / _TIMES_PER_BLOCK
    trend = random.standard_normal() * blocks / 30
    wave = 0.3 * np.sin(2 * np.pi * (random.uniform(0.5, 2) * blocks / 30 + random.uniform()))
    walk = 0.1 * np.cumsum(random.standard_normal(len(blocks))) / math.sqrt(_TIMES_PER_BLOCK)
    return np.asarray(1 + drift * (trend + wave + walk)).reshape(trials, _TIMES_PER_BLOCK)


def _warmup_shape(random: np.random.Generator, trials: int, samples: int) -> Floats:
    """Return each sample's share of the steady level during and after a warm-up, by trial."""
    times = (np.arange(samples) + 0.5) * INTERVAL_S
    jitter = random.uniform(0.8, 1.2, size=(trials, 1))
    if random.uniform() < 0.5:
        return np.where(times < jitter * random.uniform(0.2, 0.6), 0.5, 1.0)
    return np.asarray(1 - 0.5 * np.exp(-times / (jitter * random.uniform(0.1, 0.2))))


def _autoregression(shocks: Floats, correlation: float) -> Floats:
    """Return rows of a stationary first-order autoregression of variance 1 from rows of normal shocks."""
    if correlation == 0:
        return shocks
    shocks = shocks * math.sqrt(1 - correlation**2)
    shocks[:, 0] /= math.sqrt(1 - correlation**2)
    return np.asarray(signal.lfilter([1.0], [1.0, -correlation], shocks, axis=1))


def _sample_sd(model: NoiseModel) -> float:
    """Return the standard deviation of a sample for which the mean of one second has `model.second_sd`."""
    a_second = np.array([round(1 / INTERVAL_S)])
    return model.second_sd / math.sqrt(float(_mean_variance(a_second, model.autocorrelation)[0]))


def _mean_variance(counts: Floats | npt.NDArray[np.int_], correlation: float) -> Floats:
    """Return the variance of the mean of `counts` samples of an autoregression of variance 1."""
    n, r = np.asarray(counts, dtype=float), correlation
    return np.asarray((1 + 2 * r / (1 - r) * (1 - (1 - r**n) / (n * (1 - r)))) / n)
