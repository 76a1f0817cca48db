"""Guesses of a throughput from the forwarding rates of overloaded steps.

A device that loses frames forwards the rest. This forwarding rate is a guess of the throughput. The guess is
less certain the more the loss differs from the goal, unless different overloads have the same forwarding
rate. Steps of each duration have their own guess, since a buffer raises the rate of short steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from vnetbench.search.posterior import ThroughputGuess

_MIN_UNCERTAINTY = 0.001
"""Minimum uncertainty of a guess, in log load."""
_MAX_UNCERTAINTY_SLOPE = 0.3
"""Maximum additional uncertainty per unit of log load by which the device was overloaded beyond the goal."""
_ADDITIONAL_UNCERTAINTY_SLOPE_OF_OTHER_DURATION = 0.02
"""Additional slope if only steps of another duration show it."""
_NEIGHBOUR_STEP_COUNT = 6
"""Number of steps with the most similar loss whose forwarding rates show how much these differ."""
_UNCERTAINTY_PER_RATE_DISPERSION = 2.0
"""Uncertainty of a guess relative to the mean distance of these forwarding rates. A mean absolute difference
of two normal values is 1.13 standard deviations; the factor covers the few values that it comes from."""
_MIN_STEPS_FOR_DISPERSION_OF_ONE_DURATION = 3
"""With fewer steps of a duration, those of the other durations show the dispersion too."""


class OverloadedStep(NamedTuple):
    """A step that lost frames: the log ratio of load to forwarding rate, and the log of that rate."""

    log_overload: float
    log_forwarding_rate: float


def guess_throughputs(
    goal: float, steps_by_duration: Sequence[Sequence[OverloadedStep]]
) -> tuple[ThroughputGuess | None, ...]:
    """Return a guess of the throughput for each duration; None where no step of it lost frames."""
    wanted = -math.log1p(-goal)
    sorted_steps = [
        sorted(steps, key=lambda step: abs(step.log_overload - wanted)) for steps in steps_by_duration
    ]
    slopes = [_forwarding_rate_slope(steps, wanted) for steps in sorted_steps]
    dispersions = [_mean_forwarding_rate_distance_from_first(steps) for steps in sorted_steps]
    known_slopes = [slope for slope in slopes if slope is not None]
    other_slope = min(
        [
            _MAX_UNCERTAINTY_SLOPE,
            *(slope + _ADDITIONAL_UNCERTAINTY_SLOPE_OF_OTHER_DURATION for slope in known_slopes),
        ]
    )
    guesses: list[ThroughputGuess | None] = []
    for steps, slope, dispersion in zip(sorted_steps, slopes, dispersions, strict=True):
        if not steps:
            guesses.append(None)
            continue
        nearest = steps[0]
        if len(steps) < _MIN_STEPS_FOR_DISPERSION_OF_ONE_DURATION:
            # A single step of a noisy device must not count twice: as a miss, and as a sharp limit.
            dispersion = max(dispersions)
        slope = other_slope if slope is None else slope
        guesses.append(
            ThroughputGuess(
                nearest.log_forwarding_rate + wanted,
                _MIN_UNCERTAINTY
                + slope * abs(nearest.log_overload - wanted)
                + _UNCERTAINTY_PER_RATE_DISPERSION * dispersion,
            )
        )
    return tuple(guesses)


def _forwarding_rate_slope(steps: Sequence[OverloadedStep], goal_log_overload: float) -> float | None:
    """Return how much the forwarding rate changes with the overload; None if the overloads are too similar.

    Args:
        steps: Steps of one duration, those with a loss close to the goal first.
        goal_log_overload: The log overload at which the loss equals the goal.
    """
    if not steps:
        return None
    overload, rate = steps[0]
    away = abs(overload - goal_log_overload)
    return next(
        (
            min(
                _MAX_UNCERTAINTY_SLOPE,
                abs((step.log_forwarding_rate - rate) / (step.log_overload - overload)),
            )
            for step in steps[1:]
            if abs(step.log_overload - overload) > away / 2
        ),
        None,
    )


def _mean_forwarding_rate_distance_from_first(steps: Sequence[OverloadedStep]) -> float:
    """Return the mean distance of the forwarding rates of similar steps from the first."""
    nearest = [abs(step.log_forwarding_rate - steps[0].log_forwarding_rate) for step in steps[1:]]
    nearest = nearest[:_NEIGHBOUR_STEP_COUNT]
    return sum(nearest) / max(1, len(nearest))
