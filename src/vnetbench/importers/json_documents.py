"""Find the end of a JSON document in a log, and parse it, also if it was cut off."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import StartsRun

MAX_DOCUMENT_CHARACTERS = 32 * 2**20
"""Longest JSON or XML document. A parsed document takes about five times as much memory."""
MAX_JSON_VALUES = 4_000_000
"""Most values of a document (`JsonBuffer.value_count`). The longest honest document has fewer. Each takes up
to 60 bytes when it is parsed, even an empty list of two characters."""
INNER_LINE_PATTERN = re.compile(r'\s+(?:["{}\]]|\[\s*$)')
"""A line inside a document, such as `    "seconds": 1.0,`. It cannot start a run of text."""

_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
"""A string. Without an end it reaches to the end of the line or text. A search for the end at each later
quote would take quadratic time."""
_TOKEN_PATTERN = re.compile(rf"{_STRING}|[{{}}\[\],]", re.DOTALL)
_BRACKET_PATTERN = re.compile(r"[{}\[\]]")
_NON_FINITE_NUMBER_PATTERN = re.compile(
    rf"({_STRING})|[-+]?\b(?:nan|NaN|NAN|inf|Inf|INF|infinity|Infinity)\b(?:\(\w*\))?", re.DOTALL
)
_LINES_PER_CHUNK = 1000
_CLOSING_BRACKETS = {"{": "}", "[": "]"}


@dataclass
class JsonBuffer:
    """Collects the lines of a document until it ends."""

    _depth: int = 0
    """Number of brackets that are open."""
    _open_brackets: list[str] = field(default_factory=list)
    """The brackets that are open, unless the text was discarded."""
    _joined_chunks: list[str] = field(default_factory=list)
    """Chunks of many lines each, because a separate line takes twice the memory of its text."""
    _unjoined_lines: list[str] = field(default_factory=list)
    """The lines after the last chunk."""
    _complete_values_character_count: int = 0
    """Number of characters up to which all values are complete. The brackets open there are open now."""
    character_count: int = 0
    value_count: int = 0
    """Number of commas and opening brackets. The parsed document takes memory for each."""
    _is_discarded: bool = False

    def add_line_and_return_rest(self, line: str) -> str | None:
        """Add a line. Return what follows the document's end on it; None if the document goes on."""
        if len(self._unjoined_lines) >= _LINES_PER_CHUNK:
            self._joined_chunks.append("\n".join(self._unjoined_lines))
            self._unjoined_lines.clear()
        self._unjoined_lines.append(line)
        start = self.character_count
        self.character_count += len(line) + 1
        self.value_count += line.count(",")
        if (
            _BRACKET_PATTERN.search(line) is None
        ):  # Nearly all lines have no bracket, so they get the fast path.
            value = line.rstrip()
            if value.endswith(",") and value.count('"') % 2 == 0:
                self._complete_values_character_count = start + len(value) - 1
            return None
        for token in _TOKEN_PATTERN.finditer(line):
            mark = token[0]
            if mark in "{[":
                self._depth += 1
                self.value_count += 1
                if not self._is_discarded:
                    self._open_brackets.append(mark)
                self._complete_values_character_count = start + token.end()
            elif mark in "}]" and self._depth:
                self._depth -= 1
                if not self._is_discarded:
                    self._open_brackets.pop()
                self._complete_values_character_count = start + token.end()
            elif mark == ",":
                self._complete_values_character_count = start + token.start()
            if not self._depth:
                self._unjoined_lines[-1] = line[: token.end()]
                return line[token.end() :]
        return None

    @property
    def is_too_large(self) -> bool:
        """Whether the document exceeds a limit."""
        return self.character_count > MAX_DOCUMENT_CHARACTERS or self.value_count > MAX_JSON_VALUES

    def discard_text(self) -> None:
        """Discard the text of a document that is too long. `add_line_and_return_rest` still finds its end."""
        self._is_discarded = True
        self._open_brackets.clear()
        self._joined_chunks.clear()
        self._unjoined_lines.clear()

    def parse(self) -> Any:
        """Return the parsed document. Raises ValueError if it is invalid."""
        return parse_json(self._take_text())

    def parse_truncated(self) -> Any:
        """Return the complete part of a document that was cut off. Raises ValueError if there is none."""
        closing = "".join(_CLOSING_BRACKETS[mark] for mark in reversed(self._open_brackets))
        return parse_json(self._take_text()[: self._complete_values_character_count] + closing)

    def _take_text(self) -> str:
        text = "\n".join([*self._joined_chunks, *self._unjoined_lines])
        self._joined_chunks.clear()
        self._unjoined_lines.clear()  # The parsed document needs the memory.
        return text


class TakenDocument(NamedTuple):
    """A document that was taken from a log."""

    buffer: JsonBuffer
    rest_of_last_line: str | None
    """What follows the document's end on its last line; None if the end is missing."""


def take_json_document_and_rest(lines: LogLines, starts_run: StartsRun) -> TakenDocument:
    """Take the lines of the document that starts with the next line, up to its end or to the next run.

    Raises:
        ValueError: The document is too large.
    """
    buffer = JsonBuffer()
    rest = buffer.add_line_and_return_rest(lines.take_line())
    while rest is None and lines.peek_line() is not None:
        for line in lines.take_while(INNER_LINE_PATTERN):
            rest = buffer.add_line_and_return_rest(line)
            if rest is not None or buffer.is_too_large:
                break
        else:
            if lines.peek_line() is None or starts_run(lines):
                break
            rest = buffer.add_line_and_return_rest(lines.take_line())
        if buffer.is_too_large:
            raise ValueError("the document is too large")
    return TakenDocument(buffer, rest)


def parse_json(text: str) -> Any:
    """Parse a JSON document. Numbers that are not finite become null, however they are spelled.

    Half of a surrogate pair becomes a question mark.

    Raises:
        ValueError: The text is not a JSON document.
    """
    try:
        try:
            value = json.loads(text, parse_constant=lambda _: None)
        except ValueError:
            repaired = _replace_non_finite_numbers(text)
            if repaired is None:
                raise
            value = json.loads(repaired, parse_constant=lambda _: None)
        if "\\ud" in text or "\\uD" in text:  # half of a surrogate pair can be neither stored nor printed
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        return value
    except RecursionError as error:
        raise ValueError("the document is nested too deeply") from error


def _replace_non_finite_numbers(text: str) -> str | None:
    """Return the text with null for each number that is not finite; None if there is no such number."""
    # `re.sub` would keep a piece of the text for every string of the document.
    pieces, end = list[str](), 0
    for found in _NON_FINITE_NUMBER_PATTERN.finditer(text):
        if found[1] is None:
            pieces += (text[end : found.start()], "null")
            end = found.end()
    return "".join([*pieces, text[end:]]) if pieces else None
