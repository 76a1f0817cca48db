"""The length of a treatment's next trials, chosen from its past trials.

Kalibera & Jones (2013), "Rigorous benchmarking in reasonable time", ISMM: let c be the seconds that a trial
costs before its steady state, V the variance within trials of the mean of one second, and B the variance
between trials. Trials with sqrt(c · V / B) seconds of steady state reach a given precision in the least time.
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

MIN_TRIAL_LENGTH_S = 1.0
MAX_TRIAL_LENGTH_S = 10.0
_UNSTEADY_LENGTHENING_FACTOR = 1.5
"""Applied when most past trials did not reach a steady state."""


@dataclass(frozen=True)
class PastTrial:
    """The samples of a past trial, as input for the choice of the next trial's length."""

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
        """The mean of the samples after the warm-up."""
        return float(np.mean(self.steady_samples))

    @property
    def steady_s(self) -> float:
        """Seconds after the warm-up."""
        return len(self.steady_samples) * self.interval_s


def choose_trial_length_s(
    past_trials: Sequence[PastTrial],
    setup_s: float,
    shortest_s: float = MIN_TRIAL_LENGTH_S,
    longest_s: float = MAX_TRIAL_LENGTH_S,
) -> float:
    """Return the length of the next trials in seconds, warm-up included.

    If most past trials did not reach a steady state, the next trials are at least half as long again.
    Autocorrelation within a trial counts towards V.

    Args:
        past_trials: The treatment's trials so far, three or more (a pilot).
        setup_s: The cost of a trial without its own length.
        shortest_s: The lower bound of the result.
        longest_s: The upper bound of the result.

    Raises:
        ValueError: There are fewer than two trials, or the bounds are not positive and ascending.
    """
    if len(past_trials) < 2:
        raise ValueError("the choice of a trial's length needs at least two past trials")
    if not 0 < shortest_s <= longest_s:
        raise ValueError("the bounds of a trial's length must be positive and ascending")
    warmup_s = statistics.median(each.warmup.samples * each.interval_s for each in past_trials)
    sample_variance = long_run_variance([each.steady_samples for each in past_trials])
    variance_of_1_s = sample_variance * statistics.median(each.interval_s for each in past_trials)
    # The variance of trial means contains the noise within trials: subtract it, but not down to nothing.
    within_trials = sample_variance * statistics.fmean(1 / len(each.steady_samples) for each in past_trials)
    trial_means = float(np.var([each.steady_mean for each in past_trials], ddof=1))
    between_trials = max(trial_means - within_trials, trial_means / 4)
    steady_s = shortest_s
    if between_trials > 0:
        steady_s = math.sqrt((setup_s + warmup_s) * variance_of_1_s / between_trials)
    length_s = steady_s + warmup_s
    if sum(not each.warmup.has_steady_state for each in past_trials) * 2 > len(past_trials):
        longest_past_s = max(len(each.samples) * each.interval_s for each in past_trials)
        length_s = max(length_s, _UNSTEADY_LENGTHENING_FACTOR * longest_past_s)
    return min(longest_s, max(shortest_s, length_s))
