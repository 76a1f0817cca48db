"""A log walked from its first line to its last: which tool told what, and what nobody understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.importers import json_documents, xml_documents
from vnetbench.importers.dates import Clock
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import DocumentReader, TextReader
from vnetbench.importers.runs import CUT_OFF, Run
from vnetbench.importers.tools import READERS

Readers = tuple[TextReader | DocumentReader, ...]

MAX_DOCUMENT = 32 * 2**20
"""Characters of a JSON or XML document: parsed it takes some five times as much memory."""

_BEGINS_JSON = re.compile(r'\s*(?:\{\s*(?:["}]|$)|\[\s*(?:\{|$))')
"""`{`, `{"start": …` or `[{`; not `[  5]   0.00-1.00   sec`, nor prose in braces."""
_BEGINS_XML = re.compile(r"\s*<(?:\?xml\b|[A-Za-z_][^<>]*>\s*(?:<|$))")
"""`<?xml version="1.0"?>`, `<ntttcps>`."""

_A_RATE = re.compile(r"(?i)\b(?:[kmgt]?i?b(?:it|yte)?s?(?:/s(?:ec)?|ps)|throughput|trans(?:actions)?/s)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_LONGEST = 1000
"""Characters of an unclaimed line that are looked at."""

_INSIDE = {"json": re.compile(r'\s+(?:["{}\]]|\[\s*$)'), "xml": re.compile(r"\s+<[\w/]")}
"""`    "seconds": 1.0,`: lines of which readers need not be asked whether a run of text begins with them."""

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What a reader meets in a log that is not as its tool writes it."""


@dataclass(frozen=True)
class Unclaimed:
    """Lines that no reader takes: of no tool that we know."""

    first_line: int
    last_line: int
    text: str
    """The first of them."""
    lines: int = 1
    """How many, blank ones not counted."""
    looks_measured: bool = False
    """Whether one of them looks like a figure: a rate, among other numbers."""


@dataclass(frozen=True)
class Unread:
    """What a reader knows its tool in, and still cannot read; or a document that nobody can."""

    first_line: int
    last_line: int
    why: str


Item = Run | Unclaimed | Unread


def recognise(source: Iterable[str], readers: Readers = READERS) -> Iterator[Item]:
    """The runs of a log, and what stands between that nobody reads, in their order.

    Keeps no more than a run, or a document, in memory at once.
    """
    before: Unclaimed | None = None
    clock = Clock()
    for item in _items(Lines(source), readers, clock):
        if isinstance(item, Unclaimed):
            before = item if before is None else _joined(before, item)
            continue
        if before is not None:
            yield before
            before = None
        yield _dated(item, clock)
    if before is not None:
        yield before


def _joined(before: Unclaimed, after: Unclaimed) -> Unclaimed:
    return replace(
        before,
        last_line=after.last_line,
        lines=before.lines + after.lines,
        looks_measured=before.looks_measured or after.looks_measured,
    )


def _dated(item: Run | Unread, clock: Clock) -> Run | Unread:
    """A run that does not tell when it began, with the date that stands before it."""
    told = clock.told_for(item.first_line)
    return replace(item, started_at=told) if isinstance(item, Run) and not item.started_at and told else item


def _items(lines: Lines, readers: Readers, clock: Clock) -> Iterator[Item]:
    texts = tuple(reader for reader in readers if isinstance(reader, TextReader))
    documents = tuple(reader for reader in readers if isinstance(reader, DocumentReader))

    def begins(lines: Lines) -> bool:
        return any(reader.begins(lines) for reader in texts)

    while (line := lines.peek()) is not None:
        reader = next((reader for reader in texts if reader.begins(lines)), None)
        if reader is not None:
            yield from _text(lines, reader, begins)
        elif _BEGINS_JSON.match(line):
            yield from _Document("json", documents, json_documents.Extent()).read(lines, begins)
        elif _BEGINS_XML.match(line):
            yield from _Document("xml", documents, xml_documents.Extent()).read(lines, begins)
        elif line.strip():
            lines.take()
            if not clock.hears(lines.number, line):
                yield _unclaimed(lines.number, line)
        else:
            lines.take()


def _unclaimed(number: int, line: str) -> Unclaimed:
    looks_measured = len(_NUMBER.findall(line[:_LONGEST])) > 2 and _A_RATE.search(line[:_LONGEST]) is not None
    return Unclaimed(number, number, line[:_LONGEST], looks_measured=looks_measured)


def _text(lines: Lines, reader: TextReader, begins: Callable[[Lines], bool]) -> Iterator[Item]:
    first, beginning, last = lines.number + 1, lines.peek(), lines.number + reader.most_lines
    lines.end_at(last)
    try:
        for run in reader.read(lines, begins):
            is_too_long = lines.number >= last and run.last_line >= last
            yield replace(run, fault=f"longer than {reader.most_lines} lines") if is_too_long else run
    except _MALFORMED as error:
        yield Unread(first, max(first, lines.number), f"{reader.tool}: {_in_words(error)}")
    finally:
        lines.end_at(None)
    if lines.number < first and lines.peek() is beginning:
        lines.take()  # else it would be asked of the same line for ever


@dataclass
class _Document:
    """A document in a log, while its end is looked for."""

    form: str
    readers: tuple[DocumentReader, ...]
    extent: json_documents.Extent | xml_documents.Extent

    def read(self, lines: Lines, begins: Callable[[Lines], bool]) -> Iterator[Item]:
        """Its runs; what is no document is taken as a line like any other."""
        first, opening = lines.number + 1, lines.peek() or ""
        rest = self._feed(lines.take())
        is_indented = (lines.peek() or "")[:1].isspace()
        while rest is None:
            rest = self._feed_inside(lines)
            if rest is not None or (line := lines.peek()) is None:
                break
            is_next = is_indented and line.startswith(opening[:1]) and not line.startswith("</")
            if is_next or begins(lines):
                break
            rest = self._feed(lines.take())
        yield from self._runs(first, lines.number, opening, is_whole=rest is not None)
        if rest is not None and rest.strip(" ,"):
            lines.put_back(rest)

    def _feed_inside(self, lines: Lines) -> str | None:
        """Take the lines that are plainly inside: nearly all, so none is looked at before it is taken."""
        for line in lines.taken_while(_INSIDE[self.form]):
            rest = self._feed(line)
            if rest is not None:
                return rest
        return None

    def _feed(self, line: str) -> str | None:
        rest = self.extent.feed(line)
        if self.extent.characters > MAX_DOCUMENT:
            self.extent.forget()
        return rest

    def _runs(self, first: int, last: int, opening: str, *, is_whole: bool) -> Iterator[Item]:
        if self.extent.characters > MAX_DOCUMENT:
            size = self.extent.characters / 2**20
            yield Unread(first, last, f"a document of {size:.0f} MiB, and {MAX_DOCUMENT >> 20} are the most")
            return
        try:
            document = self.extent.document() if is_whole else self.extent.beginning()
        except ValueError as error:
            if first == last:
                yield _unclaimed(first, opening)
            else:
                yield Unread(first, last, f"neither a whole document nor text ({error})")
            return
        for item in self._of(document, first, last):
            if is_whole:
                yield item
            elif isinstance(item, Run):
                yield replace(item, fault=CUT_OFF)
            else:
                yield replace(item, why=f"{CUT_OFF}; {item.why}")

    def _of(self, document: Any, first: int, last: int) -> Iterator[Run | Unread]:
        reader = next((r for r in self.readers if r.form == self.form and r.claims(document)), None)
        if reader is not None:
            try:
                yield from reader.read(document, first, last)
            except _MALFORMED as error:
                yield Unread(first, last, f"{reader.tool}: {_in_words(error)}")
        elif isinstance(document, list) and document and all(isinstance(x, dict) for x in document):
            for each in document:
                yield from self._of(each, first, last)
        else:
            yield Unread(first, last, f"a {self.form.upper()} document of no tool that is known here")


def _in_words(error: Exception) -> str:
    return f"not as it writes its logs ({type(error).__name__}: {str(error)[:200]})"
