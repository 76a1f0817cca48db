"""The median of a list of values that grows, without sorting it again."""

from __future__ import annotations

from bisect import insort


class RunningMedian:
    """The values so far, in ascending order."""

    def __init__(self) -> None:
        self._ordered: list[float] = []

    def add(self, value: float) -> None:
        """Add a value."""
        insort(self._ordered, value)

    def value_or(self, default: float) -> float:
        """Return the median; `default` without any value."""
        count = len(self._ordered)
        if not count:
            return default
        return (self._ordered[(count - 1) // 2] + self._ordered[count // 2]) / 2
