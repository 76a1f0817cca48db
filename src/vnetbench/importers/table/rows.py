"""The rows of CSV, TSV and XLSX files as numbered cells, read one after the other."""

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
from vnetbench.importers.table.mapping import Mapping

Cell = str | float | datetime
"""Numbers and times are those that a workbook knows as such; a blank cell is an empty text."""

MAX_COLUMNS = 1000
MAX_UNPACKED = 2**28
"""Bytes of a workbook's parts: it keeps all of its texts in memory, and a small file can hold large ones."""

_IN_MEMORY, _PIECE = 2**24, 2**16
_DAMAGED = (
    OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, SyntaxError,
    ValueError, TypeError, LookupError, AttributeError,
)  # fmt: skip
"""What reading a workbook raises that is damaged, encrypted, or none."""
_SUFFIXES = (".csv", ".tsv", ".xlsx")
_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class Row:
    """One row, with its number from 1 as editors and spreadsheets count."""

    number: int
    cells: tuple[Cell, ...]


def is_table(name: str) -> bool:
    """Whether a file's name is one of a table."""
    return name.lower().endswith(_SUFFIXES)


def rows_of(stream: ByteStream, name: str, mapping: Mapping) -> Iterator[Row]:
    """The row of titles, and all that follow and are not blank; raises a BenchError for no table."""
    is_workbook = name.lower().endswith(".xlsx")
    rows = _of_workbook(stream, name, mapping) if is_workbook else _of_text(stream, name, mapping)
    is_empty = True
    for row in rows:
        if len(row.cells) > MAX_COLUMNS:
            fix = f"leave out columns: {MAX_COLUMNS} are the most"
            raise BenchError(f"{len(row.cells)} columns", where=f"{name}, row {row.number}", fix=fix)
        if row.number >= mapping.header and any(cell != "" for cell in row.cells):
            is_empty = False
            yield row
    if is_empty:
        fix = f"header = {mapping.header} in {mapping.name} says which row has the titles"
        raise BenchError("there is no row of titles", where=name, fix=fix)


def _of_text(stream: ByteStream, name: str, mapping: Mapping) -> Iterator[Row]:
    lines = decode_lines(stream)
    before = [line for _, line in zip(range(mapping.header), lines, strict=False)]
    titles = before[-1] if len(before) == mapping.header else ""
    separator = mapping.separator or max(_SEPARATORS, key=titles.count)
    reader = csv.reader(_chained(titles, lines), delimiter=separator)
    try:
        for cells in reader:
            yield Row(mapping.header - 1 + reader.line_num, tuple(cell.strip() for cell in cells))
    except csv.Error as error:
        fix = "look for a quote that is not closed"
        at = mapping.header - 1 + reader.line_num
        raise BenchError(f"no table: {error}", where=f"{name}, row {at}", fix=fix) from error


def _chained(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _of_workbook(stream: ByteStream, name: str, mapping: Mapping) -> Iterator[Row]:
    # A workbook's list of parts is at its end, and not every stream can be read from there.
    with SpooledTemporaryFile(_IN_MEMORY) as whole:
        while piece := stream.read(_PIECE):
            whole.write(piece)
        try:
            yield from _of_whole(cast(BinaryIO, whole), name, mapping)
        except _DAMAGED as error:
            what = f"no workbook, or a damaged one: {str(error)[:200]}"
            raise BenchError(what, where=name, fix="save it as XLSX again, or as CSV") from error


def _of_whole(stream: BinaryIO, name: str, mapping: Mapping) -> Iterator[Row]:
    from openpyxl import load_workbook  # as slow to load as the rest of a command, which seldom needs it

    with zipfile.ZipFile(stream) as parts:
        unpacked = sum(part.file_size for part in parts.infolist())
    if unpacked > MAX_UNPACKED:
        what = f"{unpacked >> 20} MiB unpacked, and {MAX_UNPACKED >> 20} are the most"
        raise BenchError(what, where=name, fix="save the sheet as CSV")
    stream.seek(0)
    with closing(load_workbook(stream, read_only=True, data_only=True, keep_links=False)) as book:
        sheets = book.sheetnames
        if mapping.sheet is not None and mapping.sheet not in sheets:
            fix = f"sheet in {mapping.name} can be one of {', '.join(sheets)}"
            raise BenchError(f'there is no sheet "{mapping.sheet}"', where=name, fix=fix)
        sheet = book[mapping.sheet or sheets[0]]
        for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
            yield Row(number, _trimmed([_cell(value) for value in cells]))


def _trimmed(cells: list[Cell]) -> tuple[Cell, ...]:
    """Without the blank cells at the end: a workbook has as many in all rows as in its longest."""
    while cells and cells[-1] == "":
        cells.pop()
    return tuple(cells)


def text_of(cell: Cell) -> str:
    """A cell as text: a number in its shortest form, with a point."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2.0**53:
        return str(int(cell))
    return str(cell)


def _cell(value: object) -> Cell:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return "" if value is None else str(value).strip()
