"""Limits of treatments, and groups of treatments with the same limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from vnetbench.estimate.evidence.queue_directions import most_frequent_location
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.experiment_command import build_experiment_command
from vnetbench.explain.model import CandidateCause, EvidenceItem
from vnetbench.explain.offered_load import LoadDelivery, measure_load_delivery
from vnetbench.explain.rules import CauseRule, load_rules
from vnetbench.explain.scoring import CauseRanking, rank_causes

NO_LIMIT_CAUSE_NAME = "nothing"
"""Replaces the cause name if the network delivered the whole offered load."""
UNEXPLAINED_CAUSE_NAME = "not explained"
"""Replaces the cause name if no cause reaches the minimum score."""


@dataclass(frozen=True)
class TreatmentLimit:
    """The limit of one treatment, by the evidence of its trials."""

    treatment: TreatmentSummary
    ranking: CauseRanking
    load_delivery: LoadDelivery | None = None
    """None for an unpaced load."""

    @property
    def cause_name(self) -> str:
        """Name of the first candidate cause, `nothing` or `not explained`."""
        if self.candidates:
            return self.candidates[0].cause.name
        return NO_LIMIT_CAUSE_NAME if self.is_load_delivered else UNEXPLAINED_CAUSE_NAME

    @property
    def is_load_delivered(self) -> bool:
        """Whether the network delivered the whole offered load."""
        return self.load_delivery is not None and self.load_delivery.is_all_load_delivered

    @property
    def candidates(self) -> tuple[CandidateCause, ...]:
        """Candidate causes, most likely first.

        A load that was delivered has no limit, but some faults delay, repeat or reorder what arrives. Frames
        and datagrams that are lost within the margin of a delivered load are no fault.
        """
        if self.load_delivery is None or not self.is_load_delivered:
            return self.ranking.candidates
        rules, workload = load_rules(), self.load_delivery.workload_name
        return tuple(
            each
            for each in self.ranking.candidates
            if workload in rules[each.cause.name].workloads_delayed_if_delivered
        )


def find_treatment_limits(
    summary: CampaignSummary, rules: Mapping[str, CauseRule] | None = None
) -> tuple[TreatmentLimit, ...]:
    """Return the limit of each treatment that has trials, by these rules; None: by all rules."""
    known = load_rules() if rules is None else rules
    return tuple(_find_limit(summary, each, known) for each in summary.treatments if each.points)


def group_limits_by_cause(limits: Sequence[TreatmentLimit]) -> tuple[tuple[TreatmentLimit, ...], ...]:
    """Group limits by their cause name and by whether the load was delivered, largest group first."""
    groups: dict[tuple[str, bool], list[TreatmentLimit]] = {}
    for limit in limits:
        groups.setdefault((limit.cause_name, limit.is_load_delivered), []).append(limit)
    return tuple(sorted(map(tuple, groups.values()), key=len, reverse=True))


def choose_median_score_limit(group: Sequence[TreatmentLimit]) -> TreatmentLimit:
    """Return the limit with the median score among limits with the same first candidate."""
    if not group[0].candidates:
        return group[0]
    median_score = median_low(limit.candidates[0].score for limit in group)
    return next(limit for limit in group if limit.candidates[0].score == median_score)


def add_experiment_commands(summary: CampaignSummary, limit: TreatmentLimit) -> Iterator[CandidateCause]:
    """Yield the candidates with the setting and the command of their experiment in this treatment."""
    for candidate in limit.candidates:
        candidate = replace(candidate, evidence=_evidence_with_locations(limit.treatment, candidate))
        experiment = build_experiment_command(summary, limit.treatment, candidate.cause)
        cause = replace(candidate.cause, experiment_levels=experiment.changed_levels)
        yield replace(candidate, cause=cause, command=experiment.command)


def _evidence_with_locations(
    treatment: TreatmentSummary, candidate: CandidateCause
) -> tuple[EvidenceItem, ...]:
    """Return the candidate's evidence with the interface and queue behind each value."""
    locations = [point.location_by_metric for point in treatment.points]
    return tuple(
        replace(item, location=most_frequent_location(locations, item.metric)) for item in candidate.evidence
    )


def _find_limit(
    summary: CampaignSummary, treatment: TreatmentSummary, rules: Mapping[str, CauseRule]
) -> TreatmentLimit:
    evidence = [point.evidence for point in treatment.points]
    return TreatmentLimit(
        treatment,
        rank_causes(evidence, rules, summary.workload, treatment.factors),
        measure_load_delivery(treatment, all_levels(summary, treatment), summary.workload),
    )
