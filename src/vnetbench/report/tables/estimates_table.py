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
from vnetbench.printable import printable
from vnetbench.report.one_at_a_time import by_change, gain_column
from vnetbench.report.tables.columns import (
    UNMEASURED,
    Column,
    Row,
    factor_columns,
    metric_columns,
    search_columns,
    stopped_column,
    trials_column,
)
from vnetbench.report.tables.published_comparison import Beside, beside, columns_beside
from vnetbench.report.tables.text_bars import bar, largest_shown
from vnetbench.report.tables.text_table import GAP, drawn, folded, listed, total_width, width_of
from vnetbench.report.text.notes import legend, notes
from vnetbench.results.records import RUNNING
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.factor_text import names_of, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_BAR = "bar"
_BAR_WIDTHS = (18, 40)
"""Narrowest and widest bar in a column; where the narrowest does not fit the bars stand below the table."""
_BEFORE_THE_BAR = 3
"""So many columns beside factors, the main metric and trials are more useful than the bar."""
_NARROWEST_NAME = 16
_LINES_AROUND = 8
"""Lines of the terminal that a live table leaves to its own headings and to what is shown below it."""


@dataclass(frozen=True)
class LiveRow:
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

    rows: Sequence[Row]
    factors: Sequence[FactorLevels]
    main: str
    """The metric that comes first and has the bars."""
    legend: str
    notes: tuple[str, ...]
    gains: Column | None = None
    """Stands beside the main metric."""
    beside: Beside | None = None
    """Published figures, shown below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = _fitting(self.rows, self.factors, self.main, options.max_width, self.gains)
        yield drawn(columns, [_style(row) for row in self.rows], range(len(self.rows)))
        yield Text("")
        if all(column.key != _BAR for column in columns):
            yield from _bar_block(self.rows, self.factors, self.main, options.max_width)
        yield Text(self.legend)
        yield listed(self.notes)
        if self.beside is not None:
            yield from _published(self.beside, options.max_width)


@dataclass(frozen=True)
class LiveTable:
    """A rich renderable of a running campaign that fits the terminal's height."""

    rows: Sequence[LiveRow]
    factors: Sequence[FactorLevels]
    main: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # From all rows, so that neither columns nor units change as rows come and go.
        mark = Column("active", "", "", tuple(("▶" if row.active else " ",) for row in self.rows), False)
        columns = _fitting(self.rows, self.factors, self.main, options.max_width - width_of(mark) - GAP)
        heights = [max(len(column.cells[i]) for column in columns) for i in range(len(self.rows))]
        shown = _most_recent(self.rows, heights, options.size.height - _LINES_AROUND)
        yield drawn([mark, *columns], [_style(row) for row in self.rows], shown)
        if hidden := [row for i, row in enumerate(self.rows) if i not in shown]:
            states = Counter(row.stopped_by for row in hidden)
            counts = ", ".join(f"{count} {state}" for state, count in states.items())
            yield Text(f"and {len(hidden)} more: {counts}", no_wrap=True)


def estimates_table(summary: CampaignSummary) -> EstimatesTable:
    """The final table: treatments by what varies, their estimates, why they stopped; bars and notes below."""
    told = by_change(summary)
    return EstimatesTable(
        told.treatments,
        told.factors,
        told.main_metric,
        legend(told),
        notes(told),
        gain_column(told),
        beside(told),
    )


def live_table(rows: Sequence[LiveRow], factors: Sequence[FactorLevels], main: str) -> LiveTable:
    """The same columns while a campaign runs; `▶` marks the trial in progress."""
    told = [
        replace(row, stopped_by="waiting")
        if not row.trials and not row.active and row.stopped_by == RUNNING
        else row
        for row in rows
    ]
    return LiveTable(told, factors, main)


def _fitting(
    rows: Sequence[Row],
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
    if not head or total_width([*head, *chosen]) > width:
        head = [folded(rows, factors, width - total_width(chosen) - GAP)]
    left = width - total_width([*head, *chosen])
    less_needed = [*search_columns(rows), stopped_column(rows), *metrics]
    left -= _take(chosen, less_needed[:_BEFORE_THE_BAR], left)
    has_bar = left >= _BAR_WIDTHS[0] + GAP
    if has_bar:
        left -= _BAR_WIDTHS[0] + GAP
    left -= _take(chosen, less_needed[_BEFORE_THE_BAR:], left)
    if has_bar:
        bar_width = min(_BAR_WIDTHS[1], _BAR_WIDTHS[0] + left)
        bars = tuple((each.ljust(bar_width),) for each in _bars(rows, main, bar_width))
        chosen.insert(1, Column(_BAR, "", "", bars, False))
    return [*head, *chosen]


def _take(chosen: list[Column], columns: Sequence[Column], left: int) -> int:
    """Add those of the columns that fit into `left` characters; the characters that they take."""
    taken = 0
    for column in columns:
        if taken + width_of(column) + GAP <= left:
            chosen.append(column)
            taken += width_of(column) + GAP
    return taken


def _bar_block(rows: Sequence[Row], factors: Sequence[FactorLevels], main: str, width: int) -> Iterator[Text]:
    """The bars on lines of their own, each behind its treatment."""
    names = names_of(varying_factors(rows, factors))
    labels = [printable(treatment_phrase(row.factors, names)) for row in rows]
    label_width = max(map(cell_len, labels), default=0)
    bar_width = width - label_width - GAP
    if bar_width < _BAR_WIDTHS[0]:
        return
    bars = [(label, line) for label, line in zip(labels, _bars(rows, main, bar_width), strict=True) if line]
    for label, line in bars:
        yield Text(label + " " * (label_width - cell_len(label) + GAP)).append(line, style="cyan")
    if bars:
        yield Text("")


def _published(found: Beside, width: int) -> Iterator[Text | Table]:
    """The campaign beside the published figures; treatments are folded where they leave no room."""
    name, *others = columns_beside(found)
    lines = [
        textwrap.wrap(cell[0], max(_NARROWEST_NAME, width - total_width(others) - GAP)) for cell in name.cells
    ]
    folded_name = replace(name, cells=tuple(map(tuple, lines)))
    yield Text("")
    yield Text(f"{found.source.title}, beside: {found.source.conditions}")
    yield Text("")
    yield drawn([folded_name, *others], [""] * len(name.cells), range(len(name.cells)))
    yield Text("Mean [least, most] of the trials.")


def _bars(rows: Sequence[Row], main: str, width: int) -> list[str]:
    estimates = [row.metrics.get(main) for row in rows]
    largest = largest_shown([estimate for estimate in estimates if estimate])
    return [bar(estimate, largest, width) if estimate else "" for estimate in estimates]


def _most_recent(rows: Sequence[LiveRow], heights: Sequence[int], room: int) -> list[int]:
    """Which rows to show within `room` lines: those at work, then the latest, then those to come."""
    chosen: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: (not rows[i].active, -rows[i].last_trial, i)):
        if heights[i] > room and chosen:
            break
        chosen.append(i)
        room -= heights[i]
    return sorted(chosen)


def _style(row: Row) -> str:
    if isinstance(row, LiveRow) and row.active:
        return "bold"
    return "red" if row.stopped_by in UNMEASURED else ""
