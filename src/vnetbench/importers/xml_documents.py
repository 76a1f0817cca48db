"""Find the end of an XML document in a log, and parse it, also if it was cut off."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from io import StringIO
from xml.etree.ElementTree import Element, ParseError, iterparse

MAX_XML_VALUES = 2_000_000
"""Most values of a document (`XmlBuffer.value_count`). The longest honest document has fewer. Each takes
up to 200 bytes when it is parsed."""

_ROOT_TAG_PATTERN = re.compile(r"<([A-Za-z_][\w.:-]*)(?:\s[^<>]*)?(/?)>")
_XML_DECLARATION_PATTERN = re.compile(r"<\?xml[^>]*\?>")


@dataclass
class XmlBuffer:
    """Collects the lines of a document until it ends."""

    _lines: list[str] = field(default_factory=list)
    _root_name: str = ""
    character_count: int = 0
    value_count: int = 0
    """Number of tags and attributes. The parsed document takes memory for each."""

    def add_line_and_return_rest(self, line: str) -> str | None:
        """Add a line. Return what follows the document's end on it; None if the document goes on."""
        self._lines.append(line)
        self.character_count += len(line)
        self.value_count += line.count("<") + line.count("=")
        start = 0
        if not self._root_name:
            root = _ROOT_TAG_PATTERN.search(line)
            if root is None:
                return None
            self._root_name, start = root[1], root.end()
            if root[2]:
                return self._cut_last_line_and_return_rest(start)
        end = line.find(f"</{self._root_name}>", start)
        return None if end < 0 else self._cut_last_line_and_return_rest(end + len(self._root_name) + 3)

    def discard_text(self) -> None:
        """Discard the text of a document that is too long. `add_line_and_return_rest` still finds its end."""
        self._lines.clear()

    def parse(self) -> Element:
        """Return the parsed document. Raises ValueError if it is invalid."""
        return self._parse_text(is_complete=True)

    def parse_truncated(self) -> Element:
        """Return the complete part of a document that was cut off. Raises ValueError if there is none."""
        return self._parse_text(is_complete=False)

    def _cut_last_line_and_return_rest(self, column: int) -> str:
        line = self._lines[-1]
        self._lines[-1] = line[:column]
        return line[column:]

    def _parse_text(self, *, is_complete: bool) -> Element:
        # The text is decoded already, so the encoding in its declaration is no longer true.
        text = "\n".join(self._lines).lstrip()
        if declaration := _XML_DECLARATION_PATTERN.match(text):  # a search everywhere would be quadratic
            text = text[declaration.end() :].lstrip()
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise ValueError("the document declares XML entities, which no tool's log does")
        root: Element | None = None
        try:
            for _, element in iterparse(StringIO(text), events=("start",)):
                root = element if root is None else root
        except ParseError as error:
            if is_complete:
                raise ValueError(str(error)) from error
        if root is None:
            raise ValueError("no element")
        return root
