"""Decide from an experiment whether a candidate cause is confirmed or refuted.

Counters of one run cannot separate two simultaneous limits: both read as saturated, and removing one changes
nothing while the other remains. Only a run that removes one of them shows which one limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.explain.model import CONFIRMED, REFUTED, CandidateCause, ExperimentResult
from vnetbench.study.model import Level

MIN_CONFIRMING_RATIO = 1.05
"""Smallest improvement, as a ratio, that removing a limit must bring."""
INCONCLUSIVE = "inconclusive"


def apply_experiment_verdicts(
    candidates: Sequence[CandidateCause], levels: Mapping[str, Level], experiments: Sequence[Experiment]
) -> tuple[CandidateCause, ...]:
    """Return the candidates with their experiments' verdicts: confirmed ones first, refuted ones last.

    Confirmed candidates are in order of their gain.

    Args:
        candidates: candidates of one treatment.
        levels: the treatment's levels.
        experiments: all experiments of the campaign.
    """
    return tuple(
        sorted(
            (_apply_verdict(each, levels, experiments) for each in candidates), key=_verdict_and_gain_sort_key
        )
    )


def has_experiment_on_levels(levels: Mapping[str, Level], experiments: Sequence[Experiment]) -> bool:
    """Return whether an experiment tested a treatment with these levels."""
    return any(is_experiment_on_levels(each, levels) for each in experiments)


def experiment_verdict(ratio: Ratio, metric: str) -> str:
    """Return `confirmed`, `refuted` or `inconclusive`, by the interval of the ratio.

    Confirmed: a significant improvement of MIN_CONFIRMING_RATIO or more. Refuted: the interval excludes such
    an improvement. A ratio of 0 or infinity has no interval, because one of the two treatments has no
    traffic. It is decided if enough blocks give it a p value.

    Args:
        ratio: the metric with the setting over the metric without it.
        metric: name of the metric.
    """
    improvement = ratio_of_improvement(ratio, metric)
    if improvement.p_value is not None and improvement.value in (0, math.inf):
        return CONFIRMED if improvement.value else REFUTED
    if improvement.low is None or improvement.high is None:
        return INCONCLUSIVE
    if improvement.low > 1 and improvement.value >= MIN_CONFIRMING_RATIO:
        return CONFIRMED
    return REFUTED if improvement.high < MIN_CONFIRMING_RATIO else INCONCLUSIVE


def _verdict_and_gain_sort_key(candidate: CandidateCause) -> tuple[int, float]:
    if candidate.experiment_result is None or candidate.confidence not in (CONFIRMED, REFUTED):
        return 0, 0.0
    if candidate.confidence == REFUTED:
        return 1, 0.0
    experiment = candidate.experiment_result.experiment
    return -1, -ratio_of_improvement(experiment.ratio, experiment.metric).value


def _apply_verdict(
    candidate: CandidateCause, levels: Mapping[str, Level], experiments: Sequence[Experiment]
) -> CandidateCause:
    experiment = next((each for each in experiments if _is_for_candidate(each, candidate, levels)), None)
    if experiment is None:
        return candidate
    # A change that did not reach its resource says nothing about the cause.
    verdict = (
        experiment_verdict(experiment.ratio, experiment.metric)
        if experiment.has_changed_resource
        else INCONCLUSIVE
    )
    confidence = candidate.confidence if verdict == INCONCLUSIVE else verdict
    return replace(candidate, confidence=confidence, experiment_result=ExperimentResult(verdict, experiment))


def _is_for_candidate(experiment: Experiment, candidate: CandidateCause, levels: Mapping[str, Level]) -> bool:
    setting = candidate.cause.experiment_levels
    if not setting or not is_experiment_on_levels(experiment, levels):
        return False
    return dict(experiment.changed_levels) == dict(setting)


def is_experiment_on_levels(experiment: Experiment, levels: Mapping[str, Level]) -> bool:
    """Return whether an experiment changed a treatment with these levels."""
    return all(experiment.base_levels.get(name, level) == level for name, level in levels.items())


def ratio_of_improvement(ratio: Ratio, metric: str) -> Ratio:
    """Return the ratio in the direction in which more than 1 is better."""
    if not is_lower_better(metric):
        return ratio
    low, high = (1 / end if end else None for end in (ratio.high, ratio.low))
    return replace(ratio, value=1 / ratio.value if ratio.value else math.inf, low=low, high=high)
