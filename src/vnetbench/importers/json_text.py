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
_CLOSES = {"{": "}", "[": "]"}


@dataclass
class Extent:
    """How far a document reaches: fed its lines one after the other."""

    _open: list[str] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _whole: tuple[int, int] = (0, 0)
    """Up to which line and column values are whole: what is open there is open now."""
    characters: int = 0

    def feed(self, line: str) -> str | None:
        """What follows the document's end on this line; None while it goes on."""
        self._lines.append(line)
        self.characters += len(line)
        if self._open and not _BRACKET.search(line):  # nearly all lines, and so the fastest way
            if line.endswith(",") and line.count('"') % 2 == 0:
                self._keep(len(line) - 1)
            return None
        for token in _TOKEN.finditer(line):
            mark = token[0]
            if mark in "{[":
                self._open.append(mark)
                self._keep(token.end())
            elif mark in "}]" and self._open:
                self._open.pop()
                self._keep(token.end())
            elif mark == "," and self._open:
                self._keep(token.start())
            if not self._open:
                self._lines[-1] = line[: token.end()]
                return line[token.end() :]
        return None

    def forget(self) -> None:
        """Keep none of its text: it is too long, and only its end is looked for."""
        self._lines.clear()

    def document(self) -> Any:
        """The parsed document; raises ValueError where it is none."""
        return parsed("\n".join(self._lines))

    def beginning(self) -> Any:
        """What is whole of a document that was cut off; raises ValueError where that is nothing."""
        number, column = self._whole
        lines = self._lines[: number + 1]
        closing = "".join(_CLOSES[mark] for mark in reversed(self._open))
        return parsed("\n".join([*lines[:-1], lines[-1][:column] + closing]))

    def _keep(self, column: int) -> None:
        self._whole = (len(self._lines) - 1, column)


def parsed(text: str) -> Any:
    """A JSON document, with null for every number that is not finite, however it is spelled.

    Raises ValueError where the text is none.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError:
        mended = _NOT_FINITE.sub(lambda found: found[1] or "null", text)
        if mended == text:
            raise
        return json.loads(mended, parse_constant=lambda _: None)
