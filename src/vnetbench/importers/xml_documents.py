"""XML documents in a log: where one ends, and what can be read of one that was cut off."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from io import StringIO
from xml.etree.ElementTree import Element, ParseError, iterparse

_ROOT = re.compile(r"<([A-Za-z_][\w.:-]*)(?:\s[^<>]*)?(/?)>")
_DECLARATION = re.compile(r"<\?xml[^>]*\?>")


@dataclass
class Extent:
    """How far a document reaches: fed its lines one after the other."""

    _lines: list[str] = field(default_factory=list)
    _root: str = ""
    characters: int = 0

    def feed(self, line: str) -> str | None:
        """What follows the document's end on this line; None while it goes on."""
        self._lines.append(line)
        self.characters += len(line)
        start = 0
        if not self._root:
            root = _ROOT.search(line)
            if root is None:
                return None
            self._root, start = root[1], root.end()
            if root[2]:
                return self._end(start)
        at = line.find(f"</{self._root}>", start)
        return None if at < 0 else self._end(at + len(self._root) + 3)

    def forget(self) -> None:
        """Keep none of its text: it is too long, and only its end is looked for."""
        self._lines.clear()

    def document(self) -> Element:
        """The parsed document; raises ValueError where it is none."""
        root = self._parsed(is_whole=True)
        if root is None:
            raise ValueError("no element")
        return root

    def beginning(self) -> Element:
        """What is whole of a document that was cut off; raises ValueError where that is nothing."""
        root = self._parsed(is_whole=False)
        if root is None:
            raise ValueError("no element")
        return root

    def _end(self, column: int) -> str:
        line = self._lines[-1]
        self._lines[-1] = line[:column]
        return line[column:]

    def _parsed(self, *, is_whole: bool) -> Element | None:
        # The text is decoded already, so what its declaration says of its encoding is not true any more.
        text = _DECLARATION.sub("", "\n".join(self._lines), count=1).lstrip()
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise ValueError("it declares entities, which no tool's log does")
        root: Element | None = None
        try:
            for _, element in iterparse(StringIO(text), events=("start",)):
                root = element if root is None else root
        except ParseError as error:
            if is_whole:
                raise ValueError(str(error)) from error
        return root
