"""Store a very large number of intervals in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from vnetbench.importers.runs import FORWARD, ReportInterval, RoundedValue


@dataclass(frozen=True)
class IntervalFormat:
    """What many intervals of a run have in common."""

    value_names: tuple[str, ...]
    """Names of the values, in their order."""
    stream_number: int | None = None
    direction: str = FORWARD
    is_omitted: bool = False


class PackedIntervals(Sequence[ReportInterval]):
    """Intervals as columns of plain numbers: about 80 bytes each, where a `ReportInterval` takes 2 kB."""

    def __init__(self) -> None:
        self._formats: list[IntervalFormat] = []
        self._index_by_format: dict[IntervalFormat, int] = {}
        self._format_indexes = array("I")
        self._start_and_end_times_s = array("d")
        self._values_and_half_widths = array("d")
        self._offsets = array("Q")

    def register_format(self, interval_format: IntervalFormat) -> int:
        """Return the number by which `append_interval` knows a format."""
        number = self._index_by_format.setdefault(interval_format, len(self._formats))
        if number == len(self._formats):
            self._formats.append(interval_format)
        return number

    def append_interval(
        self, format_index: int, start_s: float, end_s: float, values_and_half_widths: Iterable[float]
    ) -> None:
        """Append an interval. `pack_value_and_half_width` gives the numbers, in the format's order."""
        self._format_indexes.append(format_index)
        self._start_and_end_times_s.append(start_s)
        self._start_and_end_times_s.append(end_s)
        self._offsets.append(len(self._values_and_half_widths))
        self._values_and_half_widths.extend(values_and_half_widths)

    def overwrite_preceding_times_with_last(self, interval_count: int) -> None:
        """Copy the last interval's times to the `interval_count` intervals before it: its streams."""
        start_s, end_s = self._start_and_end_times_s[-2:]
        for at in range(
            max(0, len(self._start_and_end_times_s) - 2 - 2 * interval_count),
            len(self._start_and_end_times_s) - 2,
            2,
        ):
            self._start_and_end_times_s[at], self._start_and_end_times_s[at + 1] = start_s, end_s

    def replace_formats(self, replace_format: Callable[[IntervalFormat], IntervalFormat]) -> None:
        """Replace every format, because the direction or the stream may be known only at the end of a run."""
        self._formats = [replace_format(each) for each in self._formats]

    def sum_all_streams_intervals(self, value_name: str, direction: str) -> float:
        """Return the sum of a value over all intervals of all streams together, without omitted ones."""
        positions = {
            number: each.value_names.index(value_name)
            for number, each in enumerate(self._formats)
            if each.stream_number is None and each.direction == direction and not each.is_omitted
            if value_name in each.value_names
        }
        rows = zip(self._format_indexes, self._offsets, strict=True)
        return sum(
            self._values_and_half_widths[offset + 2 * positions[number]]
            for number, offset in rows
            if number in positions
        )

    def __len__(self) -> int:
        return len(self._format_indexes)

    @overload
    def __getitem__(self, index: int) -> ReportInterval: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ReportInterval]: ...
    def __getitem__(self, index: int | slice) -> ReportInterval | Sequence[ReportInterval]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        interval_format, offset = self._formats[self._format_indexes[row]], self._offsets[row]
        values = {
            name: _unpack_value(
                self._values_and_half_widths[offset + 2 * at],
                self._values_and_half_widths[offset + 2 * at + 1],
            )
            for at, name in enumerate(interval_format.value_names)
        }
        start_s, end_s = self._start_and_end_times_s[2 * row], self._start_and_end_times_s[2 * row + 1]
        return ReportInterval(
            start_s,
            end_s,
            values,
            interval_format.stream_number,
            interval_format.direction,
            interval_format.is_omitted,
        )

    def __iter__(self) -> Iterator[ReportInterval]:
        return (self[row] for row in range(len(self)))


AlternatingValuesAndHalfWidths = tuple[float, ...]
"""Numbers of values in a row, two for each: the value, and how far rounding may reach."""


def pack_value_and_half_width(value: RoundedValue) -> AlternatingValuesAndHalfWidths:
    """Return the two numbers that are stored for a value: the value, and how far rounding may reach."""
    return value.value, value.high - value.value


def _unpack_value(value: float, rounding_half_width: float) -> RoundedValue:
    return RoundedValue(value, value - rounding_half_width, value + rounding_half_width)
