"""Two campaigns side by side: what differs in their environments, and the ratio of each treatment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from vnetbench.estimate.imported_trials import sources
from vnetbench.estimate.matching import Matched, all_levels, matched
from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.estimate.ratios import adjust, ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.quantity import spell_share
from vnetbench.report.environment import Difference, differences
from vnetbench.report.tables.columns import UNMEASURED, Column, factor_columns
from vnetbench.report.tables.text_table import GAP, drawn, folded, listed, safe, total_width
from vnetbench.report.text.emulation_warning import SENTENCE, emulation
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.estimate_text import metric_of, scale_of, short_figure, short_ratio
from vnetbench.wording.factor_text import counted, names_of, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors


@dataclass(frozen=True)
class Change:
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
        if own.p is None or own.low is None or own.high is None:
            return False
        return not own.low <= 1 <= own.high and own.p <= 1 - own.confidence + 1e-12

    @property
    def worsening(self) -> float:
        """The share by which it got worse, 0.1 for a goodput of 0.9 times; negative where it got better."""
        if metric_of(self.metric).better == "higher":
            return 1 - self.ratio.value
        return self.ratio.value - 1 if metric_of(self.metric).better == "lower" else 0.0


@dataclass(frozen=True)
class Comparison:
    """What became of each treatment that two campaigns share, and what they don't share."""

    before: str
    after: str
    """The results files' paths."""
    factors: tuple[FactorLevels, ...]
    emulated: tuple[str, ...]
    """`before` and `after`, where guests ran under TCG."""
    imported: tuple[str, ...]
    """Of a side that was imported: from which tools and logs."""
    environment: tuple[Difference, ...]
    conditions: tuple[str, ...]
    """Of a side that is a published table, in place of its environment."""
    changes: tuple[Change, ...]
    only_before: tuple[Mapping[str, Level], ...]
    only_after: tuple[Mapping[str, Level], ...]
    unmeasured: tuple[tuple[Mapping[str, Level], str], ...]
    """Treatments that both have but one or both did not measure, and why."""
    lost: tuple[Mapping[str, Level], ...] = ()
    """Those of them that were measured before, and are refused or fail now."""
    unpublished: int = 0
    """Published figures, of a side that is a published table, that no treatment is alike with."""


def compare(before: CampaignSummary, after: CampaignSummary, metrics: Sequence[str] = ()) -> Comparison:
    """Match treatments by their factors and compare their trials, for each metric that both have.

    Without `metrics` that is the one that decided in the campaign `after`.
    Which treatments are alike: `matching.matched`. The confidence is the lower of the two campaigns'. Ratios
    and their adjustment: `estimate.compare`.
    """
    shared = matched(before, after)
    confidence = min(before.precision.confidence, after.precision.confidence)
    changes = [
        change
        for metric in metrics or (after.main_metric,)
        for each in shared
        if (change := _change(each, metric, confidence)) is not None
    ]
    adjusted = adjust([change.ratio for change in changes])
    only_before = _unmatched(before, [each.before for each in shared])
    only_after = _unmatched(after, [each.after for each in shared])
    return Comparison(
        before=before.path,
        after=after.path,
        factors=_factors(before, after),
        emulated=tuple(
            side for side, summary in (("before", before), ("after", after)) if emulation(summary)
        ),
        imported=tuple(
            f"{side}: imported, not measured here: {'; '.join(sources(_points(summary)))}"
            for side, summary in (("before", before), ("after", after))
            if summary.is_imported
        ),
        environment=differences(before, after),
        conditions=tuple(
            f"{side}: {summary.reference.conditions}"
            for side, summary in (("before", before), ("after", after))
            if summary.reference
        ),
        changes=tuple(
            Change(each.factors, each.metric, each.before, each.after, own)
            for each, own in zip(changes, adjusted, strict=True)
        ),
        only_before=() if before.reference else only_before,
        only_after=() if after.reference else only_after,
        unpublished=len(only_before if before.reference else ()) + len(only_after if after.reference else ()),
        unmeasured=tuple(_unmeasured(shared)),
        lost=tuple(
            each.levels
            for each in shared
            if each.before.metrics and not each.after.metrics and each.after.stopped_by in UNMEASURED
        ),
    )


def worse_than(comparison: Comparison, share: float) -> list[Change]:
    """The changes for the worse by more than `share` (0.05 is 5 %) that are beyond chance."""
    return [change for change in comparison.changes if change.is_shown and change.worsening > share]


def comparison_table(comparison: Comparison) -> ComparisonTable:
    """What differs in the environments, then each treatment before and after with the ratio of the two."""
    return ComparisonTable(comparison)


@dataclass(frozen=True)
class ComparisonTable:
    """A rich renderable; where it is narrow the factors fold into one column."""

    comparison: Comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self.comparison
        yield safe(f"before: {found.before}\nafter:  {found.after}\n")
        for side in found.emulated:
            yield safe(f"{side}: {SENTENCE}\n")
        for said in (*found.imported, *found.conditions):
            yield safe(f"{said}\n")
        if not found.conditions:
            yield _environment_table(found.environment)
        for metric in dict.fromkeys(change.metric for change in found.changes):
            changes = [change for change in found.changes if change.metric == metric]
            yield Text("")
            styles = [_style(change) for change in changes]
            yield drawn(_columns(changes, found.factors, options.max_width), styles, range(len(changes)))
        yield Text("")
        yield Text(_verdict(found.changes))
        yield listed(_left_out(found))


def _change(each: Matched, metric: str, confidence: float) -> Change | None:
    if metric not in each.before.metrics or metric not in each.after.metrics:
        return None
    before, after = (side.metrics[metric] for side in (each.before, each.after))
    if before.is_published or after.is_published:
        if not before.value:
            return None
        own = Ratio(after.value / before.value, None, None, confidence, None)
        return Change(each.levels, metric, before, after, own)
    sides = [treatment.values_of(metric) for treatment in (each.before, each.after)]
    if any(value < 0 for side in sides for value in side):
        return None  # a difference below zero has no ratio
    own = ratio(sides[0], sides[1], confidence)
    return Change(each.levels, metric, before, after, own)


def _points(summary: CampaignSummary) -> list[TrialPoint]:
    return [point for treatment in summary.treatments for point in treatment.points]


def _unmatched(
    summary: CampaignSummary, found: Sequence[TreatmentSummary]
) -> tuple[Mapping[str, Level], ...]:
    known = {treatment.index for treatment in found}
    return tuple(all_levels(summary, t) for t in summary.treatments if t.index not in known)


def _factors(before: CampaignSummary, after: CampaignSummary) -> tuple[FactorLevels, ...]:
    known = names_of(before.factors)
    return (*before.factors, *(factor for factor in after.factors if factor.name not in known))


def _unmeasured(shared: Sequence[Matched]) -> Iterator[tuple[Mapping[str, Level], str]]:
    for each in shared:
        missing = [(side, t) for side, t in (("before", each.before), ("after", each.after)) if not t.metrics]
        if missing:
            yield each.levels, ", ".join(f"{side}: {t.stopped_by}" for side, t in missing)


def _environment_table(found: Sequence[Difference]) -> Table | Text:
    if not found:
        return Text("The environments do not differ in any fact that is recorded.")
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(overflow="fold")
    table.add_row("differs", "before", "after", style="bold")
    for each in found:
        name = f"{', '.join(each.places)}: {each.name}"
        table.add_row(*(safe(text or "–") for text in (name, each.before, each.after)))
    return table


@dataclass(frozen=True)
class _Side:
    """A change seen as a row of the table: its factors and one side's estimate."""

    factors: Mapping[str, Level]
    metrics: Mapping[str, Estimate]
    trials: int
    stopped_by: str = ""


def _columns(changes: Sequence[Change], factors: Sequence[FactorLevels], width: int) -> list[Column]:
    metric = changes[0].metric
    before = [_Side(c.factors, {metric: c.before}, c.before.trials) for c in changes]
    after = [_Side(c.factors, {metric: c.after}, c.after.trials) for c in changes]
    scale = scale_of([*before, *after], metric)
    columns = [
        Column(
            side,
            f"{metric_of(metric).label} {side}",
            scale.unit,
            tuple(short_figure(row.metrics[metric], metric, scale) for row in rows),
            True,
        )
        for side, rows in (("before", before), ("after", after))
    ]
    columns.append(Column("ratio", "Ratio", "", tuple((short_ratio(c.ratio),) for c in changes), True))
    columns.append(Column("sign", "", "", tuple((_sign(change),) for change in changes), False))
    head = factor_columns(before, factors)
    if not head or total_width([*head, *columns]) > width:
        head = [folded(before, factors, width - total_width(columns) - GAP)]
    return [*head, *columns]


def _sign(change: Change) -> str:
    if change.is_shown:
        return "↑" if change.ratio.value > 1 else "↓"
    return "=" if change.ratio.low is not None else "?"


def _style(change: Change) -> str:
    if not change.is_shown or change.worsening == 0:
        return ""
    return "red" if change.worsening > 0 else "green"


def _verdict(changes: Sequence[Change]) -> str:
    if not changes:
        return "No treatment was measured in both."
    if all(change.before.is_published or change.after.is_published for change in changes):
        return (
            "A published figure has no trials, so no ratio to it has an interval (?). "
            "Treatments are alike that share the levels of all factors that both name."
        )
    shown = sum(change.is_shown for change in changes)
    share = spell_share(changes[0].ratio.confidence)
    return (
        f"{shown} of {counted(len(changes), 'ratio')} differ from 1 beyond chance (↑ ↓), adjusted for "
        f"their number by Benjamini and Hochberg. Brackets hold {share} intervals. "
        "=: no difference shown. ?: too few trials for an interval."
    )


def _left_out(found: Comparison) -> Iterator[str]:
    rows = [change.factors for change in found.changes]
    rows += [*found.only_before, *found.only_after, *(factors for factors, _ in found.unmeasured)]
    names = names_of(varying_factors([_Side(factors, {}, 0) for factors in rows], found.factors))
    for factors in found.only_before:
        yield f"only before: {treatment_phrase(factors, names)}"
    for factors in found.only_after:
        yield f"only after: {treatment_phrase(factors, names)}"
    for factors, why in found.unmeasured:
        yield f"not compared: {treatment_phrase(factors, names)} ({why})"
    if found.unpublished:
        yield f"{counted(found.unpublished, 'published figure')} without a treatment alike"
    if any(change.before.modes or change.after.modes for change in found.changes):
        yield "A treatment with two modes: its ratio mixes both; look at the modes' own values."
