"""Read the rows of CSV, TSV and XLSX files one by one."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from vnetbench.errors import BenchError
from vnetbench.importers.decoding import ByteStream, decode_lines
from vnetbench.importers.table.mapping import TableMapping
from vnetbench.importers.table.workbook_parts import copy_workbook_parts

CellValue = str | float | datetime
"""A workbook has numbers and times of its own. A blank cell is an empty text."""

MAX_COLUMNS = 1000
MAX_WORKBOOK_ROWS = 2**20
"""Rows of a sheet. Excel has the same limit."""
MAX_CELL_CHARACTERS = 2**15
"""Length of a text in a workbook. Excel's limit is one less. Many cells can refer to one text."""

_SPOOL_TO_DISK_ABOVE_BYTES, _CHUNK_BYTES = 2**24, 2**16
_WORKBOOK_ERRORS = (
    OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, SyntaxError,
    ValueError, TypeError, LookupError, AttributeError,
)  # fmt: skip
"""Exceptions from reading a damaged, encrypted or invalid workbook."""
_TABLE_FILE_SUFFIXES = (".csv", ".tsv", ".xlsx")
_COLUMN_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class TableRow:
    """One row, numbered from 1 as in editors and spreadsheets."""

    row_number: int
    cells: tuple[CellValue, ...]


def is_table_file_name(name: str) -> bool:
    """Return whether the file name is that of a table."""
    return name.lower().endswith(_TABLE_FILE_SUFFIXES)


def read_header_and_data_rows(
    stream: ByteStream, table_name: str, mapping: TableMapping
) -> Iterator[TableRow]:
    """Yield the header row and all rows below it that are not blank.

    Raises BenchError if there is no table.
    """
    is_workbook = table_name.lower().endswith(".xlsx")
    rows = (
        _read_workbook_rows(stream, table_name, mapping)
        if is_workbook
        else _read_text_rows(stream, table_name, mapping)
    )
    is_empty = True
    for row in rows:
        _check_column_count(len(row.cells), table_name, row.row_number)
        if row.row_number >= mapping.header and any(cell != "" for cell in row.cells):
            is_empty = False
            yield row
    if is_empty:
        fix = (
            f"set header in {mapping.mapping_file_name} to the number of the row with the column titles, not "
            f"{mapping.header}"
        )
        raise BenchError("the table has no header row", where=table_name, fix=fix)


def _check_column_count(count: int, table_name: str, row_number: int) -> None:
    if count > MAX_COLUMNS:
        fix = f"remove columns until the table has at most {MAX_COLUMNS}"
        raise BenchError(f"the row has {count} columns", where=f"{table_name}, row {row_number}", fix=fix)


def _read_text_rows(stream: ByteStream, name: str, mapping: TableMapping) -> Iterator[TableRow]:
    lines = decode_lines(stream)
    head = [line for _, line in zip(range(mapping.header), lines, strict=False)]
    titles = head[-1] if len(head) == mapping.header else ""
    separator = mapping.separator or max(_COLUMN_SEPARATORS, key=titles.count)
    reader = csv.reader(_prepend_line(titles, lines), delimiter=separator)
    try:
        for cells in reader:
            yield TableRow(mapping.header - 1 + reader.line_num, tuple(cell.strip() for cell in cells))
    except csv.Error as error:
        fix = "look for an unclosed quote"
        at = mapping.header - 1 + reader.line_num
        raise BenchError(f"cannot parse the table: {error}", where=f"{name}, row {at}", fix=fix) from error


def _prepend_line(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _read_workbook_rows(stream: ByteStream, name: str, mapping: TableMapping) -> Iterator[TableRow]:
    # The list of parts is at the end of a workbook, and not every stream can seek there.
    with (
        SpooledTemporaryFile(_SPOOL_TO_DISK_ABOVE_BYTES) as packed,
        SpooledTemporaryFile(_SPOOL_TO_DISK_ABOVE_BYTES) as unpacked,
    ):
        while chunk := stream.read(_CHUNK_BYTES):
            packed.write(chunk)
        try:
            copy_workbook_parts(packed, unpacked)
            packed.truncate(0)
            unpacked.seek(0)
            yield from _read_seekable_workbook_rows(cast(BinaryIO, unpacked), name, mapping)
        except _WORKBOOK_ERRORS as error:
            what = f"cannot read the file as a workbook ({str(error)[:200]})"
            fix = "save the workbook again as XLSX, or its sheet as CSV"
            raise BenchError(what, where=name, fix=fix) from error


def _read_seekable_workbook_rows(stream: BinaryIO, name: str, mapping: TableMapping) -> Iterator[TableRow]:
    from openpyxl import (
        load_workbook,  # Loading it doubles the start time of a command, and few commands need it.
    )

    with closing(load_workbook(stream, read_only=True, data_only=True, keep_links=False)) as book:
        sheets = book.sheetnames
        if mapping.sheet is not None and mapping.sheet not in sheets:
            fix = (
                f"set the key sheet of {mapping.mapping_file_name} to one of these names: {', '.join(sheets)}"
            )
            raise BenchError(f'the workbook has no sheet "{mapping.sheet}"', where=name, fix=fix)
        sheet = book[mapping.sheet or sheets[0]]
        sheet.reset_dimensions()  # Else every row would be filled to the size that the sheet states.
        rows = sheet.iter_rows(values_only=True, max_row=MAX_WORKBOOK_ROWS + 1)
        for number, cells in enumerate(rows, 1):
            if number > MAX_WORKBOOK_ROWS:
                what = f"the sheet has rows beyond row {MAX_WORKBOOK_ROWS:,}"
                raise BenchError(what, where=name, fix="remove these rows, or save the sheet as CSV")
            filled = _drop_trailing_blank_cells(list(cells))
            _check_column_count(len(filled), name, number)  # each cell may become a copy of a long text
            yield TableRow(number, tuple(_to_cell_value(value) for value in filled))


def _drop_trailing_blank_cells(cells: list[object]) -> list[object]:
    """Remove blank cells at the end. In a workbook all rows are as long as the longest one."""
    while cells and _to_cell_value(cells[-1]) == "":
        cells.pop()
    return cells


def cell_text(cell: CellValue) -> str:
    """Return a cell as text. A number has its shortest form, with a decimal point."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2.0**53:
        return str(int(cell))
    return str(cell)


def _to_cell_value(value: object) -> CellValue:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = "" if value is None else str(value)
    if len(text) > MAX_CELL_CHARACTERS:
        raise ValueError(f"a cell has {len(text):,} characters; the limit is {MAX_CELL_CHARACTERS:,}")
    return text.strip()
