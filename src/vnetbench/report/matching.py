"""Which treatments of two campaigns are of the same thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.factors import complete
from vnetbench.study.model import Level


@dataclass(frozen=True)
class Matched:
    """A treatment of each campaign, and the levels that tell the two from others."""

    levels: Mapping[str, Level]
    before: TreatmentSummary
    after: TreatmentSummary


def matched(before: CampaignSummary, after: CampaignSummary) -> list[Matched]:
    """Treatments alike in both, in the order of `before`.

    Of measured campaigns those of the same levels, where a factor that one study does not name counts as
    named with its default. A published figure does not tell what it left at a default: it goes with every
    treatment that has the same level of each factor that both name, of which there must be one.
    """
    if before.workload != after.workload:
        return []
    if before.reference is None and after.reference is None:
        known = {frozenset(all_levels(after, t).items()): t for t in after.treatments}
        return [
            Matched(levels, one, known[key])
            for one in before.treatments
            if (key := frozenset((levels := all_levels(before, one)).items())) in known
        ]
    return list(_agreeing(before, after))


def all_levels(summary: CampaignSummary, treatment: TreatmentSummary) -> dict[str, Level]:
    """The treatment's levels with those that its study left at defaults; of a published figure as told."""
    if summary.reference is not None:
        return dict(treatment.factors)
    return complete(treatment.factors, summary.workload, summary.kind)


def _agreeing(before: CampaignSummary, after: CampaignSummary) -> Iterator[Matched]:
    for one in before.treatments:
        for other in after.treatments:
            both = one.factors.keys() & other.factors.keys()
            if both and all(one.factors[name] == other.factors[name] for name in both):
                yield Matched({**one.factors, **other.factors}, one, other)
