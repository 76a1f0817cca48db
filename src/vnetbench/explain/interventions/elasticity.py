"""Elasticity: how much a result changes for a small change of a resource, and what follows from it.

The elasticity is the logarithm of the ratio of the result, divided by the logarithm of the ratio of the
resource: the change of the result in percent for each percent of the resource. It is one if the resource
alone limits, and zero if something else does. In a chain of stations that wait for each other, the
elasticities of all stations add up to about one (Coz: Curtsinger and Berger, SOSP 2015, causal profiling,
measures the same with virtual speed-ups).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.explain.experiment_verdicts import (
    INCONCLUSIVE,
    MIN_CONFIRMING_RATIO,
    experiment_verdict,
    ratio_of_improvement,
)
from vnetbench.explain.model import CONFIRMED

LIMITS, CONTRIBUTES, NO_LIMIT = "limits", "contributes", "no limit"
GAIN, LOSS, NO_EFFECT = "gain", "loss", "no effect"
UNDECIDED = "undecided"
VERDICTS_STRONGEST_FIRST = (LIMITS, GAIN, CONTRIBUTES, LOSS, NO_EFFECT, NO_LIMIT, UNDECIDED)
"""Verdicts of interventions, strongest first. GAIN, LOSS and NO_EFFECT belong to switches."""
MIDDLE_ELASTICITY = 0.5
"""Half way between a resource that alone limits (1) and one that does not limit (0)."""


@dataclass(frozen=True)
class Elasticity:
    """Percent of the result for each percent of a resource, with the interval of the result's ratio."""

    value: float
    low: float | None
    high: float | None


MAX_PLAUSIBLE_ELASTICITY = 1.5
"""A resource that alone limits has 1. Above this value, the change did something else as well."""


def estimate_elasticity(ratio: Ratio, metric: str, resource_ratio: float | None) -> Elasticity | None:
    """Return the elasticity of a result; None for a switch, or if one of both treatments has no traffic.

    Args:
        ratio: The metric with the changed resource over the metric without the change.
        metric: Name of the metric. One where lower is better is inverted.
        resource_ratio: The resource after the change over the resource before it; None for a switch.
    """
    if resource_ratio is None or resource_ratio <= 0 or resource_ratio == 1:
        return None
    improvement = ratio_of_improvement(ratio, metric)
    if not 0 < improvement.value < math.inf:
        return None
    log_resource = math.log(resource_ratio)
    ends = sorted(
        math.log(end) / log_resource for end in (improvement.low, improvement.high) if end and end < math.inf
    )
    low, high = ends if len(ends) == 2 else (None, None)
    return Elasticity(math.log(improvement.value) / log_resource, low, high)


def intervention_verdict(ratio: Ratio, metric: str, resource_ratio: float | None) -> str:
    """Return what an intervention shows about its resource (`VERDICTS_STRONGEST_FIRST`).

    - `limits`: the whole interval of the elasticity is above MIDDLE_ELASTICITY, and its lower end is at most
      MAX_PLAUSIBLE_ELASTICITY.
    - `contributes`: the whole interval is above 0, and its lower end is at most MIDDLE_ELASTICITY.
    - `no limit`: the whole interval is below MIDDLE_ELASTICITY, and its lower end is at most 0.
    - A switch has a `gain` or a `loss` of MIN_CONFIRMING_RATIO or more, or `no effect`.
    """
    if resource_ratio is None:
        return _switch_verdict(ratio, metric)
    elasticity = estimate_elasticity(ratio, metric, resource_ratio)
    if elasticity is None or elasticity.low is None or elasticity.high is None:
        return UNDECIDED
    if elasticity.low > MAX_PLAUSIBLE_ELASTICITY:
        return UNDECIDED
    if elasticity.low > MIDDLE_ELASTICITY:
        return LIMITS
    if elasticity.low > 0:
        return CONTRIBUTES
    return NO_LIMIT if elasticity.high < MIDDLE_ELASTICITY else UNDECIDED


def experiment_elasticity(experiment: Experiment) -> Elasticity | None:
    """Return the elasticity that an experiment measured; None for a switch."""
    return estimate_elasticity(experiment.ratio, experiment.metric, experiment.resource_ratio)


def strongest_verdict(verdicts: Sequence[str]) -> str:
    """Combine the verdicts of all interventions on one resource, less and more of it.

    The strongest verdict counts: a resource limits if less of it or more of it shows that.
    """
    return next((each for each in VERDICTS_STRONGEST_FIRST if each in verdicts), UNDECIDED)


def _switch_verdict(ratio: Ratio, metric: str) -> str:
    verdict = experiment_verdict(ratio, metric)
    if verdict == CONFIRMED:
        return GAIN
    improvement = ratio_of_improvement(ratio, metric)
    if improvement.high is not None and improvement.high < 1 and improvement.value < 1 / MIN_CONFIRMING_RATIO:
        return LOSS
    return UNDECIDED if verdict == INCONCLUSIVE else NO_EFFECT
