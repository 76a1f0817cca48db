"""Durations of trials, number of remaining trials, and the time limit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.trial_length import (
    MAX_TRIAL_LENGTH_S,
    MIN_TRIAL_LENGTH_S,
    PastTrial,
    choose_trial_length_s,
)
from vnetbench.study.model import Precision, SearchSpec

PILOT_TRIALS = 3
MIN_TRIAL_S_UNDER_TIME_LIMIT = 0.5
"""Minimum duration of a trial under a time limit. Shorter trials have too few samples to find a warm-up."""
ASSUMED_SETUP_S = 0.15
"""Assumed set-up time of a trial until one has been measured."""
ASSUMED_FULL_STEP_COUNT = 20
"""Assumed number of full steps of a search until one has been measured."""
MEDIAN_TO_MEAN_WIDTH_RATIO = math.sqrt(math.pi / 2)
"""Width of the median's interval relative to the mean's interval, for a normal distribution."""
MAX_SEARCH_S, MIN_SEARCH_S = 600.0, 5.0
"""Bounds of a search's time limit if the study sets none."""
MAX_SHARE_OF_SEARCH_TIME_FOR_ALL_STEPS = 0.5
"""Share of a search's time for its steps. Their set-up times are not part of their limit."""
TIME_LIMIT_SHARE_FOR_MIN_TRIALS = 0.9
"""Share of the time limit for the minimum number of trials. The rest is for treatments that need more."""


def choose_load_duration_s(
    past_trials: Sequence[PastTrial], setup_s: float, precision: Precision, treatment_count: int
) -> float:
    """Return the load duration of a treatment's next trial in seconds, warm-up included.

    After the pilot trials, `estimate.trial_length` decides. The trial is shorter if the time limit would
    otherwise not allow the minimum number of trials for each of the `treatments`.
    """
    longest = MAX_TRIAL_LENGTH_S
    if precision.campaign_time_limit_s is not None:
        share = (
            TIME_LIMIT_SHARE_FOR_MIN_TRIALS
            * precision.campaign_time_limit_s
            / (treatment_count * precision.min_trials)
        )
        longest = min(MAX_TRIAL_LENGTH_S, max(MIN_TRIAL_S_UNDER_TIME_LIMIT, share - setup_s))
    shortest = min(MIN_TRIAL_LENGTH_S, longest)
    if len(past_trials) < PILOT_TRIALS:
        return shortest
    return choose_trial_length_s(past_trials, setup_s, shortest, longest)


def estimate_remaining_trials(
    values: Sequence[float], estimate: Estimate | None, precision: Precision
) -> int:
    """Return the number of further trials that a treatment is expected to need.

    The interval of a median shrinks with the square root of the number of trials. Until there is an interval,
    it is derived from the trials' standard deviation for a normal distribution.
    """
    judged_at = interim_analysis_trial_counts(precision) or (precision.max_trials,)
    half_width = estimate.relative_half_width if estimate else None
    if half_width is None and len(values) >= PILOT_TRIALS:
        # The metric may be a difference, whose mean can be negative or zero.
        mean = abs(statistics.mean(values))
        deviation = statistics.stdev(values) / mean if mean else math.inf if any(values) else 0.0
        reach = statistics.NormalDist().inv_cdf((1 + precision.confidence) / 2)
        half_width = reach * MEDIAN_TO_MEAN_WIDTH_RATIO * deviation / math.sqrt(len(values))
    wanted = len(values) * ((half_width or 0.0) / precision.half_width) ** 2
    later = [look for look in judged_at if look > len(values)]
    if not later:
        return 0
    return next((look for look in later if look >= wanted), later[-1]) - len(values)


def limit_search_time(search: SearchSpec, precision: Precision, treatment_count: int) -> SearchSpec:
    """Return the search with a time limit.

    If the study sets none, the limit allows the minimum number of trials for every treatment.
    """
    if search.time_limit_s is not None:
        return search
    limit_s = MAX_SEARCH_S
    if precision.campaign_time_limit_s is not None:
        share = (
            TIME_LIMIT_SHARE_FOR_MIN_TRIALS
            * precision.campaign_time_limit_s
            / (treatment_count * precision.min_trials)
        )
        limit_s = min(MAX_SEARCH_S, max(MIN_SEARCH_S, MAX_SHARE_OF_SEARCH_TIME_FOR_ALL_STEPS * share))
    return replace(search, time_limit_s=limit_s)


def expected_steps_s(search: SearchSpec) -> float:
    """Return the expected duration of a trial's steps in seconds, before any was measured."""
    return min(
        search.time_limit_s or MAX_SEARCH_S,
        ASSUMED_FULL_STEP_COUNT * (search.step_s + search.residual_frames_wait_s + ASSUMED_SETUP_S),
    )


def has_time_for_min_trials(
    precision: Precision, treatment_count: int, trial_duration_s: float | None, before_s: float = 0.0
) -> bool:
    """Return whether every treatment can have its minimum number of trials within the time limit.

    `before_s` is the time for calibrations and steps.
    """
    if precision.campaign_time_limit_s is None:
        return True
    shortest = trial_duration_s or MIN_TRIAL_S_UNDER_TIME_LIMIT
    trials_s = treatment_count * precision.min_trials * (shortest + ASSUMED_SETUP_S)
    return before_s + trials_s <= precision.campaign_time_limit_s


def exceeds_time_limit(elapsed_s: float, next_trial_s: float, limit_s: float | None) -> bool:
    """Return whether a trial of this duration would end after the time limit."""
    return elapsed_s + next_trial_s > (math.inf if limit_s is None else limit_s)
