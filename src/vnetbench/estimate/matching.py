"""Matching of treatments between two campaigns by their levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level


@dataclass(frozen=True)
class MatchedTreatments:
    """A treatment of each campaign, and the levels that identify both."""

    levels: Mapping[str, Level]
    before: TreatmentSummary
    after: TreatmentSummary


def match_treatments(before: CampaignSummary, after: CampaignSummary) -> list[MatchedTreatments]:
    """Return the pairs of treatments with the same levels, in the order of `before`.

    - Two measured campaigns: all levels must be equal. A factor that a study does not name has its default.
    - A published table, or an import and a measured campaign: defaults are unknown. All factors that both
      specify must be equal, and there must be at least one.
    - Two imports: only factors that both name count, and they must identify a single treatment in each.
    """
    # This compares two campaigns and needs no property of a workload.
    if before.workload != after.workload:
        return []
    if before.represented_table is not None or after.represented_table is not None:
        return list(_match_without_conflicting_levels(before, after))
    if before.is_imported and after.is_imported:
        return list(_match_by_shared_factors(before, after))
    if not before.is_imported and not after.is_imported:
        by_levels = {frozenset(all_levels(after, t).items()): t for t in after.treatments}
        return [
            MatchedTreatments(levels, one, by_levels[key])
            for one in before.treatments
            if (key := frozenset((levels := all_levels(before, one)).items())) in by_levels
        ]
    return list(_match_without_conflicting_levels(before, after))


def all_levels(summary: CampaignSummary, treatment: TreatmentSummary) -> dict[str, Level]:
    """Return the treatment's levels, including the defaults of factors that its study does not name."""
    return complete_levels(treatment.factors, summary.workload, summary.testbed_backend)


def _match_without_conflicting_levels(
    before: CampaignSummary, after: CampaignSummary
) -> Iterator[MatchedTreatments]:
    for one in before.treatments:
        for other in after.treatments:
            levels = [_specified_levels(each.factors) for each in (one, other)]
            both = levels[0].keys() & levels[1].keys()
            if both and all(levels[0][name] == levels[1][name] for name in both):
                yield MatchedTreatments({**levels[0], **levels[1]}, one, other)


def _match_by_shared_factors(before: CampaignSummary, after: CampaignSummary) -> Iterator[MatchedTreatments]:
    names = [f.name for f in before.factors if f.name in {other.name for other in after.factors}]
    unique = []
    for summary in (before, after):
        groups: dict[tuple[Level, ...], list[TreatmentSummary]] = {}
        for treatment in summary.treatments:
            groups.setdefault(tuple(treatment.factors[name] for name in names), []).append(treatment)
        unique.append({key: group[0] for key, group in groups.items() if len(group) == 1})
    for key, one in unique[0].items():
        if key in unique[1]:
            yield MatchedTreatments(dict(zip(names, key, strict=True)), one, unique[1][key])


def _specified_levels(levels: Mapping[str, Level]) -> dict[str, Level]:
    return {name: level for name, level in levels.items() if level != UNSPECIFIED}
