"""Tables in a terminal: column widths, which columns fit, and cells that are never cut off."""

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
from vnetbench.report.tables.columns import Column, TreatmentRow
from vnetbench.study.model import FactorLevels
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

COLUMN_GAP_CHARACTERS = 2
_MIN_FOLDED_COLUMN_WIDTH = 12


@dataclass(frozen=True)
class TrimmedLines:
    """A rich renderable that removes the trailing spaces of another one."""

    body: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(console.render(self.body, options)):
            while line and not line[-1].control and not line[-1].text.rstrip():
                line.pop()
            if line:
                last = line.pop()
                yield from (*line, last if last.control else Segment(last.text.rstrip(), last.style))
            yield Segment.line()


def to_printable_text(text: str) -> Text:
    """Return the text without control sequences; line breaks stay."""
    return Text(make_printable(text, keep="\n"))


def column_width(column: Column) -> int:
    """Return the number of characters that the column needs."""
    cell_lines = (line for cell in column.cells for line in cell)
    return max(cell_len(line) for line in (*_header_lines(column), *cell_lines, " "))


def columns_width(columns: Sequence[Column]) -> int:
    """Return the number of characters that the columns need side by side."""
    return sum(map(column_width, columns)) + COLUMN_GAP_CHARACTERS * (len(columns) - 1)


def fold_factors_into_one_column(
    rows: Sequence[TreatmentRow], factors: Sequence[FactorLevels], width: int
) -> Column:
    """Return one column with a wrapped phrase per treatment instead of a column per factor."""
    names = factor_names(varying_factors(rows, factors))
    phrases = [treatment_phrase(row.factors, names) for row in rows]
    cells = tuple(tuple(textwrap.wrap(phrase, max(_MIN_FOLDED_COLUMN_WIDTH, width))) for phrase in phrases)
    return Column("treatment", "Treatment", "", cells, False)


def draw_table(columns: Sequence[Column], styles: Sequence[str], row_indices: Iterable[int]) -> Table:
    """Return a table of the rows with these indices, each row in its style."""
    # The box adds one more character between columns.
    padding = (0, COLUMN_GAP_CHARACTERS - 1, 0, 0)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding)
    for column in columns:
        table.add_column(
            Text("\n".join(_header_lines(column))),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            width=column_width(column),
        )
    for i in row_indices:
        table.add_row(*(to_printable_text("\n".join(column.cells[i])) for column in columns), style=styles[i])
    return table


def bullet_list(items: Iterable[str]) -> Table:
    """Return a list with hanging indents."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for item in items:
        table.add_row("·", to_printable_text(item))
    return table


def _header_lines(column: Column) -> list[str]:
    """Return the title, wrapped to the width of the cells, and the unit below it."""
    cells_width = max((cell_len(line) for cell in column.cells for line in cell), default=0)
    longest_word = max(map(cell_len, column.title.split()), default=0)
    lines = textwrap.wrap(column.title, max(cells_width, longest_word, 1), break_on_hyphens=False)
    return [*lines, column.unit] if column.unit else lines
