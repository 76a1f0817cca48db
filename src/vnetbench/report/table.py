"""Estimates in a terminal: a table that fits its width and height, live and at the end."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.bars import bar, largest_shown
from vnetbench.report.columns import (
    MAIN_METRIC,
    UNMEASURED,
    Column,
    Row,
    factor_columns,
    metric_columns,
    stopped_column,
    trials_column,
    varying_factors,
)
from vnetbench.report.labels import names_of, treatment_phrase
from vnetbench.report.notes import legend, notes
from vnetbench.study.model import FactorLevels, Level

_GAP = 2
_BAR_WIDTHS = (18, 40)
"""Narrowest and widest bar in a column; where the narrowest does not fit the bars stand below the table."""
_BEFORE_THE_BAR = 3
"""So many columns beside factors, goodput and trials are more useful than the bar."""
_NARROWEST_FOLD = 12
_LINES_AROUND = 8
"""Lines of the terminal that a live table leaves to its own headings and to what is shown below it."""


@dataclass(frozen=True)
class LiveRow:
    """One treatment while its campaign runs."""

    factors: Mapping[str, Level]
    trials: int = 0
    stopped_by: str = "running"
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
    legend: str
    notes: tuple[str, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, bar_width = _fitting(self.rows, self.factors, options.max_width)
        yield _drawn(columns, self.rows, range(len(self.rows)), bar_width)
        yield Text("")
        if not bar_width:
            yield from _bar_block(self.rows, self.factors, options.max_width)
        listed = Table.grid(padding=(0, 1, 0, 0))
        for note in self.notes:
            listed.add_row("·", Text(printable(note)))
        yield Text(self.legend)
        yield listed


@dataclass(frozen=True)
class LiveTable:
    """A rich renderable of a running campaign that fits the terminal's height."""

    rows: Sequence[LiveRow]
    factors: Sequence[FactorLevels]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # From all rows, so that neither columns nor units change as rows come and go.
        mark = Column("active", "", "", tuple(("▶" if row.active else " ",) for row in self.rows), False)
        columns, bar_width = _fitting(self.rows, self.factors, options.max_width - _width(mark) - _GAP)
        heights = [max(len(column.cells[i]) for column in columns) for i in range(len(self.rows))]
        shown = _most_recent(self.rows, heights, options.size.height - _LINES_AROUND)
        yield _drawn([mark, *columns], self.rows, shown, bar_width)
        if hidden := [row for i, row in enumerate(self.rows) if i not in shown]:
            states = Counter(
                row.stopped_by if row.trials or row.stopped_by != "running" else "waiting" for row in hidden
            )
            listed = ", ".join(f"{count} {state}" for state, count in states.items())
            yield Text(f"and {len(hidden)} more: {listed}", no_wrap=True)


def estimates_table(summary: CampaignSummary) -> EstimatesTable:
    """The final table: treatments by what varies, their estimates, why they stopped; bars and notes below."""
    return EstimatesTable(summary.treatments, summary.factors, legend(summary), notes(summary))


def live_table(rows: Sequence[LiveRow], factors: Sequence[FactorLevels]) -> LiveTable:
    """The same columns while a campaign runs; `▶` marks the trial in progress."""
    return LiveTable(rows, factors)


def printable(text: str) -> str:
    """The text without characters that a terminal would obey: a study's title may hold anything."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _fitting(rows: Sequence[Row], factors: Sequence[FactorLevels], width: int) -> tuple[list[Column], int]:
    """The columns that fit, in the order shown, and the width of the bar beside goodput (0: no room).

    Factors, goodput and trials always stay: where they don't fit, the factors fold into one column.
    """
    goodput, *metrics = metric_columns(rows)
    chosen = [goodput, trials_column(rows)]
    head = factor_columns(rows, factors)
    if not head or _total([*head, *chosen]) > width:
        head = [_folded(rows, factors, width - _total(chosen) - _GAP)]
    left = width - _total([*head, *chosen])
    bar_width = 0
    for place, column in enumerate([stopped_column(rows), *metrics]):
        if place == _BEFORE_THE_BAR and left >= _BAR_WIDTHS[0] + _GAP:
            bar_width = _BAR_WIDTHS[0]
            left -= bar_width + _GAP
        if left >= _width(column) + _GAP:
            chosen.append(column)
            left -= _width(column) + _GAP
    return [*head, *chosen], min(_BAR_WIDTHS[1], bar_width + left) if bar_width else 0


def _drawn(columns: Sequence[Column], rows: Sequence[Row], shown: Sequence[int], bar_width: int) -> Table:
    # The box itself sets columns one character apart.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    bars = _bars(rows, bar_width)
    for column in columns:
        table.add_column(
            Text("\n".join(_header(column))),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            width=_width(column),
        )
        if bar_width and column.key == MAIN_METRIC:
            table.add_column("", no_wrap=True, width=bar_width)
    for i in shown:
        cells: list[Text] = []
        for column in columns:
            cells.append(Text(printable("\n".join(column.cells[i]))))
            if bar_width and column.key == MAIN_METRIC:
                cells.append(Text(bars[i], style="cyan"))
        table.add_row(*cells, style=_style(rows[i]))
    return table


def _bar_block(rows: Sequence[Row], factors: Sequence[FactorLevels], width: int) -> Iterator[Text]:
    """The bars on lines of their own, each behind its treatment."""
    names = names_of(varying_factors(rows, factors))
    labels = [printable(treatment_phrase(row.factors, names)) for row in rows]
    label_width = max(map(cell_len, labels), default=0)
    bar_width = width - label_width - _GAP
    if bar_width < _BAR_WIDTHS[0]:
        return
    bars = [(label, drawn) for label, drawn in zip(labels, _bars(rows, bar_width), strict=True) if drawn]
    for label, drawn in bars:
        yield Text(label + " " * (label_width - cell_len(label) + _GAP)).append(drawn, style="cyan")
    if bars:
        yield Text("")


def _bars(rows: Sequence[Row], width: int) -> list[str]:
    estimates = [row.metrics.get(MAIN_METRIC) for row in rows]
    largest = largest_shown([estimate for estimate in estimates if estimate])
    return [bar(estimate, largest, width) if estimate else "" for estimate in estimates]


def _folded(rows: Sequence[Row], factors: Sequence[FactorLevels], width: int) -> Column:
    names = names_of(varying_factors(rows, factors))
    cells = [
        tuple(textwrap.wrap(treatment_phrase(row.factors, names), max(_NARROWEST_FOLD, width)))
        for row in rows
    ]
    return Column("treatment", "Treatment", "", tuple(cells), False)


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


def _header(column: Column) -> list[str]:
    """The title, folded at its words to the width that the cells have anyway, and the unit below it."""
    cells = max((cell_len(line) for cell in column.cells for line in cell), default=0)
    longest_word = max(map(cell_len, column.title.split()), default=0)
    lines = textwrap.wrap(column.title, max(cells, longest_word, 1), break_on_hyphens=False)
    return [*lines, column.unit] if column.unit else lines


def _width(column: Column) -> int:
    return max(
        cell_len(line) for line in (*_header(column), *(line for cell in column.cells for line in cell), " ")
    )


def _total(columns: Sequence[Column]) -> int:
    return sum(map(_width, columns)) + _GAP * (len(columns) - 1)
