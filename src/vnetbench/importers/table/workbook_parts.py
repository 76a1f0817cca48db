"""Copy the parts of a workbook into a zip without compression, and refuse a workbook that is too large.

The library that reads workbooks trusts the sizes that a zip states, and keeps an object for each XML tag of
the texts, the styles and a sheet.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import IO

from vnetbench.importers.zip_members import list_non_folder_members, open_zip, open_zip_member

MAX_UNPACKED_WORKBOOK_BYTES = 2**28
"""Limit for all parts of a workbook."""
MAX_WORKBOOK_PARTS = 10_000
MAX_WORKBOOK_TAGS = 1_000_000
"""Limit for the XML elements of a workbook: some 50,000 rows of ten columns."""
MAX_STYLE_TAGS = 200_000
"""Limit for the XML elements of a part that is not a sheet or its texts. Each takes more memory and time."""

MAX_BYTES_BETWEEN_TAGS_OF_SHEETS = 2**19
"""Limit from one tag to the next in sheets and texts. A cell has at most 32,767 characters."""
MAX_BYTES_BETWEEN_TAGS_OF_OTHER_PARTS = 2**14
"""Limit from one tag to the next in other parts. A search in a number format takes quadratic time."""

_CHUNK_BYTES = 2**16
_DOCUMENT_TYPE_PATTERN = re.compile(rb"<\0?!\0?D")
"""Start of a declaration of XML entities, also in UTF-16. No workbook has one, and it can multiply text."""
_PARTS_WITH_MANY_TAGS = ("xl/worksheets/", "xl/sharedstrings.xml")
_UNREAD_PARTS = (
    "xl/media/", "xl/drawings/", "xl/charts/", "xl/embeddings/", "docprops/thumbnail", "xl/vbaproject",
    "xl/printersettings/", "xl/activex/", "xl/externallinks/", "customxml/",
)  # fmt: skip
"""Pictures, programs and the like. No table needs them."""


class _PartTextChecker:
    """Looks at the bytes of a part one chunk after the other."""

    def __init__(self, name: str, max_bytes_between_tags: int) -> None:
        self._name = name[:80]
        self._limit = max_bytes_between_tags
        self._bytes_since_tag = 0
        self._end = b""

    def check(self, chunk: bytes) -> None:
        """Raise ValueError if the text between two tags is too long, or declares XML entities."""
        before_tag, *behind_tags = chunk.split(b"<")
        self._bytes_since_tag += len(before_tag)
        longest = max(self._bytes_since_tag, max(map(len, behind_tags), default=0))
        if behind_tags:
            self._bytes_since_tag = len(behind_tags[-1])
        if longest > self._limit:
            raise ValueError(f"{self._name} has a tag or text of more than {self._limit:,} bytes")
        text = self._end + chunk
        if _DOCUMENT_TYPE_PATTERN.search(text):
            raise ValueError(f"{self._name} declares XML entities, which no workbook does")
        self._end = text[-5:]


def copy_workbook_parts(workbook: IO[bytes], copy: IO[bytes]) -> None:
    """Copy the parts of a workbook. Their sizes in the copy are true.

    Raises:
        ValueError: The workbook has too many parts, bytes or tags, a text that is too long, or XML entities.
        zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError: It is damaged, or packed
            in a way that is not supported.
    """
    unpacked_bytes = tag_count = 0
    with open_zip(workbook) as source, zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as target:
        parts = {part.filename: part for part in list_non_folder_members(source)}
        if len(parts) > MAX_WORKBOOK_PARTS:
            raise ValueError(f"it has {len(parts)} parts; the limit is {MAX_WORKBOOK_PARTS}")
        for name, part in parts.items():
            if name.lower().startswith(_UNREAD_PARTS):
                continue
            has_many_tags = name.lower().startswith(_PARTS_WITH_MANY_TAGS)
            tag_limit = MAX_WORKBOOK_TAGS if has_many_tags else MAX_STYLE_TAGS
            tags_before = tag_count
            part_text = _PartTextChecker(
                name,
                MAX_BYTES_BETWEEN_TAGS_OF_SHEETS if has_many_tags else MAX_BYTES_BETWEEN_TAGS_OF_OTHER_PARTS,
            )
            with target.open(name, "w") as unpacked:
                for chunk in _iterate_chunks(source, part):
                    unpacked_bytes += len(chunk)
                    part_text.check(chunk)
                    # UTF-16 has these bytes too, so no element is left out.
                    tag_count += chunk.count(b"<") - chunk.count(b"</")
                    if unpacked_bytes > MAX_UNPACKED_WORKBOOK_BYTES:
                        raise ValueError(f"it unpacks to more than {MAX_UNPACKED_WORKBOOK_BYTES >> 20} MiB")
                    if tag_count > MAX_WORKBOOK_TAGS or tag_count - tags_before > tag_limit:
                        raise ValueError(f"{name[:80]} has more than {tag_limit:,} XML tags")
                    unpacked.write(chunk)


def _iterate_chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with open_zip_member(archive, member) as packed:
        while chunk := packed.read(_CHUNK_BYTES):
            yield chunk
