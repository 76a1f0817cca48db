"""Where the time of a stream or request goes, as one line of text per group of treatments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from vnetbench.estimate.evidence.time_accounting.account import TimeShares
from vnetbench.estimate.evidence.time_accounting.time_uses import RECEIVER, SENDER, TIME_USE_BY_NAME
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.estimate.treatment_time import MIN_NAMED_SHARE, TreatmentTimeShares, campaign_time_shares
from vnetbench.quantity import format_count_with_noun
from vnetbench.wording.factor_text import factor_noun, level_text
from vnetbench.wording.treatment_names import treatment_name, varying_factors

_PHRASE_BY_WAIT = {
    "load": "waits for a CPU that the load itself uses",
    "programs": "waits for a CPU that other programs use",
    "packets": "waits for a CPU that processes packets",
    "hypervisor": "waits for a CPU that the hypervisor uses",
}
_MAX_NAMED_USES = 3
"""A line of text names at most this many uses of time."""


@dataclass(frozen=True)
class TreatmentsWithSameMainUse:
    """Treatments that spend most of their time on the same use, with their mean shares."""

    members: tuple[TreatmentTimeShares, ...]
    mean_shares: TimeShares


def group_by_main_use(treatments: Sequence[TreatmentTimeShares]) -> list[TreatmentsWithSameMainUse]:
    """Return the treatments grouped by their largest use of time, the largest group first."""
    by_use: dict[str, list[TreatmentTimeShares]] = {}
    for item in treatments:
        by_use.setdefault(max(item.shares, key=lambda name: item.shares[name]), []).append(item)
    groups = [
        TreatmentsWithSameMainUse(
            tuple(members),
            {name: fmean(item.shares[name] for item in members) for name in TIME_USE_BY_NAME},
        )
        for members in by_use.values()
    ]
    return sorted(groups, key=lambda group: -len(group.members))


def time_lines(summary: CampaignSummary, treatment_indices: Sequence[int] = ()) -> list[str]:
    """Return a line per group of treatments: `Time with streams 1, 2: 98 % sender runs, 2 % other`.

    Args:
        summary: The campaign.
        treatment_indices: Treatments to include; empty for all.
    """
    treatments = [
        item
        for item in campaign_time_shares(summary)
        if not treatment_indices or item.treatment.index in treatment_indices
    ]
    return [_time_group_line(summary, group, treatments) for group in group_by_main_use(treatments)]


def _time_group_line(
    summary: CampaignSummary, group: TreatmentsWithSameMainUse, treatments: Sequence[TreatmentTimeShares]
) -> str:
    where = _treatments_of_group_phrase(summary, group, treatments)
    return f"Time{where}: {format_time_shares(group.mean_shares)}."


def _treatments_of_group_phrase(
    summary: CampaignSummary, group: TreatmentsWithSameMainUse, treatments: Sequence[TreatmentTimeShares]
) -> str:
    """Return the treatments of a group: ` with streams 4, 8 (10 of 20 treatments)`."""
    count = len(group.members)
    if len(summary.treatments) == 1:
        return ""
    if count == 1:
        return f" with {treatment_name(summary, group.members[0].treatment)}"
    if count == len(treatments):
        return f" in all {format_count_with_noun(count, 'treatment')}"
    counts = f"{count} of {format_count_with_noun(len(treatments), 'treatment')}"
    levels = _distinguishing_levels(summary, group, treatments)
    return f" with {levels} ({counts})" if levels else f" in {counts}"


def _distinguishing_levels(
    summary: CampaignSummary, group: TreatmentsWithSameMainUse, treatments: Sequence[TreatmentTimeShares]
) -> str:
    """Return the levels of the factor that no treatment of another group has; empty without one."""
    inside = [item.treatment for item in group.members]
    outside = [item.treatment for item in treatments if item not in group.members]
    for factor in varying_factors(summary.treatments, summary.factors):
        levels = {each.factors.get(factor.name) for each in inside}
        if levels.isdisjoint({each.factors.get(factor.name) for each in outside}):
            texts = [level_text(factor.name, level) for level in factor.levels if level in levels]
            return f"{factor_noun(factor.name)} {', '.join(texts)}"
    return ""


def format_time_shares(shares: TimeShares) -> str:
    """Return the largest uses of time: `87 % sender runs, 12 % receiver runs, 1 % other`."""
    largest = sorted(shares.items(), key=lambda item: -item[1])[:_MAX_NAMED_USES]
    named = {name: round(100 * share) for name, share in largest if share >= MIN_NAMED_SHARE}
    other = 100 - sum(named.values())
    phrases = [f"{percent} % {_time_use_phrase(name)}" for name, percent in named.items()]
    return ", ".join([*phrases, f"{other} % other"] if other > 0 else phrases)


def _time_use_phrase(name: str) -> str:
    """Return a use of time inside a sentence: `sender waits for a CPU that the load itself uses`."""
    part, _, reason = name.partition("_")
    is_wait = part in (SENDER, RECEIVER) and reason in _PHRASE_BY_WAIT
    return f"{part} {_PHRASE_BY_WAIT[reason]}" if is_wait else TIME_USE_BY_NAME[name].label
