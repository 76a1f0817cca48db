"""Which treatments of two campaigns are of the same thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.factors.imported_factors import UNTOLD
from vnetbench.study.factors.registry import complete
from vnetbench.study.model import Level


@dataclass(frozen=True)
class MatchedTreatments:
    """A treatment of each campaign, and the levels that tell the two from others."""

    levels: Mapping[str, Level]
    before: TreatmentSummary
    after: TreatmentSummary


def match_treatments(before: CampaignSummary, after: CampaignSummary) -> list[MatchedTreatments]:
    """Treatments alike in both, in the order of `before`.

    They have the same levels, where a factor that one study does not name counts as named with its default.
    A published figure, or an import beside a campaign of ours, does not tell what was left at a default: it
    goes with every treatment that has the same level of each factor that both tell, of which there must be
    one. Of two imports neither has defaults: the factors count that both name, where these tell treatments
    apart.
    """
    if before.workload != after.workload:
        return []
    if before.reference is not None or after.reference is not None:
        return list(_agreeing(before, after))
    if before.is_imported and after.is_imported:
        return list(_by_shared_factors(before, after))
    if not before.is_imported and not after.is_imported:
        known = {frozenset(all_levels(after, t).items()): t for t in after.treatments}
        return [
            MatchedTreatments(levels, one, known[key])
            for one in before.treatments
            if (key := frozenset((levels := all_levels(before, one)).items())) in known
        ]
    return list(_agreeing(before, after))


def all_levels(summary: CampaignSummary, treatment: TreatmentSummary) -> dict[str, Level]:
    """The treatment's levels, with those that its study left at their defaults."""
    return complete(treatment.factors, summary.workload, summary.kind)


def _agreeing(before: CampaignSummary, after: CampaignSummary) -> Iterator[MatchedTreatments]:
    for one in before.treatments:
        for other in after.treatments:
            levels = [_told(each.factors) for each in (one, other)]
            both = levels[0].keys() & levels[1].keys()
            if both and all(levels[0][name] == levels[1][name] for name in both):
                yield MatchedTreatments({**levels[0], **levels[1]}, one, other)


def _by_shared_factors(before: CampaignSummary, after: CampaignSummary) -> Iterator[MatchedTreatments]:
    names = [f.name for f in before.factors if f.name in {other.name for other in after.factors}]
    sides = []
    for summary in (before, after):
        found: dict[tuple[Level, ...], list[TreatmentSummary]] = {}
        for treatment in summary.treatments:
            found.setdefault(tuple(treatment.factors[name] for name in names), []).append(treatment)
        sides.append({key: alike[0] for key, alike in found.items() if len(alike) == 1})
    for key, one in sides[0].items():
        if key in sides[1]:
            yield MatchedTreatments(dict(zip(names, key, strict=True)), one, sides[1][key])


def _told(levels: Mapping[str, Level]) -> dict[str, Level]:
    return {name: level for name, level in levels.items() if level != UNTOLD}
