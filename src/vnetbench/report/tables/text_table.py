"""Columns drawn in a terminal: how wide each is, what fits, and never a figure cut off."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from vnetbench.printable import make_printable
from vnetbench.report.tables.columns import Column, TableRow
from vnetbench.study.model import FactorLevels
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

COLUMN_GAP = 2
_MIN_FOLDED_WIDTH = 12


@dataclass(frozen=True)
class TrimmedLines:
    """A rich renderable: another one, without the blanks that tables fill their lines up with."""

    body: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(console.render(self.body, options)):
            while line and not line[-1].control and not line[-1].text.rstrip():
                line.pop()
            if line:
                last = line.pop()
                yield from (*line, last if last.control else Segment(last.text.rstrip(), last.style))
            yield Segment.line()


def to_safe_text(text: str) -> Text:
    """The text as rich may draw it: its lines, and nothing that a terminal would obey."""
    return Text(make_printable(text, keep="\n"))


def column_width(column: Column) -> int:
    """Characters that the column needs."""
    return max(
        cell_len(line) for line in (*_header_lines(column), *(line for c in column.cells for line in c), " ")
    )


def columns_width(columns: Sequence[Column]) -> int:
    """Characters that the columns need side by side."""
    return sum(map(column_width, columns)) + COLUMN_GAP * (len(columns) - 1)


def fold_factors(rows: Sequence[TableRow], factors: Sequence[FactorLevels], width: int) -> Column:
    """One column in place of a column for each factor: treatments as phrases, wrapped at `width`."""
    names = factor_names(varying_factors(rows, factors))
    phrases = [treatment_phrase(row.factors, names) for row in rows]
    cells = tuple(tuple(textwrap.wrap(phrase, max(_MIN_FOLDED_WIDTH, width))) for phrase in phrases)
    return Column("treatment", "Treatment", "", cells, False)


def draw_table(columns: Sequence[Column], styles: Sequence[str], shown: Iterable[int]) -> Table:
    """The columns with the rows of the places `shown`, each in its style."""
    # The box itself sets columns one character apart.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, COLUMN_GAP - 1, 0, 0))
    for column in columns:
        table.add_column(
            Text("\n".join(_header_lines(column))),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            width=column_width(column),
        )
    for i in shown:
        table.add_row(*(to_safe_text("\n".join(c.cells[i])) for c in columns), style=styles[i])
    return table


def bullet_list(notes: Iterable[str]) -> Table:
    """Notes as a list with hanging indents."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for note in notes:
        table.add_row("·", to_safe_text(note))
    return table


def _header_lines(column: Column) -> list[str]:
    """The title, folded at its words to the width that the cells have anyway, and the unit below it."""
    cells = max((cell_len(line) for cell in column.cells for line in cell), default=0)
    longest_word = max(map(cell_len, column.title.split()), default=0)
    lines = textwrap.wrap(column.title, max(cells, longest_word, 1), break_on_hyphens=False)
    return [*lines, column.unit] if column.unit else lines
