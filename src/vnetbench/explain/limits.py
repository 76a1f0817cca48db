"""What limits each treatment, and which treatments are limited alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.carried import Carried, carried
from vnetbench.explain.judge import Judgement, judge
from vnetbench.explain.model import Suspect
from vnetbench.explain.proving import proof
from vnetbench.explain.rules import rules

NOTHING = "nothing"
"""Stands for the cause where the load that was asked for was carried."""
UNEXPLAINED = "not explained"
"""Stands for the cause where no score is good enough."""


@dataclass(frozen=True)
class Limit:
    """What one treatment's trials show of what limits it."""

    treatment: TreatmentSummary
    judgement: Judgement
    carried: Carried | None = None
    """Of a treatment with a set load."""

    @property
    def name(self) -> str:
        """The cause that is suspected first, `nothing`, or `not explained`."""
        if self.carried and self.carried.is_whole:
            return NOTHING
        return self.suspects[0].cause.name if self.suspects else UNEXPLAINED

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """The likeliest first; none where the load was carried."""
        return () if self.carried and self.carried.is_whole else self.judgement.suspects


def limits(summary: CampaignSummary) -> tuple[Limit, ...]:
    """The limit of each treatment that was measured."""
    return tuple(_limit(summary, treatment) for treatment in summary.treatments if treatment.points)


def alike(found: Sequence[Limit]) -> tuple[tuple[Limit, ...], ...]:
    """The same in groups that have their first suspect in common, the largest group first."""
    groups: dict[str, list[Limit]] = {}
    for limit in found:
        groups.setdefault(limit.name, []).append(limit)
    return tuple(sorted(map(tuple, groups.values()), key=len, reverse=True))


def typical(group: Sequence[Limit]) -> Limit:
    """Of limits with the same first suspect the one with the middle score: it stands for all of them."""
    if not group[0].suspects:
        return group[0]
    middle = median_low(limit.suspects[0].score for limit in group)
    return next(limit for limit in group if limit.suspects[0].score == middle)


def with_commands(summary: CampaignSummary, limit: Limit) -> Iterator[Suspect]:
    """The suspects, each with the setting and the command that would prove it in this treatment."""
    for suspect in limit.suspects:
        setting, command = proof(summary, limit.treatment, suspect.cause)
        yield replace(suspect, cause=replace(suspect.cause, setting=setting), command=command)


def _limit(summary: CampaignSummary, treatment: TreatmentSummary) -> Limit:
    evidence = [point.evidence for point in treatment.points]
    return Limit(
        treatment,
        judge(evidence, rules(), summary.workload),
        carried(treatment, all_levels(summary, treatment), summary.workload),
    )
