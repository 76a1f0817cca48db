"""What limits each treatment, and which treatments are limited alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import CandidateCause
from vnetbench.explain.offered_load import LoadDelivery, measure_delivery
from vnetbench.explain.experiment_command import experiment_command
from vnetbench.explain.rules import load_rules
from vnetbench.explain.scoring import CauseRanking, rank_causes

NO_LIMIT = "nothing"
"""Stands for the cause where the load that was asked for was carried."""
UNEXPLAINED = "not explained"
"""Stands for the cause where no score is good enough."""


@dataclass(frozen=True)
class Limit:
    """What one treatment's trials show of what limits it."""

    treatment: TreatmentSummary
    ranking: CauseRanking
    delivery: LoadDelivery | None = None
    """Of a treatment with a set load."""

    @property
    def cause_name(self) -> str:
        """The cause that is suspected first, `nothing`, or `not explained`."""
        if self.delivery and self.delivery.is_complete:
            return NO_LIMIT
        return self.candidates[0].cause.name if self.candidates else UNEXPLAINED

    @property
    def candidates(self) -> tuple[CandidateCause, ...]:
        """The likeliest first; none where the load was carried."""
        return () if self.delivery and self.delivery.is_complete else self.ranking.candidates


def find_limits(summary: CampaignSummary) -> tuple[Limit, ...]:
    """The limit of each treatment that was measured."""
    return tuple(_find_limit(summary, treatment) for treatment in summary.treatments if treatment.points)


def group_by_cause(limits: Sequence[Limit]) -> tuple[tuple[Limit, ...], ...]:
    """The same in groups that have their first suspect in common, the largest group first."""
    groups: dict[str, list[Limit]] = {}
    for limit in limits:
        groups.setdefault(limit.cause_name, []).append(limit)
    return tuple(sorted(map(tuple, groups.values()), key=len, reverse=True))


def pick_representative(group: Sequence[Limit]) -> Limit:
    """Of limits with the same first suspect the one with the middle score: it stands for all of them."""
    if not group[0].candidates:
        return group[0]
    middle = median_low(limit.candidates[0].score for limit in group)
    return next(limit for limit in group if limit.candidates[0].score == middle)


def add_experiment_commands(summary: CampaignSummary, limit: Limit) -> Iterator[CandidateCause]:
    """The suspects, each with the setting and the command that would prove it in this treatment."""
    for suspect in limit.candidates:
        setting, command = experiment_command(summary, limit.treatment, suspect.cause)
        yield replace(suspect, cause=replace(suspect.cause, setting=setting), command=command)


def _find_limit(summary: CampaignSummary, treatment: TreatmentSummary) -> Limit:
    evidence = [point.evidence for point in treatment.points]
    return Limit(
        treatment,
        rank_causes(evidence, load_rules(), summary.workload),
        measure_delivery(treatment, all_levels(summary, treatment), summary.workload),
    )
