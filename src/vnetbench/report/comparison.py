"""Two campaigns side by side: what differs in their environments, and the ratio of each treatment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from vnetbench.estimate.imported_trials import list_sources
from vnetbench.estimate.matching import MatchedTreatments, all_levels, match_treatments
from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.estimate.ratios import adjust_p_values, rank_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.quantity import format_exact_share
from vnetbench.report.environment import FactDifference, find_differences
from vnetbench.report.tables.columns import UNMEASURED_STATES, Column, factor_columns
from vnetbench.report.tables.text_table import COLUMN_GAP, draw_table, fold_factors, bullet_list, to_safe_text, columns_width
from vnetbench.report.text.emulation_warning import EMULATION_WARNING, emulation_warnings
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.estimate_text import find_metric, metric_scale, format_short_estimate, format_short_ratio
from vnetbench.wording.factor_text import pluralize, factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors


@dataclass(frozen=True)
class MetricChange:
    """One metric of one treatment in both campaigns."""

    factors: Mapping[str, Level]
    metric: str
    before: Estimate
    after: Estimate
    ratio: Ratio
    """after / before; its p value is adjusted over all changes of the comparison."""

    @property
    def is_shown(self) -> bool:
        """Whether it is beyond chance: the interval leaves 1 out, and the adjusted p value agrees."""
        own = self.ratio
        if own.p_value is None or own.low is None or own.high is None:
            return False
        return not own.low <= 1 <= own.high and own.p_value <= 1 - own.confidence + 1e-12

    @property
    def worsening(self) -> float:
        """The share by which it got worse, 0.1 for a goodput of 0.9 times; negative where it got better."""
        if find_metric(self.metric).better == "higher":
            return 1 - self.ratio.value
        return self.ratio.value - 1 if find_metric(self.metric).better == "lower" else 0.0


@dataclass(frozen=True)
class CampaignComparison:
    """What became of each treatment that two campaigns share, and what they don't share."""

    before: str
    after: str
    """The results files' paths."""
    factors: tuple[FactorLevels, ...]
    emulated: tuple[str, ...]
    """`before` and `after`, where guests ran under TCG."""
    imported: tuple[str, ...]
    """Of a side that was imported: from which tools and logs."""
    environment: tuple[FactDifference, ...]
    conditions: tuple[str, ...]
    """Of a side that is a published table, in place of its environment."""
    changes: tuple[MetricChange, ...]
    only_before: tuple[Mapping[str, Level], ...]
    only_after: tuple[Mapping[str, Level], ...]
    unmeasured: tuple[tuple[Mapping[str, Level], str], ...]
    """Treatments that both have but one or both did not measure, and why."""
    lost: tuple[Mapping[str, Level], ...] = ()
    """Those of them that were measured before, and are refused or fail now."""
    unpublished: int = 0
    """Published figures, of a side that is a published table, that no treatment is alike with."""


def compare_campaigns(before: CampaignSummary, after: CampaignSummary, metrics: Sequence[str] = ()) -> CampaignComparison:
    """Match treatments by their factors and compare their trials, for each metric that both have.

    Without `metrics` that is the one that decided in the campaign `after`.
    Which treatments are alike: `matching.matched`. The confidence is the lower of the two campaigns'. Ratios
    and their adjustment: `estimate.compare`.
    """
    shared = match_treatments(before, after)
    confidence = min(before.precision.confidence, after.precision.confidence)
    changes = [
        change
        for metric in metrics or (after.main_metric,)
        for each in shared
        if (change := _metric_change(each, metric, confidence)) is not None
    ]
    adjusted = adjust_p_values([change.ratio for change in changes])
    only_before = _unmatched_levels(before, [each.before for each in shared])
    only_after = _unmatched_levels(after, [each.after for each in shared])
    return CampaignComparison(
        before=before.path,
        after=after.path,
        factors=_merge_factors(before, after),
        emulated=tuple(
            side for side, summary in (("before", before), ("after", after)) if emulation_warnings(summary)
        ),
        imported=tuple(
            f"{side}: imported, not measured here: {'; '.join(list_sources(_all_trials(summary)))}"
            for side, summary in (("before", before), ("after", after))
            if summary.is_imported
        ),
        environment=find_differences(before, after),
        conditions=tuple(
            f"{side}: {summary.reference.conditions}"
            for side, summary in (("before", before), ("after", after))
            if summary.reference
        ),
        changes=tuple(
            MetricChange(each.factors, each.metric, each.before, each.after, own)
            for each, own in zip(changes, adjusted, strict=True)
        ),
        only_before=() if before.reference else only_before,
        only_after=() if after.reference else only_after,
        unpublished=len(only_before if before.reference else ()) + len(only_after if after.reference else ()),
        unmeasured=tuple(_unmeasured_treatments(shared)),
        lost=tuple(
            each.levels
            for each in shared
            if each.before.metrics and not each.after.metrics and each.after.stopped_by in UNMEASURED_STATES
        ),
    )


def find_regressions(comparison: CampaignComparison, share: float) -> list[MetricChange]:
    """The changes for the worse by more than `share` (0.05 is 5 %) that are beyond chance."""
    return [change for change in comparison.changes if change.is_shown and change.worsening > share]


def comparison_table(comparison: CampaignComparison) -> ComparisonTable:
    """What differs in the environments, then each treatment before and after with the ratio of the two."""
    return ComparisonTable(comparison)


@dataclass(frozen=True)
class ComparisonTable:
    """A rich renderable; where it is narrow the factors fold into one column."""

    comparison: CampaignComparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self.comparison
        yield to_safe_text(f"before: {found.before}\nafter:  {found.after}\n")
        for side in found.emulated:
            yield to_safe_text(f"{side}: {EMULATION_WARNING}\n")
        for said in (*found.imported, *found.conditions):
            yield to_safe_text(f"{said}\n")
        if not found.conditions:
            yield _environment_table(found.environment)
        for metric in dict.fromkeys(change.metric for change in found.changes):
            changes = [change for change in found.changes if change.metric == metric]
            yield Text("")
            styles = [_change_style(change) for change in changes]
            yield draw_table(_comparison_columns(changes, found.factors, options.max_width), styles, range(len(changes)))
        yield Text("")
        yield Text(_verdict_sentence(found.changes))
        yield bullet_list(_omission_notes(found))


def _metric_change(each: MatchedTreatments, metric: str, confidence: float) -> MetricChange | None:
    if metric not in each.before.metrics or metric not in each.after.metrics:
        return None
    before, after = (side.metrics[metric] for side in (each.before, each.after))
    if before.is_published or after.is_published:
        if not before.value:
            return None
        own = Ratio(after.value / before.value, None, None, confidence, None)
        return MetricChange(each.levels, metric, before, after, own)
    sides = [treatment.trial_values(metric) for treatment in (each.before, each.after)]
    if any(value < 0 for side in sides for value in side):
        return None  # a difference below zero has no ratio
    own = rank_ratio(sides[0], sides[1], confidence)
    return MetricChange(each.levels, metric, before, after, own)


def _all_trials(summary: CampaignSummary) -> list[TrialPoint]:
    return [point for treatment in summary.treatments for point in treatment.points]


def _unmatched_levels(
    summary: CampaignSummary, found: Sequence[TreatmentSummary]
) -> tuple[Mapping[str, Level], ...]:
    known = {treatment.index for treatment in found}
    return tuple(all_levels(summary, t) for t in summary.treatments if t.index not in known)


def _merge_factors(before: CampaignSummary, after: CampaignSummary) -> tuple[FactorLevels, ...]:
    known = factor_names(before.factors)
    return (*before.factors, *(factor for factor in after.factors if factor.name not in known))


def _unmeasured_treatments(shared: Sequence[MatchedTreatments]) -> Iterator[tuple[Mapping[str, Level], str]]:
    for each in shared:
        missing = [(side, t) for side, t in (("before", each.before), ("after", each.after)) if not t.metrics]
        if missing:
            yield each.levels, ", ".join(f"{side}: {t.stopped_by}" for side, t in missing)


def _environment_table(found: Sequence[FactDifference]) -> Table | Text:
    if not found:
        return Text("The environments do not differ in any fact that is recorded.")
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(overflow="fold")
    table.add_row("differs", "before", "after", style="bold")
    for each in found:
        name = f"{', '.join(each.places)}: {each.name}"
        table.add_row(*(to_safe_text(text or "–") for text in (name, each.before, each.after)))
    return table


@dataclass(frozen=True)
class _ComparisonRow:
    """A change seen as a row of the table: its factors and one side's estimate."""

    factors: Mapping[str, Level]
    metrics: Mapping[str, Estimate]
    trials: int
    stopped_by: str = ""


def _comparison_columns(changes: Sequence[MetricChange], factors: Sequence[FactorLevels], width: int) -> list[Column]:
    metric = changes[0].metric
    before = [_ComparisonRow(c.factors, {metric: c.before}, c.before.trials) for c in changes]
    after = [_ComparisonRow(c.factors, {metric: c.after}, c.after.trials) for c in changes]
    scale = metric_scale([*before, *after], metric)
    columns = [
        Column(
            side,
            f"{find_metric(metric).label} {side}",
            scale.unit,
            tuple(format_short_estimate(row.metrics[metric], metric, scale) for row in rows),
            True,
        )
        for side, rows in (("before", before), ("after", after))
    ]
    columns.append(Column("ratio", "Ratio", "", tuple((format_short_ratio(c.ratio),) for c in changes), True))
    columns.append(Column("sign", "", "", tuple((_change_symbol(change),) for change in changes), False))
    head = factor_columns(before, factors)
    if not head or columns_width([*head, *columns]) > width:
        head = [fold_factors(before, factors, width - columns_width(columns) - COLUMN_GAP)]
    return [*head, *columns]


def _change_symbol(change: MetricChange) -> str:
    if change.is_shown:
        return "↑" if change.ratio.value > 1 else "↓"
    return "=" if change.ratio.low is not None else "?"


def _change_style(change: MetricChange) -> str:
    if not change.is_shown or change.worsening == 0:
        return ""
    return "red" if change.worsening > 0 else "green"


def _verdict_sentence(changes: Sequence[MetricChange]) -> str:
    if not changes:
        return "No treatment was measured in both."
    if all(change.before.is_published or change.after.is_published for change in changes):
        return (
            "A published figure has no trials, so no ratio to it has an interval (?). "
            "Treatments are alike that share the levels of all factors that both name."
        )
    shown = sum(change.is_shown for change in changes)
    share = format_exact_share(changes[0].ratio.confidence)
    return (
        f"{shown} of {pluralize(len(changes), 'ratio')} differ from 1 beyond chance (↑ ↓), adjusted for "
        f"their number by Benjamini and Hochberg. Brackets hold {share} intervals. "
        "=: no difference shown. ?: too few trials for an interval."
    )


def _omission_notes(found: CampaignComparison) -> Iterator[str]:
    rows = [change.factors for change in found.changes]
    rows += [*found.only_before, *found.only_after, *(factors for factors, _ in found.unmeasured)]
    names = factor_names(varying_factors([_ComparisonRow(factors, {}, 0) for factors in rows], found.factors))
    for factors in found.only_before:
        yield f"only before: {treatment_phrase(factors, names)}"
    for factors in found.only_after:
        yield f"only after: {treatment_phrase(factors, names)}"
    for factors, why in found.unmeasured:
        yield f"not compared: {treatment_phrase(factors, names)} ({why})"
    if found.unpublished:
        yield f"{pluralize(found.unpublished, 'published figure')} without a treatment alike"
    if any(change.before.modes or change.after.modes for change in found.changes):
        yield "A treatment with two modes: its ratio mixes both; look at the modes' own values."
