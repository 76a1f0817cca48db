"""Find the columns of a table that a mapping names."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.importers.table.mapping import TableMapping
from vnetbench.importers.table.rows import CellValue, TableRow, cell_text
from vnetbench.study.problems import format_raw_value, suggest_fix


@dataclass(frozen=True)
class ColumnPositions:
    """The columns of a table by their titles."""

    table_name: str
    """The table's name in errors."""
    position_by_title: Map[str, int]
    """Positions from 0, by title."""

    @classmethod
    def from_header(cls, header: TableRow, table_name: str, mapping: TableMapping) -> ColumnPositions:
        """Return the columns from the header row.

        Raises BenchError if a mapped column is missing or occurs twice.
        """
        texts = [cell_text(cell) for cell in header.cells]
        for title in _mapped_titles(mapping):
            if texts.count(title) == 1:
                continue
            titles = [text for text in texts if text]
            problem = "the table has this column more than once" if title in texts else "is missing"
            raise BenchError(
                f"the column {format_raw_value(title)} {problem}",
                where=f"{table_name}, row {header.row_number}",
                fix=suggest_fix(title, titles, otherwise=f"the columns are {', '.join(titles[:40])}"),
            )
        return cls(table_name, {text: position for position, text in enumerate(texts)})

    def cell(self, row: TableRow, title: str) -> CellValue:
        """Return the cell of a row in a column; empty if the row ends before it."""
        position = self.position_by_title[title]
        return row.cells[position] if position < len(row.cells) else ""

    def cell_text(self, row: TableRow, title: str) -> str:
        """Return the same cell as text."""
        return cell_text(self.cell(row, title))

    def describe_cell_location(self, row: TableRow, title: str) -> str:
        """Return the location of a cell for errors: `results.csv, row 12, column "CPU %"`."""
        return f"{self.table_name}, row {row.row_number}, column {format_raw_value(title)}"


def _mapped_titles(mapping: TableMapping) -> Iterable[str]:
    yield from (each.title for each in mapping.factors)
    yield from (each.title for each in mapping.metrics)
    yield from mapping.skip_where
    yield from mapping.other_columns
    for each in (mapping.duration, mapping.started_at):
        if each is not None:
            yield each.title
