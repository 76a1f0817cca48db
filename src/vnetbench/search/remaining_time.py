"""Prediction of the time that a search still needs, from the present posterior.

A gradual loss needs many steps: the number of yes-or-no outcomes for an interval of a given width grows with
the square of the curve's spread. Nobody knows the spread in advance, so a search that has lasted long is
likely to last longer. The form of the prediction follows from this. Its coefficients were fitted to searches
on simulated devices of all types with one and three goals; docs/search.md says how well it does on others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vnetbench.search import posterior
from vnetbench.search.goal_estimator import GoalEstimator

_FULL_STEPS_IF_SPREAD_EQUALS_WIDTH = 6.5
"""Full steps left if the curve's spread equals the requested width, at the start and with nothing unknown."""
_SPREAD_TO_WIDTH_EXPONENT = 1.9
"""Exponent of the spread relative to the requested width."""
_ELAPSED_FULL_STEPS_EXPONENT = 0.5
"""Exponent of the elapsed time in full steps, plus one."""
_UNKNOWN_NATS_EXPONENT = 0.3
"""Exponent of the missing information in nats, plus one."""
_LOG_FACTOR_IF_OUTSIDE_LOADS = -2.0
"""Logarithm of the factor if the throughput is outside the loads that can be offered: few steps show that."""
_MAX_FULL_STEPS = 1e4


def expected_full_steps(
    open_estimators: Sequence[GoalEstimator], relative_width: float, elapsed_full_steps: float
) -> float:
    """Return the expected number of full steps until the intervals of these goals are narrow enough.

    Args:
        open_estimators: The estimators whose intervals are too wide.
        relative_width: The requested width of an interval.
        elapsed_full_steps: The elapsed time of the search, as a number of full steps.
    """
    if not open_estimators:
        return 0.0
    width = math.log1p(relative_width)
    log_spread = max(
        posterior.expected_log_spread(estimator.throughput_posterior) for estimator in open_estimators
    )
    unknown_nats = sum(
        posterior.unknown_nats(estimator.throughput_posterior, width) for estimator in open_estimators
    )
    outside = max(
        estimator.chance_above_max_load() + estimator.chance_below_min_load() for estimator in open_estimators
    )
    log_steps = (
        math.log(_FULL_STEPS_IF_SPREAD_EQUALS_WIDTH)
        + _SPREAD_TO_WIDTH_EXPONENT * (log_spread - math.log(width))
        + _ELAPSED_FULL_STEPS_EXPONENT * math.log1p(elapsed_full_steps)
        + _UNKNOWN_NATS_EXPONENT * math.log1p(unknown_nats)
        + _LOG_FACTOR_IF_OUTSIDE_LOADS * outside
    )
    return min(_MAX_FULL_STEPS, math.exp(log_steps))
