"""What the interventions on a treatment say about its candidate causes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from vnetbench.estimate.model import Experiment
from vnetbench.explain.confidence import steps_below_highest_confidence
from vnetbench.explain.experiment_verdicts import is_experiment_on_levels
from vnetbench.explain.interventions.elasticity import (
    GAIN,
    LIMITS,
    NO_EFFECT,
    NO_LIMIT,
    UNDECIDED,
    experiment_elasticity,
    intervention_verdict,
    strongest_verdict,
)
from vnetbench.explain.interventions.resources import RESOURCES
from vnetbench.explain.model import CONFIRMED, REFUTED, CandidateCause
from vnetbench.explain.rules import get_cause
from vnetbench.study.model import Level

_RANK_BY_CONFIDENCE = {CONFIRMED: -1, REFUTED: 1}
_WORD_OF_ADDED_LIMIT = "likely"
"""Takes the place of the counters' word for a limit that only the interventions found."""


def verdict_by_resource(levels: Mapping[str, Level], experiments: Sequence[Experiment]) -> Mapping[str, str]:
    """Return the verdict on each resource that interventions on a treatment with these levels changed."""
    verdicts: dict[str, list[str]] = {}
    for each in experiments:
        if each.resource in RESOURCES and is_experiment_on_levels(each, levels):
            verdict = intervention_verdict(each.ratio, each.metric, each.resource_ratio)
            verdicts.setdefault(each.resource, []).append(verdict)
    return {resource: strongest_verdict(each) for resource, each in verdicts.items()}


def apply_resource_verdicts(
    candidates: Sequence[CandidateCause],
    tested: Sequence[CandidateCause],
    levels: Mapping[str, Level],
    experiments: Sequence[Experiment],
) -> tuple[CandidateCause, ...]:
    """Return the candidates with the verdicts on their resources: confirmed ones first, refuted ones last.

    A confirmed natural limit overtakes no fault (`_keep_faults_before_natural_limits`).

    A resource that limits, or a switch with a gain, confirms one candidate among the causes of this resource:
    the first one that its own setting does not refute. If its own setting refutes each of them, both verdicts
    differ, and each keeps the confidence of the counters. A resource that limits adds its general cause if no
    candidate names one of its causes. A cause is refuted if none of its resources limits.

    Args:
        candidates: The candidates as the counters rank them.
        tested: The same candidates with the verdicts of their own settings, in the order of these verdicts.
        levels: Levels of their treatment.
        experiments: All experiments of the campaign.
    """
    verdicts = verdict_by_resource(levels, experiments)
    refuted = {each.cause.name for each in tested if each.confidence == REFUTED}
    ranked_names = [each.cause.name for each in candidates if each.cause.name not in refuted]
    confirmed = {
        next((name for name in ranked_names if name in RESOURCES[resource].causes), "")
        for resource, verdict in verdicts.items()
        if verdict in (LIMITS, GAIN)
    }
    confidence_by_counters = {each.cause.name: each.confidence for each in candidates}
    judged = [
        _apply_resource_verdicts_to_candidate(each, confidence_by_counters, confirmed, verdicts)
        for each in tested
    ]
    judged += _limiting_cause_without_candidate(judged, levels, experiments)
    by_verdict = sorted(judged, key=lambda each: _RANK_BY_CONFIDENCE.get(each.confidence, 0))
    return _keep_faults_before_natural_limits(by_verdict, candidates)


def _keep_faults_before_natural_limits(
    judged: Sequence[CandidateCause], by_counters: Sequence[CandidateCause]
) -> tuple[CandidateCause, ...]:
    """Return the candidates in an order in which no confirmed natural limit overtakes a fault.

    An intervention on a resource shows that the resource limits, not what uses it up: firewall rules that
    fill a CPU remain the cause although more CPU time helps. So a fault stays before a natural limit that is
    not more likely by the counters, unless an intervention on the fault's own resource refutes it. Before a
    limit that only the interventions found, the counters must show the fault as likely. No open fault comes
    before a fault that is confirmed.

    Args:
        judged: The candidates with all verdicts, in the order of the verdicts.
        by_counters: The candidates as the counters rank them.
    """
    confidence_ranks = {
        each.cause.name: steps_below_highest_confidence(each.confidence) for each in by_counters
    }

    rank_of_added_limit = steps_below_highest_confidence(_WORD_OF_ADDED_LIMIT)

    def is_overtaken_by(fault: CandidateCause, limit: CandidateCause) -> bool:
        is_open_fault = fault.cause.is_fault and fault.confidence != REFUTED
        is_confirmed_limit = limit.confidence == CONFIRMED and not limit.cause.is_fault
        fault_rank, limit_rank = (
            confidence_ranks.get(each.cause.name, rank_of_added_limit) for each in (fault, limit)
        )
        return is_open_fault and is_confirmed_limit and fault_rank <= limit_rank

    ordered: list[CandidateCause] = []
    for each in judged:
        confirmed = [other.confidence == CONFIRMED and other.cause.is_fault for other in ordered]
        first = 0 if each.confidence == CONFIRMED else _index_after_last(confirmed)
        position = next(
            (i for i in range(first, len(ordered)) if is_overtaken_by(each, ordered[i])), len(ordered)
        )
        ordered.insert(position, each)
    return tuple(ordered)


def _index_after_last(flags: Sequence[bool]) -> int:
    """Return the index after the last true flag; 0 if none is true."""
    return max((index + 1 for index, flag in enumerate(flags) if flag), default=0)


def _apply_resource_verdicts_to_candidate(
    candidate: CandidateCause,
    confidence_by_counters: Mapping[str, str],
    confirmed_cause_names: Collection[str],
    verdict_by_resource_name: Mapping[str, str],
) -> CandidateCause:
    name = candidate.cause.name
    own = [
        verdict_by_resource_name.get(each.name, UNDECIDED)
        for each in RESOURCES.values()
        if name in each.causes
    ]
    if name in confirmed_cause_names:
        return replace(candidate, confidence=CONFIRMED)
    if own and all(each in (NO_LIMIT, NO_EFFECT) for each in own):
        return replace(candidate, confidence=REFUTED)
    if candidate.confidence == REFUTED and (LIMITS in own or GAIN in own):
        # Its advice does not help, but a change of its resource does: the counters decide.
        return replace(candidate, confidence=confidence_by_counters[name])
    return candidate


def _limiting_cause_without_candidate(
    candidates: Sequence[CandidateCause], levels: Mapping[str, Level], experiments: Sequence[Experiment]
) -> Iterator[CandidateCause]:
    """Yield the cause of the resource with the largest elasticity, if no candidate names its causes."""
    limiting = [
        (elasticity.value, each.resource)
        for each in experiments
        if each.resource in RESOURCES
        and is_experiment_on_levels(each, levels)
        and intervention_verdict(each.ratio, each.metric, each.resource_ratio) == LIMITS
        and (elasticity := experiment_elasticity(each)) is not None
    ]
    if not limiting:
        return
    causes = RESOURCES[max(limiting)[1]].causes
    if causes and not {each.cause.name for each in candidates} & set(causes):
        yield CandidateCause(get_cause(causes[0]), 0.0, CONFIRMED, ())
