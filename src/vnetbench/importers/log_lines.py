"""A log as numbered lines of text, whatever it is written in, a few of them in memory at once."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from sys import maxsize


class Lines:
    """Lines that can be looked at before they are taken; `number` is that of the last one taken, from 1."""

    def __init__(self, source: Iterable[str]) -> None:
        self._source = iter(source)
        self._ahead: deque[str] = deque()
        self.number = 0
        self._last = maxsize

    def end_at(self, number: int | None) -> None:
        """Show no line after the one of this number, until told of another; None: show them all."""
        self._last = maxsize if number is None else number

    def peek(self, ahead: int = 0) -> str | None:
        """The line so many after the next one; None after the end."""
        if self.number + ahead >= self._last:
            return None
        if ahead < len(self._ahead):
            return self._ahead[ahead]
        for line in islice(self._source, ahead + 1 - len(self._ahead)):
            self._ahead.append(line)
        return self._ahead[ahead] if ahead < len(self._ahead) else None

    def take(self) -> str:
        """The next line; raises StopIteration after the last."""
        line = self._ahead.popleft() if self._ahead else next(self._source)
        self.number += 1
        return line

    def taken_while(self, form: re.Pattern[str]) -> Iterator[str]:
        """Take the next lines for as long as the form matches their beginnings."""
        while self.number < self._last:
            line = self._ahead.popleft() if self._ahead else next(self._source, None)
            if line is None:
                return
            if not form.match(line):
                self._ahead.appendleft(line)
                return
            self.number += 1
            yield line

    def put_back(self, rest: str) -> None:
        """Make the rest of the line last taken the next one, with the same number."""
        self._ahead.appendleft(rest)
        self.number -= 1

    def __iter__(self) -> Iterator[str]:
        while self.peek() is not None:
            yield self.take()
