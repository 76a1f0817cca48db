"""The rows of a table in a log, matched many lines at once and kept as columns of text.

Nearly all lines of a large log are rows of one or two forms. One search covers thousands of them, and each
column is converted at once (`value_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import itemgetter

Row = tuple[str, ...]
"""The groups of a row, in the order of the pattern, then an empty one. A group that took no part is empty."""

SPACE = r"[^\S\n]"
"""A regular expression for white space that is no newline, for the patterns of rows."""

_FIRST, _LAST = itemgetter(0), itemgetter(-1)


class RowPattern:
    """A pattern that matches a whole line, and lines between such rows that report nothing.

    All groups have names, and the first one is never empty.
    """

    def __init__(self, row: str, separator: str = "(?!)") -> None:
        """Compile the patterns of a row and of a separator. Neither matches a newline on purpose."""
        self.line = re.compile(row)
        self._separator_line = re.compile(separator)
        self._block = re.compile(rf"(?:{row})\n|(?:{separator})\n|(.*\n)")
        self.names = tuple(sorted(self.line.groupindex, key=self.line.groupindex.__getitem__))
        """The names of the groups, in their order."""
        assert self.line.groups == len(self.names)
        assert not self._separator_line.groups

    def match_line(self, line: str) -> Row | None:
        """Return the groups of a row; None if the line is none."""
        row = self.line.fullmatch(line)
        return (*row.groups(""), "") if row is not None else None

    def match_leading_rows(self, lines: Sequence[str]) -> list[Row]:
        """Return the rows and separators at the start of these lines. All groups of a separator are empty."""
        found = self._block.findall("\n".join(lines) + "\n")
        # Each match has a newline, and together they are the text. So as many matches as lines are the lines.
        if len(found) != len(lines):
            found = [self._match_row_separator_or_other_line(line) for line in lines]
        if any(map(_LAST, found)):
            del found[next(number for number, groups in enumerate(found) if groups[-1]) :]
        return found

    def _match_row_separator_or_other_line(self, line: str) -> Row:
        groups = len(self.names)
        if (row := self.match_line(line)) is not None:
            return row
        return ("",) * groups + ("" if self._separator_line.fullmatch(line) else "\n",)


class RowColumns:
    """The rows of a run as columns, by the names of the pattern's groups."""

    def __init__(self, names: Iterable[str]) -> None:
        self._columns: dict[str, list[str]] = {name: [] for name in names}

    def extend(self, names: Sequence[str], rows: Sequence[Row]) -> None:
        """Append the rows, whose groups have these names. Separators are left out."""
        columns = zip(*filter(_FIRST, rows), strict=True)
        for name, texts in zip(names, columns, strict=False):
            self._columns[name].extend(texts)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, name: str) -> Sequence[str]:
        return self._columns[name]
