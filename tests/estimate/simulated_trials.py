"""Simulated campaigns whose truth is known: what the estimates are proved on, and the whole way to them.

Goodput is in units of its steady level, 1. A trial's level is off by 3 % from trial to trial, a second's
mean inside a trial by 5 %, and samples are 50 ms long; the kinds differ in what else is wrong. One campaign
is one treatment's trials, one a block; when in its block a trial ran is drawn, as a randomised order does.
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

from vnetbench.campaign.schedule import choose_trial_duration
from vnetbench.estimate.interim_analyses import interim_analyses
from vnetbench.estimate.trial_length import LONGEST_TRIAL_S, PastTrial
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.stopping_rule import decide_stopping
from vnetbench.estimate.warmup import find_warmup, fixed_warmup, find_shared_warmups
from vnetbench.study.model import Precision

INTERVAL_S = 0.05
SETUP_S = 0.5
"""What a trial costs beside its load in the simulated campaigns, whichever scheme runs it."""
LONG_TRIALS, LONG_WARMUP_S, LONG_STEADY_S = 3, 5.0, 20.0
"""What is usually done, and the adaptive rule is held against."""
_MOMENTS = 8
"""Moments of a block at which a trial may run."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """One kind of noise. Shares are of the steady level."""

    name: str
    covered: str
    """What the truth is that the interval has to cover."""
    autocorrelation: float = 0.0
    """Of neighbouring 50 ms samples (first-order autoregression)."""
    second: float = 0.05
    """Standard deviation of a second's mean inside a trial."""
    between: float = 0.03
    """Standard deviation of a trial's level from trial to trial; its scale where `tails` is set."""
    tails: float = math.inf
    """Degrees of freedom of a trial's level, Student's t."""
    drift: float = 0.0
    """Standard deviation of the level's trend over thirty blocks; a slow wave and a random walk add to it."""
    warmup: bool = False
    """Half rate for the first 0.2 to 0.6 s, or half rate rising exponentially with 0.1 to 0.2 s."""
    slow_share: float = 0.0
    """Share of the trials in a second mode, 30 % below the first."""
    hit_share: float = 0.0
    """Share of the trials that lose 30 to 50 % to something else on the machine."""
    remembered: float = 0.0
    """Autocorrelation of the level from one trial to the next: trials that are not independent."""


_MEDIAN = "median of the trials' distribution"

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        # 1 s means with an autocorrelation of 0.5 are 50 ms samples with 0.944 (Ornstein-Uhlenbeck process).
        Kind("default", _MEDIAN, autocorrelation=0.944),
        Kind("independent", _MEDIAN),
        Kind("autocorrelated", _MEDIAN, autocorrelation=0.8),
        Kind("drifting", "median of the trials' distribution over the campaign's own time", drift=0.05),
        Kind("warm-up", "median of the steady level's distribution", autocorrelation=0.5, warmup=True),
        Kind("bimodal", "median of both modes' distribution together", slow_share=0.3),
        Kind("outliers", "median of the trials' distribution, hit ones included", hit_share=0.08),
        Kind("heavy tails", _MEDIAN, autocorrelation=0.9, between=0.02, tails=2),
        Kind("dependent", "median of the trials' distribution over any time", remembered=0.5),
    )
}


class SimulatedCampaign:
    """One treatment's trials of one kind, drawn from one seed; every call gives the same trial again."""

    def __init__(self, kind: Kind, seed: int, trials: int = 30, longest_s: float = LONGEST_TRIAL_S) -> None:
        random = np.random.default_rng([seed, *kind.name.encode()])
        self.kind = kind
        samples = round(longest_s / INTERVAL_S)
        self._course = _course(random, kind.drift, trials)
        now = self._course[np.arange(trials), random.integers(_MOMENTS, size=trials)]
        slow = random.uniform(size=trials) < kind.slow_share
        hit = random.uniform(size=trials) < kind.hit_share
        factor = np.where(slow, 0.7, 1.0) * np.where(hit, random.uniform(0.5, 0.7, trials), 1.0)
        off = _autoregression(random.standard_normal((1, trials)), kind.remembered)[0]
        if math.isfinite(kind.tails):
            off = random.standard_t(kind.tails, trials)
        self._level: Floats = now * factor + kind.between * off
        noise = _autoregression(random.standard_normal((trials, samples)), kind.autocorrelation)
        self._noise = _sample_sd(kind) * noise
        self._shape = _rise(random, trials, samples) if kind.warmup else np.ones((trials, samples))

    def samples(self, trial: int, duration_s: float) -> Floats:
        """The samples of the trial of this block, from its first on, each the mean of 50 ms."""
        count = round(duration_s / INTERVAL_S)
        steady = self._level[trial] + self._noise[trial, :count]
        return np.asarray(np.maximum(steady * self._shape[trial, :count], 0.0))

    def truth(self, steady_s: Sequence[float]) -> float:
        """The median of the distribution that trials of these steady lengths, one a block, are drawn from."""
        kind = self.kind
        counts = np.maximum(1, np.round(np.asarray(steady_s) / INTERVAL_S))
        within = _sample_sd(kind) ** 2 * _mean_variance(counts, kind.autocorrelation)
        spread = np.sqrt(kind.between**2 + within)[:, None, None]
        parts = [(1 - kind.slow_share - kind.hit_share, 1.0), (kind.slow_share, 0.7)]
        parts += [(kind.hit_share / 10, factor) for factor in np.linspace(0.51, 0.69, 10)]
        shares, factors = np.array([part for part in parts if part[0] > 0]).T
        moments = _MOMENTS if kind.drift else 1
        centres = self._course[: len(counts), :moments, None] * factors
        low, high = 0.0, 2.0
        for _ in range(24):
            middle = (low + high) / 2
            below = float(np.mean(ndtr((middle - centres) / spread) @ shares))
            low, high = (middle, high) if below < 0.5 else (low, middle)
        return (low + high) / 2


@dataclass(frozen=True)
class Outcome:
    """What one simulated campaign came to."""

    low: float
    high: float
    value: float
    truth: float
    trials: int
    seconds: float
    """Set-up, warm-up and steady time of all trials."""
    stopped_by: str

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high

    @property
    def half_width(self) -> float:
        """Half the interval's width as a share of the value."""
        return (self.high - self.low) / 2 / self.value


def adaptive(campaign: SimulatedCampaign, precision: Precision, setup_s: float = SETUP_S) -> Outcome:
    """The whole way as a campaign goes it: samples, warm-up, next length, decision, estimate.

    Raises ValueError where the precision allows no interval at all.
    """
    past: list[PastTrial] = []
    own: list[Warmup] = []
    seconds = 0.0
    while True:
        samples = campaign.samples(len(past), choose_trial_duration(past, setup_s, precision, treatments=1))
        seconds += setup_s + len(samples) * INTERVAL_S
        own.append(find_warmup(samples))
        past.append(PastTrial(samples, INTERVAL_S, own[-1]))
        warmups = find_shared_warmups([each.samples for each in past], own)
        past = [
            each if each.warmup == warmup else replace(each, warmup=warmup)
            for each, warmup in zip(past, warmups, strict=True)
        ]
        decision = decide_stopping([each.steady_mean for each in past], precision)
        if decision.stop:
            return _outcome(campaign, past, precision, seconds, decision.reason)


def three_long_trials(campaign: SimulatedCampaign, confidence: float, setup_s: float = SETUP_S) -> Outcome:
    """What is usually done: three trials of 20 s after 5 s of warm-up, and Student's t interval."""
    values = []
    for trial in range(LONG_TRIALS):
        samples = campaign.samples(trial, LONG_WARMUP_S + LONG_STEADY_S)
        values.append(float(np.mean(samples[fixed_warmup(samples, INTERVAL_S, LONG_WARMUP_S).samples :])))
    mean = float(np.mean(values))
    reach = float(stats.t.ppf((1 + confidence) / 2, LONG_TRIALS - 1) * stats.sem(values))
    seconds = LONG_TRIALS * (LONG_WARMUP_S + LONG_STEADY_S + setup_s)
    truth = campaign.truth([LONG_STEADY_S] * LONG_TRIALS)
    return Outcome(mean - reach, mean + reach, mean, truth, LONG_TRIALS, seconds, "fixed")


def many(kind: Kind, campaigns: int, precision: Precision) -> list[Outcome]:
    """The outcomes of so many adaptive campaigns, seeded 0, 1, 2 and on, worked out on all CPUs."""
    return _on_all_cpus(partial(_one, kind, precision), campaigns)


def many_long(kind: Kind, campaigns: int, confidence: float) -> list[Outcome]:
    """What three long trials come to in so many campaigns, seeded 0, 1, 2 and on."""
    return _on_all_cpus(partial(_one_long, kind, confidence), campaigns)


def _one(kind: Kind, precision: Precision, seed: int) -> Outcome:
    return adaptive(SimulatedCampaign(kind, seed, precision.most_trials), precision)


def _one_long(kind: Kind, confidence: float, seed: int) -> Outcome:
    longest_s = LONG_WARMUP_S + LONG_STEADY_S
    return three_long_trials(SimulatedCampaign(kind, seed, LONG_TRIALS, longest_s), confidence)


def _on_all_cpus(one: Callable[[int], Outcome], campaigns: int) -> list[Outcome]:
    with ProcessPoolExecutor() as pool:
        return list(pool.map(one, range(campaigns), chunksize=50))


def _outcome(
    campaign: SimulatedCampaign,
    past: Sequence[PastTrial],
    precision: Precision,
    seconds: float,
    stopped_by: str,
) -> Outcome:
    values = [each.steady_mean for each in past]
    bounds = median_interval(values, precision.confidence, interim_analyses(precision))
    if bounds is None:
        raise ValueError("the precision asked for leaves too few trials for an interval")
    truth = campaign.truth([each.steady_s for each in past])
    return Outcome(*bounds, float(np.median(values)), truth, len(past), seconds, stopped_by)


def _course(random: np.random.Generator, drift: float, trials: int) -> Floats:
    """The level's slow course without its noise, at each moment of each block."""
    blocks = np.arange(trials * _MOMENTS) / _MOMENTS
    trend = random.standard_normal() * blocks / 30
    wave = 0.3 * np.sin(2 * np.pi * (random.uniform(0.5, 2) * blocks / 30 + random.uniform()))
    walk = 0.1 * np.cumsum(random.standard_normal(len(blocks))) / math.sqrt(_MOMENTS)
    return np.asarray(1 + drift * (trend + wave + walk)).reshape(trials, _MOMENTS)


def _rise(random: np.random.Generator, trials: int, samples: int) -> Floats:
    """The share of its steady level that each sample of each trial has, as warm-up allows."""
    times = (np.arange(samples) + 0.5) * INTERVAL_S
    jitter = random.uniform(0.8, 1.2, size=(trials, 1))
    if random.uniform() < 0.5:
        return np.where(times < jitter * random.uniform(0.2, 0.6), 0.5, 1.0)
    return np.asarray(1 - 0.5 * np.exp(-times / (jitter * random.uniform(0.1, 0.2))))


def _autoregression(shocks: Floats, correlation: float) -> Floats:
    """Rows of a stationary first-order autoregression of variance 1, from rows of normal shocks."""
    if correlation == 0:
        return shocks
    shocks = shocks * math.sqrt(1 - correlation**2)
    shocks[:, 0] /= math.sqrt(1 - correlation**2)
    return np.asarray(signal.lfilter([1.0], [1.0, -correlation], shocks, axis=1))


def _sample_sd(kind: Kind) -> float:
    """The standard deviation of one sample that makes a second's mean vary by `kind.second`."""
    a_second = np.array([round(1 / INTERVAL_S)])
    return kind.second / math.sqrt(float(_mean_variance(a_second, kind.autocorrelation)[0]))


def _mean_variance(counts: Floats | npt.NDArray[np.int_], correlation: float) -> Floats:
    """The variance of the mean of so many samples of a first-order autoregression of variance 1."""
    n, r = np.asarray(counts, dtype=float), correlation
    return np.asarray((1 + 2 * r / (1 - r) * (1 - (1 - r**n) / (n * (1 - r)))) / n)
