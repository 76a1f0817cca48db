"""Read files that others wrote as text, with limits and in the encodings that tools write."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.regular_file import read_bounded

MAX_FILE_BYTES = 32 * 2**20
MAX_JSON_VALUES = 4_000_000
"""Most values of a JSON document: each takes up to 60 bytes when it is parsed."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_VMX_ENCODING = re.compile(rb'^\.encoding\s*=\s*"([\w.-]{1,40})"', re.MULTILINE | re.IGNORECASE)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        BenchError: The file cannot be read, is too large, or is no text.
    """
    try:
        content = read_bounded(path, MAX_FILE_BYTES)
    except OSError as error:
        raise BenchError(
            f"cannot read the file: {error.strerror}",
            where=str(path),
            fix="check its name and its permissions",
        ) from None
    return decode_text(content, str(path))


def decode_text(content: bytes, where: str) -> str:
    """Return the text of a file's bytes, by its byte order mark, its `.encoding` line, or as UTF-8."""
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            return content[len(bom) :].decode(encoding, errors="replace")
    if b"\0" in content:
        raise BenchError(
            "the file is binary",
            where=where,
            fix="give a .vmx file, a domain XML, a qm config or an export as JSON",
        )
    named = _VMX_ENCODING.search(content[:65536])
    for encoding in (named[1].decode() if named else "utf-8", "utf-8"):
        try:
            if codecs.lookup(encoding)._is_text_encoding:
                return content.decode(encoding)
        except (LookupError, UnicodeError):
            continue
    return content.decode("latin-1")


def parse_json(text: str, where: str) -> Any:
    """Return a JSON document.

    Raises:
        BenchError: The document is invalid, cut off, or has too many values.
    """
    if text.count(",") + text.count("[") + text.count("{") > MAX_JSON_VALUES:
        raise BenchError("the document has too many values", where=where, fix="export fewer objects")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BenchError(
            "this is no complete JSON document",
            where=where,
            fix="export it again, and wait until the tool ends",
        ) from None
