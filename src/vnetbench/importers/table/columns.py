"""Where the columns that a mapping names stand in a table."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.importers.table.mapping import Mapping
from vnetbench.importers.table.rows import Cell, Row, text_of
from vnetbench.study.problems import format_raw_value, suggest


@dataclass(frozen=True)
class Columns:
    """The table's columns by their titles."""

    name: str
    """Of the table, as errors call it."""
    places: Map[str, int]
    """From 0, by title."""

    @classmethod
    def of(cls, titles: Row, name: str, mapping: Mapping) -> Columns:
        """From the row of titles; raises a BenchError where one that is named is missing, or stands twice."""
        texts = [text_of(cell) for cell in titles.cells]
        for wanted in _named(mapping):
            if texts.count(wanted) == 1:
                continue
            known = [text for text in texts if text]
            what = "stands more than once" if wanted in texts else "is not there"
            raise BenchError(
                f"the column {format_raw_value(wanted)} {what}",
                where=f"{name}, row {titles.number}",
                fix=suggest(wanted, known, otherwise=f"{mapping.name} can name: {', '.join(known[:40])}"),
            )
        return cls(name, {text: place for place, text in enumerate(texts)})

    def cell(self, row: Row, column: str) -> Cell:
        """The cell of a row in a column; empty where the row ends before it."""
        place = self.places[column]
        return row.cells[place] if place < len(row.cells) else ""

    def text(self, row: Row, column: str) -> str:
        """The same as text."""
        return text_of(self.cell(row, column))

    def where(self, row: Row, column: str) -> str:
        """How an error calls a cell: `results.csv, row 12, column "CPU %"`."""
        return f"{self.name}, row {row.number}, column {format_raw_value(column)}"


def _named(mapping: Mapping) -> Iterable[str]:
    yield from (each.column for each in mapping.factors)
    yield from (each.column for each in mapping.metrics)
    yield from mapping.skip_where
    yield from mapping.also
    for each in (mapping.duration, mapping.started_at):
        if each is not None:
            yield each.column
