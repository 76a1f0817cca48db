"""How long a trial should be, and how many are still to come."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from vnetbench.estimate.interim_analyses import looks
from vnetbench.estimate.trial_length import LONGEST_S, SHORTEST_S, PastTrial, next_duration
from vnetbench.estimate.model import Estimate
from vnetbench.study.model import Precision, SearchAsked

PILOT_TRIALS = 3
SHORTEST_IN_A_HURRY_S = 0.5
"""Shorter trials hold too few samples to tell a warm-up."""
FIRST_SETUP_S = 0.15
"""Taken for the cost of a trial's set-up until one has been measured."""
FIRST_STEPS = 20
"""Full steps that a search is taken to be as long as until one has been made."""
MEDIAN_OVER_MEAN = math.sqrt(math.pi / 2)
"""How much wider the interval of a normal distribution's median is than that of its mean."""
LONGEST_SEARCH_S, SHORTEST_SEARCH_S = 600.0, 5.0
"""Limits of a search that the study gives none."""
SHARE_FOR_STEPS = 0.5
"""Share of a search's time that its steps may take: what each costs beside its load is not in their limit."""
SHARE_FOR_FEWEST = 0.9
"""Share of the time limit that the fewest trials may take: the rest goes to treatments that need more."""


def trial_duration(past: Sequence[PastTrial], setup_s: float, precision: Precision, treatments: int) -> float:
    """Seconds of load of a treatment's next trial, warm-up included.

    From its pilot on as `estimate.length` says; shorter where the time limit would else not give every one
    of the `treatments` the fewest trials.
    """
    longest = LONGEST_S
    if precision.time_limit_s is not None:
        share = SHARE_FOR_FEWEST * precision.time_limit_s / (treatments * precision.fewest_trials)
        longest = min(LONGEST_S, max(SHORTEST_IN_A_HURRY_S, share - setup_s))
    shortest = min(SHORTEST_S, longest)
    if len(past) < PILOT_TRIALS:
        return shortest
    return next_duration(past, setup_s, shortest, longest)


def trials_left(values: Sequence[float], found: Estimate | None, precision: Precision) -> int:
    """How many more trials a treatment is likely to need, from those that it has had.

    The interval of a median shrinks with the root of the number of trials; before there is one it is taken
    for that of a normal distribution with the trials' own spread.
    """
    judged_at = looks(precision) or (precision.most_trials,)
    half_width = found.half_width if found else None
    if half_width is None and len(values) >= PILOT_TRIALS:
        # An increase under load may be below zero, and its mean nothing at all.
        mean = abs(statistics.mean(values))
        deviation = statistics.stdev(values) / mean if mean else math.inf if any(values) else 0.0
        reach = statistics.NormalDist().inv_cdf((1 + precision.confidence) / 2)
        half_width = reach * MEDIAN_OVER_MEAN * deviation / math.sqrt(len(values))
    wanted = len(values) * ((half_width or 0.0) / precision.half_width) ** 2
    later = [look for look in judged_at if look > len(values)]
    if not later:
        return 0
    return next((look for look in later if look >= wanted), later[-1]) - len(values)


def limited(search: SearchAsked, precision: Precision, treatments: int) -> SearchAsked:
    """The search with a time limit: as asked, else one that lets every treatment have the fewest trials."""
    if search.time_limit_s is not None:
        return search
    limit_s = LONGEST_SEARCH_S
    if precision.time_limit_s is not None:
        share = SHARE_FOR_FEWEST * precision.time_limit_s / (treatments * precision.fewest_trials)
        limit_s = min(LONGEST_SEARCH_S, max(SHORTEST_SEARCH_S, SHARE_FOR_STEPS * share))
    return replace(search, time_limit_s=limit_s)


def setup_cost(measured: Sequence[float]) -> float:
    """Seconds that a trial costs beside its load."""
    return statistics.median(measured) if measured else FIRST_SETUP_S


def series_cost(measured: Sequence[float], search: SearchAsked | None) -> float:
    """Seconds that the steps of a trial take: the median so far; 0 where the trial is no series."""
    if search is None:
        return 0.0
    if measured:
        return statistics.median(measured)
    return min(
        search.time_limit_s or LONGEST_SEARCH_S,
        FIRST_STEPS * (search.step_s + search.settle_s + FIRST_SETUP_S),
    )


def enough_time(
    precision: Precision, treatments: int, duration_s: float | None, before_s: float = 0.0
) -> bool:
    """Whether the time limit lets every treatment have the fewest trials after calibrations of `before_s`."""
    if precision.time_limit_s is None:
        return True
    shortest = duration_s or SHORTEST_IN_A_HURRY_S
    trials_s = treatments * precision.fewest_trials * (shortest + FIRST_SETUP_S)
    return before_s + trials_s <= precision.time_limit_s


def is_last_moment(elapsed_s: float, next_trial_s: float, limit_s: float | None) -> bool:
    """Whether a trial of this length would end beyond the time limit."""
    return elapsed_s + next_trial_s > (math.inf if limit_s is None else limit_s)
