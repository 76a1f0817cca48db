"""How long the next trials of a treatment should be, from those that it has had.

Kalibera & Jones (2013), "Rigorous benchmarking in reasonable time", ISMM: with c the seconds that a trial
costs before its steady state, V the variance within trials of a second's mean and B the variance between
trials, the least time for a given precision is spent by trials with sqrt(c · V / B) seconds of steady
state.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from vnetbench.estimate.model import Warmup
from vnetbench.estimate.noise import long_run_variance

SHORTEST_TRIAL_S = 1.0
LONGEST_TRIAL_S = 10.0
_LENGTHEN = 1.5


@dataclass(frozen=True)
class PastTrial:
    """One trial as the choice of the next one's length sees it."""

    samples: Sequence[float] | npt.NDArray[np.float64]
    """The metric in each sampling interval, warm-up included."""
    interval_s: float
    warmup: Warmup

    @cached_property
    def steady_samples(self) -> npt.NDArray[np.float64]:
        """The samples after the warm-up."""
        return np.asarray(self.samples, dtype=float)[self.warmup.samples :]

    @cached_property
    def steady_mean(self) -> float:
        """The metric's mean after the warm-up."""
        return float(np.mean(self.steady_samples))

    @property
    def steady_s(self) -> float:
        """Seconds after the warm-up."""
        return len(self.steady_samples) * self.interval_s


def choose_trial_length_s(
    past_trials: Sequence[PastTrial],
    setup_s: float,
    shortest_s: float = SHORTEST_TRIAL_S,
    longest_s: float = LONGEST_TRIAL_S,
) -> float:
    """Seconds that the next trials should take, warm-up included.

    `past` are the treatment's trials so far, three or more (a pilot); `setup_s` is what a trial costs
    beside its own length. Where most of the past trials did not get steady the next are half as long again,
    at least. Autocorrelation within a trial counts towards V. The length stays within
    `shortest_s`..`longest_s`.

    Raises ValueError for fewer than two trials, or bounds that are not ascending and above zero.
    """
    if len(past_trials) < 2:
        raise ValueError("a trial's length is chosen from two trials or more")
    if not 0 < shortest_s <= longest_s:
        raise ValueError("a trial's length needs bounds that are ascending and above zero")
    warmup_s = statistics.median(each.warmup.samples * each.interval_s for each in past_trials)
    within = long_run_variance([each.steady_samples for each in past_trials])
    per_second = within * statistics.median(each.interval_s for each in past_trials)
    of_means = within * statistics.fmean(1 / len(each.steady_samples) for each in past_trials)
    of_trials = float(np.var([each.steady_mean for each in past_trials], ddof=1))
    between = max(of_trials - of_means, of_trials / 4)
    chosen = math.sqrt((setup_s + warmup_s) * per_second / between) if between > 0 else shortest_s
    chosen += warmup_s
    longest_past = max(len(each.samples) * each.interval_s for each in past_trials)
    if sum(not each.warmup.has_steady_state for each in past_trials) * 2 > len(past_trials):
        chosen = max(chosen, _LENGTHEN * longest_past)
    return min(longest_s, max(shortest_s, chosen))
