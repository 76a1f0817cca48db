"""JSON documents in a log: where one ends, and what can be read of one that was cut off."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]')
_BRACKET = re.compile(r"[{}\[\]]")
_NOT_FINITE = re.compile(
    r'("(?:[^"\\]|\\.)*")|[-+]?\b(?:nan|NaN|NAN|inf|Inf|INF|infinity|Infinity)\b(?:\(\w*\))?'
)
_TOGETHER = 1000
_CLOSES = {"{": "}", "[": "]"}


@dataclass
class Extent:
    """How far a document reaches: fed its lines one after the other."""

    _open: list[str] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    """Of many lines each, as a line by itself takes twice its memory."""
    _lines: list[str] = field(default_factory=list)
    """The last ones."""
    _whole: int = 0
    """Up to which character values are whole: what is open there is open now."""
    characters: int = 0

    def feed(self, line: str) -> str | None:
        """What follows the document's end on this line; None while it goes on."""
        if len(self._lines) >= _TOGETHER:
            self._text.append("\n".join(self._lines))
            self._lines.clear()
        self._lines.append(line)
        start = self.characters
        self.characters += len(line) + 1
        if _BRACKET.search(line) is None:  # nearly all lines, and so the fastest way
            value = line.rstrip()
            if value.endswith(",") and value.count('"') % 2 == 0:
                self._whole = start + len(value) - 1
            return None
        for token in _TOKEN.finditer(line):
            mark = token[0]
            if mark in "{[":
                self._open.append(mark)
                self._whole = start + token.end()
            elif mark in "}]" and self._open:
                self._open.pop()
                self._whole = start + token.end()
            elif mark == ",":
                self._whole = start + token.start()
            if not self._open:
                self._lines[-1] = line[: token.end()]
                return line[token.end() :]
        return None

    def forget(self) -> None:
        """Keep none of its text: it is too long, and only its end is looked for."""
        self._text.clear()
        self._lines.clear()

    def document(self) -> Any:
        """The parsed document; raises ValueError where it is none."""
        return parsed(self._joined())

    def beginning(self) -> Any:
        """What is whole of a document that was cut off; raises ValueError where that is nothing."""
        return parsed(self._joined()[: self._whole] + "".join(_CLOSES[mark] for mark in reversed(self._open)))

    def _joined(self) -> str:
        text = "\n".join([*self._text, *self._lines])
        self.forget()  # parsed it takes memory enough
        return text


def parsed(text: str) -> Any:
    """A JSON document, with null for every number that is not finite, however it is spelled.

    Raises ValueError where the text is none.
    """
    try:
        try:
            return json.loads(text, parse_constant=lambda _: None)
        except ValueError:
            mended = _NOT_FINITE.sub(lambda found: found[1] or "null", text)
            if mended == text:
                raise
            return json.loads(mended, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
