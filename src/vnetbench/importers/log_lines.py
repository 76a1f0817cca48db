"""A log as numbered lines of text that can be inspected before they are taken.

Few are in memory at a time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from sys import maxsize

from vnetbench.importers.row_columns import Row, RowPattern

_MIN_ROWS_AHEAD, _MAX_ROWS_AHEAD = 8, 4096
"""Lines that are matched together. Their number follows the length of the tables in the log."""
_MAX_ROW_CHARACTERS = 1000
"""A longer line is not looked at in advance, because the lines ahead are in memory."""


class LogLines:
    """The lines of a log. `last_taken_number` is the number of the line that was taken last, from 1."""

    def __init__(self, source: Iterable[str]) -> None:
        self._source = iter(source)
        self._buffer: deque[str] = deque()
        self.last_taken_number = 0
        self._last_visible_number = maxsize
        self._rows_ahead = _MIN_ROWS_AHEAD

    def hide_lines_after(self, line_number: int | None) -> None:
        """Hide all lines after this number until the next call; None shows them again."""
        self._last_visible_number = maxsize if line_number is None else line_number

    def peek_line(self, lines_ahead: int = 0) -> str | None:
        """Return a line ahead without taking it: the next one for offset 0. None after the end."""
        if self.last_taken_number + lines_ahead >= self._last_visible_number:
            return None
        if self._buffer and not lines_ahead:  # nearly all calls
            return self._buffer[0]
        if lines_ahead < len(self._buffer):
            return self._buffer[lines_ahead]
        for line in islice(self._source, lines_ahead + 1 - len(self._buffer)):
            self._buffer.append(line)
        return self._buffer[lines_ahead] if lines_ahead < len(self._buffer) else None

    def take_line(self) -> str:
        """Take and return the next line. Raises StopIteration after the last one."""
        line = self._buffer.popleft() if self._buffer else next(self._source)
        self.last_taken_number += 1
        return line

    def take_while(self, pattern: re.Pattern[str]) -> Iterator[str]:
        """Take and yield lines while the pattern matches at their start."""
        while self.last_taken_number < self._last_visible_number:
            line = self._buffer.popleft() if self._buffer else next(self._source, None)
            if line is None:
                return
            if not pattern.match(line):
                self._buffer.appendleft(line)
                return
            self.last_taken_number += 1
            yield line

    def take_rows(self, pattern: RowPattern) -> list[Row]:
        """Take the next rows and separators, until another line follows. Many rows come in several calls."""
        ahead = self._peek_rows_ahead()
        rows = pattern.match_leading_rows(ahead) if ahead else []
        if len(rows) == len(self._buffer):
            self._buffer.clear()
        else:
            for _ in rows:
                self._buffer.popleft()
        self.last_taken_number += len(rows)
        self._rows_ahead = max(_MIN_ROWS_AHEAD, min(2 * len(rows), _MAX_ROWS_AHEAD))
        return rows

    def _peek_rows_ahead(self) -> list[str]:
        count = min(self._rows_ahead, self._last_visible_number - self.last_taken_number)
        ahead: list[str] = []
        for line in islice(self._buffer, count):
            if len(line) > _MAX_ROW_CHARACTERS:
                return ahead
            ahead.append(line)
        for line in islice(self._source, count - len(ahead)):
            self._buffer.append(line)
            if len(line) > _MAX_ROW_CHARACTERS:
                break
            ahead.append(line)
        return ahead

    def skip_blanks_and_peek_line(self) -> str | None:
        """Take all blank lines, of which a log may have millions. Return the next line without taking it."""
        while (line := self.peek_line()) is not None and (not line or line.isspace()):
            self._buffer.popleft()
            self.last_taken_number += 1
        return line

    def put_back_rest_of_line(self, rest: str) -> None:
        """Make the rest of the line that was taken last the next line, with the same number."""
        self._buffer.appendleft(rest)
        self.last_taken_number -= 1

    def __iter__(self) -> Iterator[str]:
        while self.peek_line() is not None:
            yield self.take_line()
