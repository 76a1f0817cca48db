"""The table of estimates in a terminal, of a finished campaign or a running one."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.printable import make_printable
from vnetbench.report.one_at_a_time import baseline_ratio_column, merge_sparse_design_into_one_factor
from vnetbench.report.tables.columns import (
    STATES_WITHOUT_MEASUREMENT,
    Column,
    TreatmentRow,
    factor_columns,
    metric_columns,
    search_columns,
    stop_reason_column,
    trials_column,
)
from vnetbench.report.tables.published_comparison import (
    PublishedComparison,
    compare_with_published,
    measured_and_published_columns,
)
from vnetbench.report.tables.team_table import TEAM_TABLE_NOTE, TEAM_TABLE_TITLE, team_advice, team_columns
from vnetbench.report.tables.text_bars import draw_estimate_bar, largest_bar_end_value
from vnetbench.report.tables.text_table import (
    COLUMN_GAP_CHARACTERS,
    bullet_list,
    column_width,
    columns_width,
    draw_table,
    fold_factors_into_one_column,
)
from vnetbench.report.text.notes import campaign_notes, table_values_legend
from vnetbench.results.records import RUNNING
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_BAR_COLUMN_KEY = "bar"
_MIN_AND_MAX_BAR_WIDTH = (18, 40)
"""Minimum and maximum width of the bar column. If the minimum does not fit, the bars follow the table."""
_MIN_METRIC_COLUMNS_BEFORE_BAR = 3
"""Number of optional columns that are more useful than the bars."""
_MIN_TREATMENT_NAME_WIDTH = 16
_TERMINAL_LINES_BESIDE_TABLE = 8
"""Lines of the terminal that a live table leaves for its header and for the lines below it."""


@dataclass(frozen=True)
class LiveTreatmentRow:
    """One treatment while its campaign runs."""

    factors: Mapping[str, Level]
    trial_count: int = 0
    stop_reason: str = RUNNING
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    is_running: bool = False
    """True while a trial of this treatment runs."""
    last_trial_number: int = 0
    """Number of its latest trial in the campaign; 0 without one. A truncated table shows the latest rows."""


@dataclass(frozen=True)
class EstimatesTable:
    """The final table as a rich renderable; the available width decides which columns it has."""

    rows: Sequence[TreatmentRow]
    factors: Sequence[FactorLevels]
    deciding_metric: str
    """The metric of the first column and of the bars."""
    legend: str
    notes: tuple[str, ...]
    baseline_ratio_column: Column | None = None
    """The ratio to the baseline, next to the deciding metric."""
    published_comparison: PublishedComparison | None = None
    """The published values, shown below the table."""
    team_columns: Sequence[Column] = ()
    """The links of the testbed's team, shown below the table; empty without one."""
    team_advice: Sequence[str] = ()
    """What would spread the team's flows better."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = _fit_columns(
            self.rows, self.factors, self.deciding_metric, options.max_width, self.baseline_ratio_column
        )
        yield draw_table(columns, [_row_style(row) for row in self.rows], range(len(self.rows)))
        yield Text("")
        if all(column.key != _BAR_COLUMN_KEY for column in columns):
            yield from _treatment_bar_lines(self.rows, self.factors, self.deciding_metric, options.max_width)
        yield Text(self.legend)
        yield bullet_list(self.notes)
        if self.published_comparison is not None:
            yield from _published_comparison_section(self.published_comparison, options.max_width)
        if self.team_columns:
            yield from _team_section(self.team_columns, options.max_width)
            yield bullet_list(self.team_advice)


@dataclass(frozen=True)
class LiveTable:
    """The table of a running campaign as a rich renderable that fits the terminal's height."""

    rows: Sequence[LiveTreatmentRow]
    factors: Sequence[FactorLevels]
    deciding_metric: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Use all rows, so that columns and units stay the same while the visible rows change.
        cells = tuple(("▶" if row.is_running else " ",) for row in self.rows)
        marker = Column("running", "", "", cells, False)
        width = options.max_width - column_width(marker) - COLUMN_GAP_CHARACTERS
        columns = _fit_columns(self.rows, self.factors, self.deciding_metric, width)
        heights = [max(len(column.cells[i]) for column in columns) for i in range(len(self.rows))]
        visible = _indices_of_fitting_rows(
            self.rows, heights, options.size.height - _TERMINAL_LINES_BESIDE_TABLE
        )
        yield draw_table([marker, *columns], [_row_style(row) for row in self.rows], visible)
        if hidden := [row for i, row in enumerate(self.rows) if i not in visible]:
            states = Counter(row.stop_reason for row in hidden)
            counts = ", ".join(f"{count} {state}" for state, count in states.items())
            yield Text(f"and {len(hidden)} more: {counts}", no_wrap=True)


def estimates_table(summary: CampaignSummary) -> EstimatesTable:
    """Return the final table: one row per treatment, with bars, legend and notes below."""
    summary = merge_sparse_design_into_one_factor(summary)
    return EstimatesTable(
        summary.treatments,
        summary.factors,
        summary.deciding_metric,
        table_values_legend(summary),
        campaign_notes(summary),
        baseline_ratio_column(summary),
        compare_with_published(summary),
        team_columns(summary),
        team_advice(summary),
    )


def live_table(
    rows: Sequence[LiveTreatmentRow], factors: Sequence[FactorLevels], deciding_metric: str
) -> LiveTable:
    """Return the table of a running campaign; `▶` marks the trial that runs."""
    labelled = []
    for row in rows:
        is_waiting = row.stop_reason == RUNNING and not row.trial_count and not row.is_running
        labelled.append(replace(row, stop_reason="waiting") if is_waiting else row)
    return LiveTable(labelled, factors, deciding_metric)


def _fit_columns(
    rows: Sequence[TreatmentRow],
    factors: Sequence[FactorLevels],
    deciding_metric: str,
    width: int,
    baseline_ratios: Column | None = None,
) -> list[Column]:
    """Return the columns that fit, in display order.

    Factors, the deciding metric, baseline ratios and trials always stay. If they do not fit, the factors fold
    into one column.
    """
    first, *metrics = metric_columns(rows, deciding_metric)
    chosen = [first, *([baseline_ratios] if baseline_ratios else []), trials_column(rows)]
    factor_part = factor_columns(rows, factors)
    if not factor_part or columns_width([*factor_part, *chosen]) > width:
        factor_part = [
            fold_factors_into_one_column(rows, factors, width - columns_width(chosen) - COLUMN_GAP_CHARACTERS)
        ]
    available = width - columns_width([*factor_part, *chosen])
    optional = [*search_columns(rows), stop_reason_column(rows), *metrics]
    available -= _append_columns_and_count_characters(
        chosen, optional[:_MIN_METRIC_COLUMNS_BEFORE_BAR], available
    )
    min_bar_width, max_bar_width = _MIN_AND_MAX_BAR_WIDTH
    has_bar = available >= min_bar_width + COLUMN_GAP_CHARACTERS
    if has_bar:
        available -= min_bar_width + COLUMN_GAP_CHARACTERS
    available -= _append_columns_and_count_characters(
        chosen, optional[_MIN_METRIC_COLUMNS_BEFORE_BAR:], available
    )
    if has_bar:
        bar_width = min(max_bar_width, min_bar_width + available)
        bars = tuple((bar.ljust(bar_width),) for bar in _draw_bars(rows, deciding_metric, bar_width))
        chosen.insert(1, Column(_BAR_COLUMN_KEY, "", "", bars, False))
    return [*factor_part, *chosen]


def _append_columns_and_count_characters(
    chosen: list[Column], columns: Sequence[Column], available_characters: int
) -> int:
    """Append the columns that fit into `available_characters`; return the characters used."""
    used = 0
    for column in columns:
        if used + column_width(column) + COLUMN_GAP_CHARACTERS <= available_characters:
            chosen.append(column)
            used += column_width(column) + COLUMN_GAP_CHARACTERS
    return used


def _treatment_bar_lines(
    rows: Sequence[TreatmentRow], factors: Sequence[FactorLevels], deciding_metric: str, width: int
) -> Iterator[Text]:
    """Yield a line per treatment with its name and its bar."""
    names = factor_names(varying_factors(rows, factors))
    labels = [make_printable(treatment_phrase(row.factors, names)) for row in rows]
    label_width = max(map(cell_len, labels), default=0)
    bar_width = width - label_width - COLUMN_GAP_CHARACTERS
    if bar_width < _MIN_AND_MAX_BAR_WIDTH[0]:
        return
    bars = _draw_bars(rows, deciding_metric, bar_width)
    for label, bar in zip(labels, bars, strict=True):
        if bar:
            padding = " " * (label_width - cell_len(label) + COLUMN_GAP_CHARACTERS)
            yield Text(label + padding).append(bar, style="cyan")
    if any(bars):
        yield Text("")


def _draw_bars(rows: Sequence[TreatmentRow], deciding_metric: str, width: int) -> list[str]:
    estimates = [row.metrics.get(deciding_metric) for row in rows]
    largest = largest_bar_end_value([estimate for estimate in estimates if estimate])
    return [draw_estimate_bar(estimate, largest, width) if estimate else "" for estimate in estimates]


def _published_comparison_section(comparison: PublishedComparison, width: int) -> Iterator[Text | Table]:
    """Yield the comparison with a published table; long treatment names are wrapped."""
    names, *others = measured_and_published_columns(comparison)
    name_width = max(_MIN_TREATMENT_NAME_WIDTH, width - columns_width(others) - COLUMN_GAP_CHARACTERS)
    wrapped = replace(names, cells=tuple(tuple(textwrap.wrap(cell[0], name_width)) for cell in names.cells))
    yield Text("")
    yield Text(f"Comparison with {comparison.source.title}: {comparison.source.conditions}")
    yield Text("")
    yield draw_table([wrapped, *others], [""] * len(names.cells), range(len(names.cells)))
    yield Text("Values are means [minimum, maximum] of the trials.")


def _team_section(columns: Sequence[Column], width: int) -> Iterator[Text | Table]:
    """Yield the links of the team; in a narrow terminal, the width that they need."""
    yield Text(f"\n{TEAM_TABLE_TITLE}\n")
    if (needed := columns_width(columns)) > width:
        yield Text(f"This table needs a terminal of {needed} columns.")
        return
    row_count = len(columns[0].cells)
    yield draw_table(columns, [""] * row_count, range(row_count))
    yield Text(TEAM_TABLE_NOTE)


def _indices_of_fitting_rows(
    rows: Sequence[LiveTreatmentRow], heights: Sequence[int], max_lines: int
) -> list[int]:
    """Return the indices of the rows to show: the running one, then the latest, then the next."""
    selected: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: (not rows[i].is_running, -rows[i].last_trial_number, i)):
        if heights[i] > max_lines and selected:
            break
        selected.append(i)
        max_lines -= heights[i]
    return sorted(selected)


def _row_style(row: TreatmentRow) -> str:
    if isinstance(row, LiveTreatmentRow) and row.is_running:
        return "bold"
    return "red" if row.stop_reason in STATES_WITHOUT_MEASUREMENT else ""
