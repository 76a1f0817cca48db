"""Walk a log from the first line to the last. Return its runs, and everything that no reader recognizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.importers import json_documents, xml_documents
from vnetbench.importers.dates import DateLinesBeforeRun
from vnetbench.importers.json_documents import MAX_DOCUMENT_CHARACTERS
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import DocumentReader, StartsRun, TextReader
from vnetbench.importers.runs import CUT_OFF_FAILURE, Run
from vnetbench.importers.tools import READERS

LogReaders = tuple[TextReader | DocumentReader, ...]

MAX_DOCUMENT_VALUES = {"json": json_documents.MAX_JSON_VALUES, "xml": xml_documents.MAX_XML_VALUES}
"""Most values of a document, by its format."""
MAX_DOCUMENTS_ON_LINE = 100
"""Most documents on one line. After each, the rest of the line is looked at again, which takes time."""

_JSON_START_PATTERN = re.compile(r'\s*(?:\{\s*(?:["}]|$)|\[\s*(?:\{|$))')
"""`{`, `{"start": …` or `[{`; not `[  5]   0.00-1.00   sec`, and not prose in braces."""
_XML_START_PATTERN = re.compile(r"\s*<(?:\?xml\b|[A-Za-z_][^<>]*>\s*(?:<|$))")
"""`<?xml version="1.0"?>`, `<ntttcps>`."""

_RATE_UNIT_PATTERN = re.compile(
    r"(?i)(?:\b|(?<=\d))(?:"
    r"(?:[kmgt]|kilo|mega|giga|tera)?i?b(?:it|yte)?s?(?:\s?(?:/|per )\s?s(?:ec(?:ond)?)?|ps)"
    r"|(?:trans(?:actions)?|req(?:uest)?s?|msgs?|messages|packets|pkts)\s?(?:/|per )\s?s"
    r"|throughput|bandwidth|goodput"
    r"|[pqr]ps|rtt|latency|jitter)\b"
)
_NUMBER_PATTERN = re.compile(r"\d+(?:[.,]\d+)?")
_UNRECOGNIZED_LINE_INSPECTION_CHARACTERS = 1000
"""Characters of an unrecognized line that are inspected."""

_INNER_LINE_PATTERN_BY_FORMAT = {
    "json": json_documents.INNER_LINE_PATTERN,
    "xml": re.compile(r"\s+<[\w/]"),
}
"""Lines inside a document, such as `    "seconds": 1.0,`. They cannot start a run of text."""

_MALFORMED_LOG_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What a reader raises for a log that is not as its tool writes it."""


@dataclass(frozen=True)
class UnrecognizedSection:
    """A section of consecutive lines that no reader recognizes."""

    first_line: int
    last_line: int
    first_line_text: str
    """The first of the lines."""
    line_count: int = 1
    """Number of lines, blank ones excluded."""
    may_be_result: bool = False
    """Whether one of the lines has a rate and other numbers, so it may be a result."""


@dataclass(frozen=True)
class UnreadableSection:
    """A section that a reader recognizes but cannot read, or a document that no reader recognizes."""

    first_line: int
    last_line: int
    reason: str


LogItem = Run | UnrecognizedSection | UnreadableSection


def parse_log(source: Iterable[str], readers: LogReaders = READERS) -> Iterator[LogItem]:
    """Yield the runs of a log, and the sections that cannot be read, in the order of the log.

    At most one run or document is in memory at a time.
    """
    pending: UnrecognizedSection | None = None
    dates = DateLinesBeforeRun()
    for item in _parse_items(LogLines(source), readers, dates):
        if isinstance(item, UnrecognizedSection):
            pending = item if pending is None else _merge_sections(pending, item)
            continue
        if pending is not None:
            yield pending
            pending = None
        start_time = dates.take_run_start_time(item.first_line)
        needs_date = isinstance(item, Run) and not item.started_at and start_time is not None
        yield replace(item, started_at=start_time) if isinstance(item, Run) and needs_date else item
    if pending is not None:
        yield pending


def _merge_sections(before: UnrecognizedSection, after: UnrecognizedSection) -> UnrecognizedSection:
    return replace(
        before,
        last_line=after.last_line,
        line_count=before.line_count + after.line_count,
        may_be_result=before.may_be_result or after.may_be_result,
    )


def _parse_items(lines: LogLines, readers: LogReaders, dates: DateLinesBeforeRun) -> Iterator[LogItem]:
    text_readers = tuple(reader for reader in readers if isinstance(reader, TextReader))
    document_readers = tuple(reader for reader in readers if isinstance(reader, DocumentReader))

    def find_reader(lines: LogLines) -> TextReader | None:
        for reader in text_readers:
            if reader.starts_run(lines):
                return reader
        return None

    def starts_run(lines: LogLines) -> bool:
        return find_reader(lines) is not None

    documents_on_line = _SameLineDocumentCounter()
    while (line := lines.skip_blanks_and_peek_line()) is not None:
        if (reader := find_reader(lines)) is not None:
            yield from _read_text_runs(lines, reader, starts_run)
        elif document := _start_document(line, document_readers):
            if documents_on_line.add_and_count_of_line(lines.last_taken_number + 1) <= MAX_DOCUMENTS_ON_LINE:
                yield from document.read(lines, starts_run)
            else:
                lines.take_line()
                reason = f"the line has more than {MAX_DOCUMENTS_ON_LINE} documents"
                yield UnreadableSection(lines.last_taken_number, lines.last_taken_number, reason)
        else:
            lines.take_line()
            if not dates.record_if_date_line(lines.last_taken_number, line):
                yield _make_one_line_section(lines.last_taken_number, line)


def _start_document(line: str, readers: tuple[DocumentReader, ...]) -> _DocumentSection | None:
    if _JSON_START_PATTERN.match(line):
        return _DocumentSection("json", readers, json_documents.JsonBuffer())
    if _XML_START_PATTERN.match(line):
        return _DocumentSection("xml", readers, xml_documents.XmlBuffer())
    return None


@dataclass
class _SameLineDocumentCounter:
    """Counts the documents that start on one line."""

    line_number: int = 0
    count: int = 0

    def add_and_count_of_line(self, line_number: int) -> int:
        """Add a document. Return how many started on its line."""
        self.count = self.count + 1 if line_number == self.line_number else 1
        self.line_number = line_number
        return self.count


def _make_one_line_section(line_number: int, line: str) -> UnrecognizedSection:
    text = line[:_UNRECOGNIZED_LINE_INSPECTION_CHARACTERS]
    may_be_result = len(_NUMBER_PATTERN.findall(text)) > 2 and _RATE_UNIT_PATTERN.search(text) is not None
    return UnrecognizedSection(line_number, line_number, text, may_be_result=may_be_result)


def _read_text_runs(lines: LogLines, reader: TextReader, starts_run: StartsRun) -> Iterator[LogItem]:
    first_line, start, last_line = (
        lines.last_taken_number + 1,
        lines.peek_line(),
        lines.last_taken_number + reader.max_run_lines,
    )
    lines.hide_lines_after(last_line)
    try:
        for run in reader.read_next_report(lines, starts_run):
            is_too_long = lines.last_taken_number >= last_line and run.last_line >= last_line
            yield (
                replace(
                    run, failure=f"the run is longer than {reader.max_run_lines} lines, the limit for one run"
                )
                if is_too_long
                else run
            )
    except _MALFORMED_LOG_ERRORS as error:
        yield UnreadableSection(
            first_line, max(first_line, lines.last_taken_number), _format_reader_error(reader.tool, error)
        )
    finally:
        lines.hide_lines_after(None)
    if lines.last_taken_number < first_line and lines.peek_line() is start:
        lines.take_line()  # Otherwise the parser would try the same line again for ever.


@dataclass
class _DocumentSection:
    """A document in a log, while the parser looks for its end."""

    document_format: str
    readers: tuple[DocumentReader, ...]
    buffer: json_documents.JsonBuffer | xml_documents.XmlBuffer

    def read(self, lines: LogLines, starts_run: StartsRun) -> Iterator[LogItem]:
        """Yield the document's runs. A line that is no document after all counts as unrecognized."""
        first_line, opening = lines.last_taken_number + 1, lines.peek_line() or ""
        rest = self._add_line_and_return_rest(lines.take_line())
        is_indented = (lines.peek_line() or "")[:1].isspace()
        while rest is None:
            rest = self._add_inner_lines_and_return_rest(lines)
            if rest is not None or (line := lines.peek_line()) is None:
                break
            is_next_document = is_indented and line.startswith(opening[:1]) and not line.startswith("</")
            if is_next_document or starts_run(lines):
                break
            rest = self._add_line_and_return_rest(lines.take_line())
        yield from self._read_buffer(
            first_line, lines.last_taken_number, opening, is_complete=rest is not None
        )
        if rest is not None and rest.strip(" ,"):
            lines.put_back_rest_of_line(rest)

    def _add_inner_lines_and_return_rest(self, lines: LogLines) -> str | None:
        """Take the lines that are clearly inside. These are nearly all lines, so this path must be fast."""
        for line in lines.take_while(_INNER_LINE_PATTERN_BY_FORMAT[self.document_format]):
            rest = self._add_line_and_return_rest(line)
            if rest is not None:
                return rest
        return None

    def _add_line_and_return_rest(self, line: str) -> str | None:
        rest = self.buffer.add_line_and_return_rest(line)
        if self._describe_excess():
            self.buffer.discard_text()
        return rest

    def _describe_excess(self) -> str:
        """Return which limit the document exceeds; empty if it exceeds none."""
        if self.buffer.character_count > MAX_DOCUMENT_CHARACTERS:
            size, limit = self.buffer.character_count / 2**20, MAX_DOCUMENT_CHARACTERS >> 20
            return f"the document has {size:.0f} MiB, but the limit is {limit} MiB"
        if self.buffer.value_count > (most := MAX_DOCUMENT_VALUES[self.document_format]):
            return f"the document has {self.buffer.value_count:,} values, but the limit is {most:,}"
        return ""

    def _read_buffer(
        self, first_line: int, last_line: int, opening_line: str, *, is_complete: bool
    ) -> Iterator[LogItem]:
        if excess := self._describe_excess():
            yield UnreadableSection(first_line, last_line, excess)
            return
        try:
            document = self.buffer.parse() if is_complete else self.buffer.parse_truncated()
        except ValueError as error:
            if first_line == last_line:
                yield _make_one_line_section(first_line, opening_line)
            else:
                reason = (
                    f"this section is neither a complete document nor the output of a known tool ({error})"
                )
                yield UnreadableSection(first_line, last_line, reason)
            return
        for item in self._read_parsed_document(document, first_line, last_line):
            if is_complete:
                yield item
            elif isinstance(item, Run):
                yield replace(item, failure=CUT_OFF_FAILURE)
            else:
                yield replace(item, reason=f"{item.reason}, and {CUT_OFF_FAILURE}")

    def _read_parsed_document(
        self, document: Any, first_line: int, last_line: int
    ) -> Iterator[Run | UnreadableSection]:
        reader = next(
            (
                each
                for each in self.readers
                if each.document_format == self.document_format and each.matches_document(document)
            ),
            None,
        )
        if reader is not None:
            try:
                yield from reader.read_runs_of_document(document, first_line, last_line)
            except _MALFORMED_LOG_ERRORS as error:
                yield UnreadableSection(first_line, last_line, _format_reader_error(reader.tool, error))
        elif isinstance(document, list) and document and all(isinstance(each, dict) for each in document):
            for each in document:
                yield from self._read_parsed_document(each, first_line, last_line)
        else:
            reason = f"this {self.document_format.upper()} document is not from a supported tool"
            yield UnreadableSection(first_line, last_line, reason)


def _format_reader_error(tool: str, error: Exception) -> str:
    return f"the content is unexpected for a log of {tool} ({type(error).__name__}: {str(error)[:200]})"
