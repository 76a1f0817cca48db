"""Estimates in a terminal: a table that fits its width and height, live and at the end."""

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
from vnetbench.report.one_at_a_time import to_single_factor, gain_column
from vnetbench.report.tables.columns import (
    UNMEASURED_STATES,
    Column,
    TableRow,
    factor_columns,
    metric_columns,
    search_columns,
    stop_reason_column,
    trials_column,
)
from vnetbench.report.tables.published_comparison import PublishedComparison, compare_with_published, comparison_columns
from vnetbench.report.tables.text_bars import draw_bar, max_bar_value
from vnetbench.report.tables.text_table import COLUMN_GAP, draw_table, fold_factors, bullet_list, columns_width, column_width
from vnetbench.report.text.notes import legend, campaign_notes
from vnetbench.results.records import RUNNING
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_BAR_KEY = "bar"
_BAR_WIDTH_RANGE = (18, 40)
"""Narrowest and widest bar in a column; where the narrowest does not fit the bars stand below the table."""
_COLUMNS_BEFORE_BAR = 3
"""So many columns beside factors, the main metric and trials are more useful than the bar."""
_MIN_NAME_WIDTH = 16
_RESERVED_LINES = 8
"""Lines of the terminal that a live table leaves to its own headings and to what is shown below it."""


@dataclass(frozen=True)
class LiveTreatmentRow:
    """One treatment while its campaign runs."""

    factors: Mapping[str, Level]
    trials: int = 0
    stopped_by: str = RUNNING
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    active: bool = False
    """A trial of it is in progress."""
    last_trial: int = 0
    """Number of its latest trial in the campaign, 0: none yet. A table cut short keeps the latest."""


@dataclass(frozen=True)
class EstimatesTable:
    """A rich renderable; the width that it is given decides which columns it has."""

    rows: Sequence[TableRow]
    factors: Sequence[FactorLevels]
    main: str
    """The metric that comes first and has the bars."""
    legend: str
    notes: tuple[str, ...]
    gains: Column | None = None
    """Stands beside the main metric."""
    beside: PublishedComparison | None = None
    """Published figures, shown below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = _fit_columns(self.rows, self.factors, self.main, options.max_width, self.gains)
        yield draw_table(columns, [_row_style(row) for row in self.rows], range(len(self.rows)))
        yield Text("")
        if all(column.key != _BAR_KEY for column in columns):
            yield from _bar_block(self.rows, self.factors, self.main, options.max_width)
        yield Text(self.legend)
        yield bullet_list(self.notes)
        if self.beside is not None:
            yield from _published_section(self.beside, options.max_width)


@dataclass(frozen=True)
class LiveTable:
    """A rich renderable of a running campaign that fits the terminal's height."""

    rows: Sequence[LiveTreatmentRow]
    factors: Sequence[FactorLevels]
    main: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # From all rows, so that neither columns nor units change as rows come and go.
        mark = Column("active", "", "", tuple(("▶" if row.active else " ",) for row in self.rows), False)
        columns = _fit_columns(self.rows, self.factors, self.main, options.max_width - column_width(mark) - COLUMN_GAP)
        heights = [max(len(column.cells[i]) for column in columns) for i in range(len(self.rows))]
        shown = _select_rows(self.rows, heights, options.size.height - _RESERVED_LINES)
        yield draw_table([mark, *columns], [_row_style(row) for row in self.rows], shown)
        if hidden := [row for i, row in enumerate(self.rows) if i not in shown]:
            states = Counter(row.stopped_by for row in hidden)
            counts = ", ".join(f"{count} {state}" for state, count in states.items())
            yield Text(f"and {len(hidden)} more: {counts}", no_wrap=True)


def estimates_table(summary: CampaignSummary) -> EstimatesTable:
    """The final table: treatments by what varies, their estimates, why they stopped; bars and notes below."""
    told = to_single_factor(summary)
    return EstimatesTable(
        told.treatments,
        told.factors,
        told.main_metric,
        legend(told),
        campaign_notes(told),
        gain_column(told),
        compare_with_published(told),
    )


def live_table(rows: Sequence[LiveTreatmentRow], factors: Sequence[FactorLevels], main: str) -> LiveTable:
    """The same columns while a campaign runs; `▶` marks the trial in progress."""
    told = [
        replace(row, stopped_by="waiting")
        if not row.trials and not row.active and row.stopped_by == RUNNING
        else row
        for row in rows
    ]
    return LiveTable(told, factors, main)


def _fit_columns(
    rows: Sequence[TableRow],
    factors: Sequence[FactorLevels],
    main: str,
    width: int,
    gains: Column | None = None,
) -> list[Column]:
    """The columns that fit, in the order shown.

    Factors, the main metric, gains and trials always stay: where they don't fit, the factors fold into one
    column.
    """
    first, *metrics = metric_columns(rows, main)
    chosen = [first, *([gains] if gains else []), trials_column(rows)]
    head = factor_columns(rows, factors)
    if not head or columns_width([*head, *chosen]) > width:
        head = [fold_factors(rows, factors, width - columns_width(chosen) - COLUMN_GAP)]
    left = width - columns_width([*head, *chosen])
    less_needed = [*search_columns(rows), stop_reason_column(rows), *metrics]
    left -= _append_fitting(chosen, less_needed[:_COLUMNS_BEFORE_BAR], left)
    has_bar = left >= _BAR_WIDTH_RANGE[0] + COLUMN_GAP
    if has_bar:
        left -= _BAR_WIDTH_RANGE[0] + COLUMN_GAP
    left -= _append_fitting(chosen, less_needed[_COLUMNS_BEFORE_BAR:], left)
    if has_bar:
        bar_width = min(_BAR_WIDTH_RANGE[1], _BAR_WIDTH_RANGE[0] + left)
        bars = tuple((each.ljust(bar_width),) for each in _bar_cells(rows, main, bar_width))
        chosen.insert(1, Column(_BAR_KEY, "", "", bars, False))
    return [*head, *chosen]


def _append_fitting(chosen: list[Column], columns: Sequence[Column], left: int) -> int:
    """Add those of the columns that fit into `left` characters; the characters that they take."""
    taken = 0
    for column in columns:
        if taken + column_width(column) + COLUMN_GAP <= left:
            chosen.append(column)
            taken += column_width(column) + COLUMN_GAP
    return taken


def _bar_block(rows: Sequence[TableRow], factors: Sequence[FactorLevels], main: str, width: int) -> Iterator[Text]:
    """The bars on lines of their own, each behind its treatment."""
    names = factor_names(varying_factors(rows, factors))
    labels = [make_printable(treatment_phrase(row.factors, names)) for row in rows]
    label_width = max(map(cell_len, labels), default=0)
    bar_width = width - label_width - COLUMN_GAP
    if bar_width < _BAR_WIDTH_RANGE[0]:
        return
    bars = [(label, line) for label, line in zip(labels, _bar_cells(rows, main, bar_width), strict=True) if line]
    for label, line in bars:
        yield Text(label + " " * (label_width - cell_len(label) + COLUMN_GAP)).append(line, style="cyan")
    if bars:
        yield Text("")


def _published_section(found: PublishedComparison, width: int) -> Iterator[Text | Table]:
    """The campaign beside the published figures; treatments are folded where they leave no room."""
    name, *others = comparison_columns(found)
    lines = [
        textwrap.wrap(cell[0], max(_MIN_NAME_WIDTH, width - columns_width(others) - COLUMN_GAP)) for cell in name.cells
    ]
    folded_name = replace(name, cells=tuple(map(tuple, lines)))
    yield Text("")
    yield Text(f"{found.source.title}, beside: {found.source.conditions}")
    yield Text("")
    yield draw_table([folded_name, *others], [""] * len(name.cells), range(len(name.cells)))
    yield Text("Mean [least, most] of the trials.")


def _bar_cells(rows: Sequence[TableRow], main: str, width: int) -> list[str]:
    estimates = [row.metrics.get(main) for row in rows]
    largest = max_bar_value([estimate for estimate in estimates if estimate])
    return [draw_bar(estimate, largest, width) if estimate else "" for estimate in estimates]


def _select_rows(rows: Sequence[LiveTreatmentRow], heights: Sequence[int], room: int) -> list[int]:
    """Which rows to show within `room` lines: those at work, then the latest, then those to come."""
    chosen: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: (not rows[i].active, -rows[i].last_trial, i)):
        if heights[i] > room and chosen:
            break
        chosen.append(i)
        room -= heights[i]
    return sorted(chosen)


def _row_style(row: TableRow) -> str:
    if isinstance(row, LiveTreatmentRow) and row.active:
        return "bold"
    return "red" if row.stopped_by in UNMEASURED_STATES else ""
