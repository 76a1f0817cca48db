"""Make workbooks that state wrong sizes, or need far more memory or time than their size."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping

from openpyxl import Workbook

MIB = 2**20
BOMB_BYTES = 192 * MIB
_SHEET = "xl/worksheets/sheet1.xml"
_STRINGS = "xl/sharedStrings.xml"
_STYLES = "xl/styles.xml"
_TYPES = "[Content_Types].xml"
_STRINGS_TYPE = (
    b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/'
    b'vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/>'
)
_MAIN = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def make_workbook(
    replaced_parts: Mapping[str, bytes],
    compression: int = zipfile.ZIP_DEFLATED,
    stated_size: int | None = None,
) -> bytes:
    """Return a workbook of which some parts are replaced; `stated_size` is what the zip says about them."""
    workbook, plain = Workbook(), io.BytesIO()
    workbook.active.append(["streams", "rate"])
    workbook.active.append([1, 940])
    workbook.save(plain)
    out = io.BytesIO()
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(out, "w", compression, compresslevel=1) as target:
        parts = {part.filename: source.read(part) for part in source.infolist()} | dict(replaced_parts)
        if _STRINGS in parts:
            parts[_TYPES] = parts[_TYPES].replace(b"</Types>", _STRINGS_TYPE + b"</Types>")
        for name, content in parts.items():
            target.writestr(name, content)
        for part in target.infolist():
            if part.filename in replaced_parts and stated_size is not None:
                part.file_size = stated_size
    return out.getvalue()


def make_sheet(rows: bytes, dimension: bytes = b"") -> bytes:
    """Return a sheet with these rows, and with the dimension that it states."""
    stated = b"<dimension ref='%s'/>" % dimension if dimension else b""
    return b"<worksheet %s>%s<sheetData>%s</sheetData></worksheet>" % (_MAIN, stated, rows)


def make_tags(part: str, begin: bytes, repeated: bytes, end: bytes, count: int = 2_000_000) -> bytes:
    """Return a workbook of which a part repeats a tag."""
    return make_workbook({part: begin + repeated * count + end})


def _entity(text: bytes) -> bytes:
    """Return the declaration of the XML entity `&a;`."""
    return b'<!DOCTYPE x [<!ENTITY a "%s">]>' % text


_TITLES = (
    b"<row r='1'><c t='inlineStr'><is><t>streams</t></is></c><c t='inlineStr'><is><t>rate</t></is></c></row>"
)

TEST_WORKBOOKS: Mapping[str, Callable[[], bytes]] = {
    "stated size too small": lambda: make_workbook({_SHEET: b" " * BOMB_BYTES}, stated_size=5),
    "stated size too large": lambda: make_workbook({_SHEET: make_sheet(b"")}, stated_size=2**31),
    "true size": lambda: make_workbook({_STRINGS: b" " * 2 * BOMB_BYTES}),
    "bzip2": lambda: make_workbook({_STRINGS: b" " * BOMB_BYTES}, zipfile.ZIP_BZIP2, 5),
    "LZMA": lambda: make_workbook({_STRINGS: b" " * BOMB_BYTES}, zipfile.ZIP_LZMA, 5),
    "row number": lambda: make_workbook({_SHEET: make_sheet(_TITLES + b"<row r='1000000000000'/>")}),
    "negative row number": lambda: make_workbook(
        {_SHEET: make_sheet(_TITLES + b"<row r='-1000000000000'/>")}
    ),
    "stated dimension": lambda: make_workbook(
        {_SHEET: make_sheet(_TITLES + b"<row/>" * 100_000, b"A1:XFD1048576")}
    ),
    "rows": lambda: make_tags(
        _SHEET, b"<worksheet %s><sheetData>" % _MAIN, b"<row/>", b"</sheetData></worksheet>"
    ),
    "cells of a row": lambda: make_tags(
        _SHEET, b"<worksheet %s><sheetData><row>" % _MAIN, b"<c/>", b"</row></sheetData></worksheet>", 300_000
    ),
    "unknown tags": lambda: make_tags(_SHEET, b"<worksheet %s>" % _MAIN, b"<a/>", b"</worksheet>"),
    "texts": lambda: make_tags(_STRINGS, b"<sst %s>" % _MAIN, b"<si/>", b"</sst>"),
    "styles": lambda: make_tags(
        _STYLES, b"<styleSheet %s><fonts>" % _MAIN, b"<font/>", b"</fonts></styleSheet>"
    ),
    "parts": lambda: make_many_parts(),
    "entities of texts": lambda: make_workbook(
        {_STRINGS: _entity(b"x" * 4 * MIB) + b"<sst %s><si><t>%s</t></si></sst>" % (_MAIN, b"&a;" * 90)}
        | {_SHEET: make_sheet(_TITLES + b"<row r='2'><c t='s'><v>0</v></c></row>")}
    ),
    "entities of rows, in UTF-16": lambda: make_workbook(
        {_SHEET: (_entity(b"<row/>" * 100_000) + make_sheet(_TITLES + b"&a;" * 99)).decode().encode("utf-16")}
    ),
    "cells that refer to one long text": lambda: make_workbook(
        {_STRINGS: b"<sst %s><si><t xml:space='preserve'> %s </t></si></sst>" % (_MAIN, b"x" * 500_000)}
        | {_SHEET: make_sheet(_TITLES + b"<row r='2'>%s</row>" % (b"<c t='s'><v>0</v></c>" * 990))}
    ),
    "a number format that is searched in quadratic time": lambda: make_workbook(
        {
            _STYLES: b"<styleSheet %s><numFmts><numFmt numFmtId='200' formatCode='%s'/></numFmts><cellXfs>"
            b"<xf numFmtId='200'/></cellXfs></styleSheet>" % (_MAIN, b"[" * 1_000_000)
        }
    ),
}


def make_many_parts() -> bytes:
    """Return a workbook with very many parts."""
    out = io.BytesIO(make_workbook({}))
    with zipfile.ZipFile(out, "a") as archive:
        for number in range(12_000):
            archive.writestr(f"xl/part{number}.xml", b"")
    return out.getvalue()
