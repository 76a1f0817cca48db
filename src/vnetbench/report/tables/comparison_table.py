"""The comparison of two campaigns in a terminal: a verdict, the environments, and a table of ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from vnetbench.estimate.model import Estimate
from vnetbench.quantity import format_count_with_noun, format_exact_share
from vnetbench.report.comparison import CampaignComparison, MetricChange
from vnetbench.report.environment import FactDifference
from vnetbench.report.setting_differences import SettingsComparison
from vnetbench.report.tables.columns import Column, factor_columns
from vnetbench.report.tables.text_table import (
    COLUMN_GAP_CHARACTERS,
    bullet_list,
    columns_width,
    draw_table,
    fold_factors_into_one_column,
    to_printable_text,
)
from vnetbench.report.text.emulation_warning import EMULATION_WARNING
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.estimate_text import (
    choose_metric_scale,
    find_metric,
    format_estimate_lines,
    format_ratio_with_bracketed_interval,
    metric_noun,
)
from vnetbench.wording.factor_text import capitalize_sentence, factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors


@dataclass(frozen=True)
class ComparisonTable:
    """A rich renderable; on a narrow terminal the factors fold into one column."""

    comparison: CampaignComparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        comparison = self.comparison
        yield from _settings_part(comparison.settings)
        yield to_printable_text(_answer_sentence(comparison.changes))
        yield to_printable_text(f"\nbefore: {comparison.before_path}\nafter:  {comparison.after_path}\n")
        for name in comparison.campaigns_with_emulated_guests:
            yield to_printable_text(f"{name}: {EMULATION_WARNING}\n")
        for note in (*comparison.imported_log_notes, *comparison.published_table_conditions):
            yield to_printable_text(f"{note}\n")
        if not comparison.published_table_conditions:
            yield _environment_table(comparison.environment_differences)
        for metric in dict.fromkeys(change.metric for change in comparison.changes):
            changes = [change for change in comparison.changes if change.metric == metric]
            yield Text("")
            styles = [_change_style(change) for change in changes]
            columns = _comparison_columns(changes, comparison.factors_of_either, options.max_width)
            yield draw_table(columns, styles, range(len(changes)))
        yield Text("")
        yield Text(_changes_legend(comparison.changes))
        yield bullet_list(_missing_ratio_notes(comparison))


def comparison_table(comparison: CampaignComparison) -> ComparisonTable:
    """Return the answer, the differences between the environments, and the table of ratios."""
    return ComparisonTable(comparison)


def _answer_sentence(changes: Sequence[MetricChange]) -> str:
    """Return how many treatments changed significantly, and the largest change with its interval."""
    if not changes:
        return "No treatment was measured in both campaigns."
    noun = metric_noun(changes[0].metric)
    if all(change.before.is_published or change.after.is_published for change in changes):
        published = format_count_with_noun(len(changes), "published value")
        return f"{published} compared with your measurements of {noun}."
    significant = [change for change in changes if change.is_significant_and_excludes_1]
    if len(changes) == 1:
        difference = "differs significantly" if significant else "does not differ significantly"
        ratio = format_ratio_with_bracketed_interval(changes[0].ratio)
        return f"{capitalize_sentence(noun)} {difference} (×{ratio})."
    count = f"{len(significant)} of {format_count_with_noun(len(changes), 'treatment')}"
    if not significant:
        largest = max(changes, key=lambda change: abs(math.log(change.ratio.value or 1)))
        return (
            f"No significant difference in {noun}. Largest ratio of "
            f"{format_count_with_noun(len(changes), 'treatment')}: "
            f"×{format_ratio_with_bracketed_interval(largest.ratio)}."
        )
    largest = max(significant, key=lambda change: abs(change.relative_worsening))
    phrase = treatment_phrase(largest.factors, _names_of_varying_factors(changes))
    return (
        f"{capitalize_sentence(noun)} differs significantly in {count}. "
        f"Largest change: ×{format_ratio_with_bracketed_interval(largest.ratio)} with {phrase}."
    )


def _names_of_varying_factors(changes: Sequence[MetricChange]) -> tuple[str, ...]:
    names = dict.fromkeys(name for change in changes for name in change.factors)
    return tuple(name for name in names if len({change.factors.get(name) for change in changes}) > 1)


def _settings_part(settings: SettingsComparison) -> Iterator[Table | Text]:
    """Yield the audited settings that differ, or why they are unknown; nothing without audits."""
    if not settings.audited_campaigns:
        return
    if len(settings.audited_campaigns) == 1:
        missing = "after" if settings.audited_campaigns == ("before",) else "before"
        yield Text(f"The campaign {missing} has no audit, so its settings are unknown.\n")
    elif not settings.differences:
        yield Text("No audited setting differs between the campaigns.\n")
    else:
        count = format_count_with_noun(len(settings.differences), "audited setting")
        verb = "differs" if len(settings.differences) == 1 else "differ"
        yield Text(f"{count} {verb} between the campaigns:")
        yield _before_after_table("setting", settings.differences)
        yield Text("")


def _environment_table(differences: Sequence[FactDifference]) -> Table | Text:
    if not differences:
        return Text("No recorded fact differs between the environments.")
    rows = [(f"{', '.join(each.locations)}: {each.name}", each.before, each.after) for each in differences]
    return _before_after_table("difference", rows)


def _before_after_table(title: str, rows: Sequence[tuple[str, str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(overflow="fold")
    table.add_row(title, "before", "after", style="bold")
    for row in rows:
        table.add_row(*(to_printable_text(text or "–") for text in row))
    return table


@dataclass(frozen=True)
class _ComparisonRow:
    """One campaign's estimate of a change, as a row of a table."""

    factors: Mapping[str, Level]
    metrics: Mapping[str, Estimate]
    trial_count: int
    stop_reason: str = ""
    """Empty: a change has none."""


def _comparison_columns(
    changes: Sequence[MetricChange], factors: Sequence[FactorLevels], width: int
) -> list[Column]:
    metric = changes[0].metric
    before = [_ComparisonRow(c.factors, {metric: c.before}, c.before.trial_count) for c in changes]
    after = [_ComparisonRow(c.factors, {metric: c.after}, c.after.trial_count) for c in changes]
    scale = choose_metric_scale([*before, *after], metric)
    columns = [
        Column(
            name,
            f"{find_metric(metric).label} {name}",
            scale.unit,
            tuple(format_estimate_lines(row.metrics[metric], metric, scale) for row in rows),
            True,
        )
        for name, rows in (("before", before), ("after", after))
    ]
    ratios = tuple((format_ratio_with_bracketed_interval(change.ratio),) for change in changes)
    columns.append(Column("ratio", "Ratio", "", ratios, True))
    columns.append(
        Column("symbol", "", "", tuple((_rise_or_fall_symbol(change),) for change in changes), False)
    )
    factor_part = factor_columns(before, factors)
    if not factor_part or columns_width([*factor_part, *columns]) > width:
        factor_part = [
            fold_factors_into_one_column(
                before, factors, width - columns_width(columns) - COLUMN_GAP_CHARACTERS
            )
        ]
    return [*factor_part, *columns]


def _rise_or_fall_symbol(change: MetricChange) -> str:
    if change.is_significant_and_excludes_1:
        return "↑" if change.ratio.value > 1 else "↓"
    return "=" if change.ratio.low is not None else "?"


def _change_style(change: MetricChange) -> str:
    if not change.is_significant_and_excludes_1 or change.relative_worsening == 0:
        return ""
    return "red" if change.relative_worsening > 0 else "green"


def _changes_legend(changes: Sequence[MetricChange]) -> str:
    if not changes:
        return ""
    if all(change.before.is_published or change.after.is_published for change in changes):
        return (
            "A published value has no trials, so its ratio has no interval (?). "
            "Treatments match if they share the levels of all factors that both name."
        )
    share = format_exact_share(changes[0].ratio.confidence)
    return (
        f"Ratios are after / before with {share} confidence intervals. ↑ ↓: significant after adjustment "
        "for the number of ratios (Benjamini-Hochberg). =: no significant difference. "
        "?: too few trials for an interval."
    )


def _missing_ratio_notes(comparison: CampaignComparison) -> Iterator[str]:
    """Yield the treatments without a ratio, and a note on treatments with two modes."""
    levels = [change.factors for change in comparison.changes]
    levels += [*comparison.only_before, *comparison.only_after]
    levels += [each.levels for each in comparison.unmeasured_in_either]
    rows = [_ComparisonRow(each, {}, 0) for each in levels]
    names = factor_names(varying_factors(rows, comparison.factors_of_either))
    for each in comparison.only_before:
        yield f"only in the first campaign: {treatment_phrase(each, names)}"
    for each in comparison.only_after:
        yield f"only in the second campaign: {treatment_phrase(each, names)}"
    for unmeasured in comparison.unmeasured_in_either:
        yield f"not compared: {treatment_phrase(unmeasured.levels, names)} ({unmeasured.reason})"
    if comparison.unmatched_published_count:
        count = format_count_with_noun(comparison.unmatched_published_count, "published value")
        yield f"no treatment matches {count}"
    if any(change.before.modes or change.after.modes for change in comparison.changes):
        yield "The ratio of a treatment with two modes mixes the modes. Compare the values of each mode."
