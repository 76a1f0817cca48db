"""Simulated campaigns whose truth is known: what the estimates are proved on, and the whole procedure on top of them.

Goodput is in units of its steady level, 1. A trial's level is off by 3 % from run to run, a second's mean inside a
trial by 5 %, and samples are 50 ms long; the kinds differ in what else is wrong. Trials are told apart by their number,
which is also when they ran: one treatment's trials are spread evenly over an interleaved campaign.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import signal, stats
from scipy.special import ndtr

from vnetbench.estimate.length import PastTrial, next_duration
from vnetbench.estimate.location import interval
from vnetbench.estimate.looks import looks
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.stopping import decide
from vnetbench.estimate.warmup import find_warmup, fixed_warmup, shared_warmup
from vnetbench.study.model import Precision

INTERVAL_S = 0.05
SETUP_S = 0.5
"""What a trial costs beside its own length in the simulated campaigns, whichever scheme runs it."""
PILOT_TRIALS = 3
PILOT_S = 2.0

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
    """Standard deviation of a trial's level from trial to trial."""
    drift: float = 0.0
    """The level's trend over thirty trials has this standard deviation; a random walk and a slow wave come on top."""
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
        Kind("independent", _MEDIAN),
        Kind("autocorrelated", _MEDIAN, autocorrelation=0.8),
        Kind("drifting", "median of the trials' distribution over the campaign's own period", drift=0.05),
        Kind("warm-up", "median of the steady level's distribution", autocorrelation=0.5, warmup=True),
        Kind("bimodal", "median of both modes' distribution together", slow_share=0.3),
        Kind("outliers", "median of the trials' distribution, hit ones included", hit_share=0.08),
        # 1 s means with an autocorrelation of 0.5 are 50 ms samples with 0.944 (an Ornstein-Uhlenbeck process).
        Kind("default noise", _MEDIAN, autocorrelation=0.944),
        Kind("fast noise", _MEDIAN, autocorrelation=0.7),
        Kind("trials that remember", "median over ever so long a time", remembered=0.5),
    )
}


class SimulatedCampaign:
    """One treatment's trials of one kind, drawn from one seed; every call gives the same trial again."""

    def __init__(self, kind: Kind, seed: int, trials: int = 30, longest_s: float = 10.0) -> None:
        random = np.random.default_rng([seed, *kind.name.encode()])
        self.kind = kind
        samples = round(longest_s / INTERVAL_S)
        steps = np.arange(trials) / 30
        self._course = 1 + kind.drift * (
            random.standard_normal() * steps
            + 0.3 * np.sin(2 * np.pi * (random.uniform(0.5, 2) * steps + random.uniform()))
            + 0.1 * np.cumsum(random.standard_normal(trials))
        )
        slow = random.uniform(size=trials) < kind.slow_share
        hit = random.uniform(size=trials) < kind.hit_share
        self._level = (
            self._course * np.where(slow, 0.7, 1.0) * np.where(hit, random.uniform(0.5, 0.7, trials), 1.0)
            + kind.between * _autoregression(random.standard_normal((1, trials)), kind.remembered)[0]
        )
        self._noise = _sample_sd(kind) * _autoregression(
            random.standard_normal((trials, samples)), kind.autocorrelation
        )
        self._shape = self._warmup_shape(random, trials, samples) if kind.warmup else None

    @staticmethod
    def _warmup_shape(random: np.random.Generator, trials: int, samples: int) -> Floats:
        times = (np.arange(samples) + 0.5) * INTERVAL_S
        jitter = random.uniform(0.8, 1.2, size=(trials, 1))
        if random.uniform() < 0.5:
            return np.where(times < jitter * random.uniform(0.2, 0.6), 0.5, 1.0)
        return np.asarray(1 - 0.5 * np.exp(-times / (jitter * random.uniform(0.1, 0.2))))

    def samples(self, trial: int, duration_s: float) -> Floats:
        """The samples of the trial with this number, from its first on, each the mean of 50 ms."""
        count = round(duration_s / INTERVAL_S)
        course = self._level[trial] + self._noise[trial, :count]
        if self._shape is not None:
            course = course * self._shape[trial, :count]
        return np.maximum(course, 0.0)

    def truth(self, steady_s: Sequence[float]) -> float:
        """The median of the distribution from which trials with these steady lengths were drawn, in their order."""
        kind = self.kind
        counts = np.maximum(1, np.round(np.asarray(steady_s) / INTERVAL_S))
        spread = np.sqrt(kind.between**2 + _sample_sd(kind) ** 2 * _mean_variance(counts, kind.autocorrelation))
        parts = [(1 - kind.slow_share - kind.hit_share, 1.0), (kind.slow_share, 0.7)]
        parts += [(kind.hit_share / 10, factor) for factor in np.linspace(0.51, 0.69, 10)]
        weights = np.array([weight for weight, _ in parts if weight > 0])
        factors = np.array([factor for weight, factor in parts if weight > 0])
        centres = self._course[: len(counts), None] * factors
        low, high = 0.0, 2.0
        for _ in range(40):
            middle = (low + high) / 2
            below = float(np.mean(ndtr((middle - centres) / spread[:, None]) @ weights))
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
    """The whole procedure: samples, warm-up, length, looks, interval; as a campaign runs it.

    Raises ValueError where the precision allows no interval at all.
    """
    judged_at = looks(precision)
    past: list[PastTrial] = []
    duration_s = PILOT_S
    seconds = 0.0
    while True:
        if len(past) == PILOT_TRIALS:
            duration_s = next_duration(past, setup_s)
        samples = campaign.samples(len(past), duration_s)
        past.append(PastTrial(samples, INTERVAL_S, find_warmup(samples)))
        seconds += setup_s + len(samples) * INTERVAL_S
        if len(past) not in judged_at:
            continue
        warmups = shared_warmup([each.samples for each in past], [each.warmup for each in past])
        values = [float(np.mean(each.samples[warmup.cut :])) for each, warmup in zip(past, warmups, strict=True)]
        decision = decide(values, precision)
        if not decision.stop:
            continue
        bounds = interval(values, precision.confidence, judged_at)
        if bounds is None:
            raise ValueError("the precision asked for leaves too few trials for an interval")
        lengths = [
            (len(each.samples) - warmup.cut) * INTERVAL_S for each, warmup in zip(past, warmups, strict=True)
        ]
        return Outcome(
            *bounds, float(np.median(values)), campaign.truth(lengths), len(past), seconds, decision.reason
        )


def three_long_trials(campaign: SimulatedCampaign, confidence: float, setup_s: float = SETUP_S) -> Outcome:
    """What is usually done: three trials of 20 s after 5 s of warm-up, and Student's t interval of their means."""
    values = []
    for trial in range(3):
        samples = campaign.samples(trial, 25.0)
        cut = fixed_warmup(samples, INTERVAL_S, 5.0).cut
        values.append(float(np.mean(samples[cut:])))
    mean = float(np.mean(values))
    reach = float(stats.t.ppf((1 + confidence) / 2, 2)) * float(np.std(values, ddof=1)) / math.sqrt(3)
    return Outcome(mean - reach, mean + reach, mean, campaign.truth([20.0] * 3), 3, 3 * (25 + setup_s), "fixed")


def _autoregression(shocks: Floats, correlation: float) -> Floats:
    """Rows of a stationary first-order autoregression of variance 1, from rows of independent normal shocks."""
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
