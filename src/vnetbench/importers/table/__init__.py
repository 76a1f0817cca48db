"""A table of results, each row a run: CSV, TSV or XLSX, and a mapping file that says what is in it."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.importers.decoding import ByteStream
from vnetbench.importers.runs import Run
from vnetbench.importers.table.cell_parsing import run_of
from vnetbench.importers.table.columns import Columns
from vnetbench.importers.table.mapping import Mapping, read_mapping
from vnetbench.importers.table.rows import is_table, rows_of

__all__ = ["Mapping", "is_table", "read_mapping", "read_table_runs"]


def read_table_runs(stream: ByteStream, name: str, mapping: Mapping) -> Iterator[Run]:
    """The runs of a table in its order, read row by row. `name` is what errors call the file.

    Raises a BenchError that names file, row and column, and the fix.
    """
    columns: Columns | None = None
    for row in rows_of(stream, name, mapping):
        if columns is None:
            columns = Columns.of(row, name, mapping)
        elif run := run_of(row, columns, mapping):
            yield run
