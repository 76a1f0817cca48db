"""Walk a log from the first line to the last. Return its runs, and everything that no reader recognizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.importers import json_documents, xml_documents
from vnetbench.importers.dates import RunDateTracker
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import DocumentReader, StartsRun, TextReader
from vnetbench.importers.runs import CUT_OFF, Run
from vnetbench.importers.tools import READERS

Readers = tuple[TextReader | DocumentReader, ...]

MAX_DOCUMENT_CHARACTERS = 32 * 2**20
"""Longest JSON or XML document. A parsed document takes about five times as much memory."""

_JSON_START = re.compile(r'\s*(?:\{\s*(?:["}]|$)|\[\s*(?:\{|$))')
"""`{`, `{"start": …` or `[{`; not `[  5]   0.00-1.00   sec`, and not prose in braces."""
_XML_START = re.compile(r"\s*<(?:\?xml\b|[A-Za-z_][^<>]*>\s*(?:<|$))")
"""`<?xml version="1.0"?>`, `<ntttcps>`."""

_RATE = re.compile(r"(?i)\b(?:[kmgt]?i?b(?:it|yte)?s?(?:/s(?:ec)?|ps)|throughput|trans(?:actions)?/s)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_MAX_LINE_LENGTH = 1000
"""Characters of an unrecognized line that are inspected."""

_INSIDE = {"json": re.compile(r'\s+(?:["{}\]]|\[\s*$)'), "xml": re.compile(r"\s+<[\w/]")}
"""Lines inside a document, such as `    "seconds": 1.0,`. They cannot start a run of text."""

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What a reader raises for a log that is not as its tool writes it."""


@dataclass(frozen=True)
class UnrecognizedSection:
    """A section of consecutive lines that no reader recognizes."""

    first_line: int
    last_line: int
    text: str
    """The first of the lines."""
    line_count: int = 1
    """Number of lines, blank ones excluded."""
    looks_like_result: bool = False
    """Whether one of the lines has a rate and other numbers, so it may be a result."""


@dataclass(frozen=True)
class UnreadableSection:
    """A section that a reader recognizes but cannot read, or a document that no reader recognizes."""

    first_line: int
    last_line: int
    reason: str


LogItem = Run | UnrecognizedSection | UnreadableSection


def parse_log(source: Iterable[str], readers: Readers = READERS) -> Iterator[LogItem]:
    """Yield the runs of a log, and the sections that cannot be read, in the order of the log.

    At most one run or document is in memory at a time.
    """
    pending: UnrecognizedSection | None = None
    dates = RunDateTracker()
    for item in _iterate_items(LogLines(source), readers, dates):
        if isinstance(item, UnrecognizedSection):
            pending = item if pending is None else _merge(pending, item)
            continue
        if pending is not None:
            yield pending
            pending = None
        start_time = dates.start_time(item.first_line)
        needs_date = isinstance(item, Run) and not item.started_at and start_time is not None
        yield replace(item, started_at=start_time) if isinstance(item, Run) and needs_date else item
    if pending is not None:
        yield pending


def _merge(before: UnrecognizedSection, after: UnrecognizedSection) -> UnrecognizedSection:
    return replace(
        before,
        last_line=after.last_line,
        line_count=before.line_count + after.line_count,
        looks_like_result=before.looks_like_result or after.looks_like_result,
    )


def _iterate_items(lines: LogLines, readers: Readers, dates: RunDateTracker) -> Iterator[LogItem]:
    text_readers = tuple(reader for reader in readers if isinstance(reader, TextReader))
    document_readers = tuple(reader for reader in readers if isinstance(reader, DocumentReader))

    def starts_run(lines: LogLines) -> bool:
        return any(reader.starts_run(lines) for reader in text_readers)

    while (line := lines.peek()) is not None:
        reader = next((reader for reader in text_readers if reader.starts_run(lines)), None)
        if reader is not None:
            yield from _read_text(lines, reader, starts_run)
        elif _JSON_START.match(line):
            document = _DocumentSection("json", document_readers, json_documents.JsonBuffer())
            yield from document.read(lines, starts_run)
        elif _XML_START.match(line):
            document = _DocumentSection("xml", document_readers, xml_documents.XmlBuffer())
            yield from document.read(lines, starts_run)
        elif line.strip():
            lines.take()
            if not dates.take_date_line(lines.number, line):
                yield _make_one_line_section(lines.number, line)
        else:
            lines.take()


def _make_one_line_section(line_number: int, line: str) -> UnrecognizedSection:
    text = line[:_MAX_LINE_LENGTH]
    looks_like_result = len(_NUMBER.findall(text)) > 2 and _RATE.search(text) is not None
    return UnrecognizedSection(line_number, line_number, text, looks_like_result=looks_like_result)


def _read_text(lines: LogLines, reader: TextReader, starts_run: StartsRun) -> Iterator[LogItem]:
    first_line, start, last_line = lines.number + 1, lines.peek(), lines.number + reader.max_lines
    lines.hide_after(last_line)
    try:
        for run in reader.read_runs(lines, starts_run):
            is_too_long = lines.number >= last_line and run.last_line >= last_line
            yield replace(run, failure=f"longer than {reader.max_lines} lines") if is_too_long else run
    except _MALFORMED as error:
        yield UnreadableSection(first_line, max(first_line, lines.number), _format_error(reader.tool, error))
    finally:
        lines.hide_after(None)
    if lines.number < first_line and lines.peek() is start:
        lines.take()  # Otherwise the parser would try the same line again for ever.


@dataclass
class _DocumentSection:
    """A document in a log, while the parser looks for its end."""

    document_format: str
    readers: tuple[DocumentReader, ...]
    buffer: json_documents.JsonBuffer | xml_documents.XmlBuffer

    def read(self, lines: LogLines, starts_run: StartsRun) -> Iterator[LogItem]:
        """Yield the document's runs. A line that is no document after all counts as unrecognized."""
        first_line, opening = lines.number + 1, lines.peek() or ""
        rest = self._feed(lines.take())
        is_indented = (lines.peek() or "")[:1].isspace()
        while rest is None:
            rest = self._feed_inner_lines(lines)
            if rest is not None or (line := lines.peek()) is None:
                break
            is_next_document = is_indented and line.startswith(opening[:1]) and not line.startswith("</")
            if is_next_document or starts_run(lines):
                break
            rest = self._feed(lines.take())
        yield from self._read_buffer(first_line, lines.number, opening, is_complete=rest is not None)
        if rest is not None and rest.strip(" ,"):
            lines.put_back(rest)

    def _feed_inner_lines(self, lines: LogLines) -> str | None:
        """Take the lines that are clearly inside. These are nearly all lines, so this path must be fast."""
        for line in lines.take_while(_INSIDE[self.document_format]):
            rest = self._feed(line)
            if rest is not None:
                return rest
        return None

    def _feed(self, line: str) -> str | None:
        rest = self.buffer.feed(line)
        if self.buffer.characters > MAX_DOCUMENT_CHARACTERS:
            self.buffer.discard_text()
        return rest

    def _read_buffer(
        self, first_line: int, last_line: int, opening: str, *, is_complete: bool
    ) -> Iterator[LogItem]:
        if self.buffer.characters > MAX_DOCUMENT_CHARACTERS:
            size, limit = self.buffer.characters / 2**20, MAX_DOCUMENT_CHARACTERS >> 20
            reason = f"the document is too large: {size:.0f} MiB, the limit is {limit} MiB"
            yield UnreadableSection(first_line, last_line, reason)
            return
        try:
            document = self.buffer.parse() if is_complete else self.buffer.parse_truncated()
        except ValueError as error:
            if first_line == last_line:
                yield _make_one_line_section(first_line, opening)
            else:
                reason = f"neither a complete document nor the output of a known tool ({error})"
                yield UnreadableSection(first_line, last_line, reason)
            return
        for item in self._read_document(document, first_line, last_line):
            if is_complete:
                yield item
            elif isinstance(item, Run):
                yield replace(item, failure=CUT_OFF)
            else:
                yield replace(item, reason=f"{CUT_OFF}; {item.reason}")

    def _read_document(
        self, document: Any, first_line: int, last_line: int
    ) -> Iterator[Run | UnreadableSection]:
        reader = next(
            (
                each
                for each in self.readers
                if each.document_format == self.document_format and each.matches(document)
            ),
            None,
        )
        if reader is not None:
            try:
                yield from reader.read_runs(document, first_line, last_line)
            except _MALFORMED as error:
                yield UnreadableSection(first_line, last_line, _format_error(reader.tool, error))
        elif isinstance(document, list) and document and all(isinstance(each, dict) for each in document):
            for each in document:
                yield from self._read_document(each, first_line, last_line)
        else:
            reason = f"a {self.document_format.upper()} document that is not from a supported tool"
            yield UnreadableSection(first_line, last_line, reason)


def _format_error(tool: str, error: Exception) -> str:
    return f"unexpected content for a log of {tool} ({type(error).__name__}: {str(error)[:200]})"
