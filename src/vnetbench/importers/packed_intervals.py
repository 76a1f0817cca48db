"""Very many intervals of a run in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from vnetbench.importers.runs import FORWARD, Figure, Interval


@dataclass(frozen=True)
class Kind:
    """What many intervals of a run have in common."""

    names: tuple[str, ...]
    """Of the values, in their order."""
    stream: int | None = None
    way: str = FORWARD
    is_omitted: bool = False


class PackedIntervals(Sequence[Interval]):
    """Intervals as columns of plain numbers: some 80 bytes each, where an `Interval` takes 2 kB."""

    def __init__(self) -> None:
        self._kinds: list[Kind] = []
        self._number_of: dict[Kind, int] = {}
        self._kind = array("I")
        self._times = array("d")
        self._numbers = array("d")
        self._first = array("Q")

    def number_of(self, kind: Kind) -> int:
        """The number that `append` knows a kind by."""
        number = self._number_of.setdefault(kind, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(kind)
        return number

    def append(self, number: int, start_s: float, end_s: float, numbers: Iterable[float]) -> None:
        """Add one of the kind of that number: `packed` values in the order of its names."""
        self._kind.append(number)
        self._times.append(start_s)
        self._times.append(end_s)
        self._first.append(len(self._numbers))
        self._numbers.extend(numbers)

    def retime(self, count: int) -> None:
        """Give so many intervals before the last one its times: those of its streams, printed beside it."""
        start_s, end_s = self._times[-2:]
        for at in range(max(0, len(self._times) - 2 - 2 * count), len(self._times) - 2, 2):
            self._times[at], self._times[at + 1] = start_s, end_s

    def change(self, changed: Callable[[Kind], Kind]) -> None:
        """Change what is said of all of them: when it is known only at the end, whose they are."""
        self._kinds = [changed(kind) for kind in self._kinds]

    def sum_of(self, name: str, way: str) -> float:
        """The sum of a value over the run's whole intervals of that way, without what was omitted."""
        wanted = {
            number: kind.names.index(name)
            for number, kind in enumerate(self._kinds)
            if kind.stream is None and kind.way == way and not kind.is_omitted and name in kind.names
        }
        rows = zip(self._kind, self._first, strict=True)
        return sum(self._numbers[first + 2 * wanted[kind]] for kind, first in rows if kind in wanted)

    def __len__(self) -> int:
        return len(self._kind)

    @overload
    def __getitem__(self, index: int) -> Interval: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Interval]: ...
    def __getitem__(self, index: int | slice) -> Interval | Sequence[Interval]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        kind, first = self._kinds[self._kind[row]], self._first[row]
        values = {
            name: _figure(self._numbers[at], self._numbers[at + 1])
            for name, at in zip(kind.names, range(first, first + 2 * len(kind.names), 2), strict=True)
        }
        start_s, end_s = self._times[2 * row], self._times[2 * row + 1]
        return Interval(start_s, end_s, values, kind.stream, kind.way, kind.is_omitted)

    def __iter__(self) -> Iterator[Interval]:
        return (self[row] for row in range(len(self)))


def packed(figure: Figure) -> tuple[float, float]:
    """A figure as it is kept: its value, and how far up and down it may have been rounded."""
    return figure.value, figure.high - figure.value


def _figure(value: float, half: float) -> Figure:
    return Figure(value, value - half, value + half)
