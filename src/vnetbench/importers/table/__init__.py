"""Read tables of results in CSV, TSV or XLSX. Each row is a run. A mapping file describes the columns."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.importers.decoding import ByteStream
from vnetbench.importers.runs import Run
from vnetbench.importers.table.cell_parsing import build_run_unless_skipped
from vnetbench.importers.table.columns import ColumnPositions
from vnetbench.importers.table.mapping import TableMapping, read_table_mapping
from vnetbench.importers.table.rows import is_table_file_name, read_header_and_data_rows

__all__ = ["TableMapping", "is_table_file_name", "read_table_mapping", "read_table_runs"]


def read_table_runs(stream: ByteStream, name: str, mapping: TableMapping) -> Iterator[Run]:
    """Yield the runs of a table row by row. `name` is the file's name in errors.

    Raises:
        BenchError: Names the file, row and column, and the fix.
    """
    columns: ColumnPositions | None = None
    for row in read_header_and_data_rows(stream, name, mapping):
        if columns is None:
            columns = ColumnPositions.from_header(row, name, mapping)
        elif run := build_run_unless_skipped(row, columns, mapping):
            yield run
