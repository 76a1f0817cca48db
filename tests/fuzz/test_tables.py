"""Fuzz the readers of CSV, TSV and XLSX: each table is imported or refused, within bounds."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.foreign_files import apply_edits, check_import, corpus_files, edits
from tests.importers.hostile_workbooks import make_workbook

pytestmark = pytest.mark.pure

_WORKBOOK = make_workbook({})
_PARTS = tuple(zipfile.ZipFile(io.BytesIO(_WORKBOOK)).namelist())
_TEXT = 'streams;rate\n1;940,5\n2;"1,880"\n4;3.760\n'


@pytest.mark.parametrize("path", corpus_files("tables"), ids=lambda path: path.name)
def test_a_kept_table_is_imported_or_refused(path: Path) -> None:
    check_import(path)


@given(edits(), st.sampled_from((".csv", ".tsv")), st.sampled_from(("utf-8", "utf-16", "cp1251")))
def test_any_text_table_is_imported_or_refused(
    changes: list[tuple[int, int, bytes]], suffix: str, encoding: str
) -> None:
    _check(apply_edits(_TEXT.encode(encoding), changes), suffix)


@given(st.sampled_from(_PARTS), edits())
def test_a_workbook_with_any_part_is_imported_or_refused(
    part: str, changes: list[tuple[int, int, bytes]]
) -> None:
    with zipfile.ZipFile(io.BytesIO(_WORKBOOK)) as archive:
        content = archive.read(part)
    _check(make_workbook({part: apply_edits(content, changes)}), ".xlsx")


@given(edits())
def test_any_bytes_of_a_workbook_are_imported_or_refused(changes: list[tuple[int, int, bytes]]) -> None:
    _check(apply_edits(_WORKBOOK, changes), ".xlsx")


def _check(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table{suffix}"
        path.write_bytes(content)
        check_import(path)
