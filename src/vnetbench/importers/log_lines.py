"""A log as numbered lines of text that can be inspected before they are taken.

Few are in memory at a time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from sys import maxsize


class LogLines:
    """The lines of a log. `number` is the number of the line that was taken last, from 1."""

    def __init__(self, source: Iterable[str]) -> None:
        self._source = iter(source)
        self._buffer: deque[str] = deque()
        self.number = 0
        self._last_visible = maxsize

    def hide_after(self, number: int | None) -> None:
        """Hide all lines after this number until the next call; None shows them again."""
        self._last_visible = maxsize if number is None else number

    def peek(self, offset: int = 0) -> str | None:
        """Return a line ahead without taking it: the next one for offset 0. None after the end."""
        if self.number + offset >= self._last_visible:
            return None
        if offset < len(self._buffer):
            return self._buffer[offset]
        for line in islice(self._source, offset + 1 - len(self._buffer)):
            self._buffer.append(line)
        return self._buffer[offset] if offset < len(self._buffer) else None

    def take(self) -> str:
        """Take and return the next line. Raises StopIteration after the last one."""
        line = self._buffer.popleft() if self._buffer else next(self._source)
        self.number += 1
        return line

    def take_while(self, pattern: re.Pattern[str]) -> Iterator[str]:
        """Take and yield lines while the pattern matches at their start."""
        while self.number < self._last_visible:
            line = self._buffer.popleft() if self._buffer else next(self._source, None)
            if line is None:
                return
            if not pattern.match(line):
                self._buffer.appendleft(line)
                return
            self.number += 1
            yield line

    def put_back(self, rest: str) -> None:
        """Make the rest of the line that was taken last the next line, with the same number."""
        self._buffer.appendleft(rest)
        self.number -= 1

    def __iter__(self) -> Iterator[str]:
        while self.peek() is not None:
            yield self.take()
