"""Store a very large number of intervals in little memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import overload

import numpy as np

from vnetbench.importers.runs import ReportInterval, RoundedValue
from vnetbench.importers.value_columns import Floats, ValueColumn
from vnetbench.study.factors.directions import FORWARD


@dataclass(frozen=True)
class IntervalFormat:
    """What many intervals of a run have in common."""

    value_names: tuple[str, ...]
    """Names of the values, in their order."""
    stream_number: int | None = None
    direction: str = FORWARD
    is_omitted: bool = False


class _PackedColumn:
    """The values of one name, NaN in intervals that have none.

    The ranges are stored from the first rounded value on.
    """

    def __init__(self, interval_count: int) -> None:
        self.values = array("d", (nan,)) * interval_count
        self.bounds: tuple[array[float], array[float]] | None = None

    def extend(self, column: ValueColumn) -> None:
        """Append values."""
        if self.bounds is None and not column.is_exact:
            self.bounds = self.values[:], self.values[:]
        self.values.frombytes(column.values.tobytes())
        for stored, new in zip(self.bounds or (), (column.lows, column.highs), strict=False):
            stored.frombytes(new.tobytes())

    def append_unrounded(self, value: float) -> None:
        """Append a value that was not rounded."""
        for stored in (self.values, *(self.bounds or ())):
            stored.append(value)

    @property
    def lows(self) -> array[float]:
        """The lower ends of the ranges."""
        return self.bounds[0] if self.bounds else self.values

    @property
    def highs(self) -> array[float]:
        """The upper ends of the ranges."""
        return self.bounds[1] if self.bounds else self.values

    def to_value_column(self) -> ValueColumn:
        """Return a copy as a column."""
        values = np.array(self.values)
        if self.bounds is None:
            return ValueColumn.exact(values)
        return ValueColumn(values, np.array(self.lows), np.array(self.highs))


class PackedIntervals(Sequence[ReportInterval]):
    """Intervals as columns of plain numbers: about 80 bytes each, where a `ReportInterval` takes 2 kB."""

    def __init__(self) -> None:
        self._formats: list[IntervalFormat] = []
        self._index_by_format: dict[IntervalFormat, int] = {}
        self._format_indexes = array("I")
        self._starts_s = array("d")
        self._ends_s = array("d")
        self._columns: dict[str, _PackedColumn] = {}

    @classmethod
    def of_columns(
        cls, starts_s: Floats, ends_s: Floats, columns: Mapping[str, ValueColumn], direction: str = FORWARD
    ) -> PackedIntervals:
        """Return intervals of all streams together. NaN stands for a value that an interval does not have."""
        intervals = cls()
        intervals.extend_columns(starts_s, ends_s, columns, direction)
        return intervals

    def extend_columns(
        self, starts_s: Floats, ends_s: Floats, columns: Mapping[str, ValueColumn], direction: str
    ) -> None:
        """Append intervals of all streams together. NaN stands for a value that an interval does not have."""
        if not len(starts_s):
            return
        kinds = np.zeros(len(starts_s), dtype=np.intp)
        for at, column in enumerate(columns.values()):
            kinds += np.left_shift(~np.isnan(column.values), at, dtype=np.intp)
        kind_by_row = kinds.tolist()
        number_by_kind = {}
        for kind in dict.fromkeys(kind_by_row):
            names = tuple(name for at, name in enumerate(columns) if kind >> at & 1)
            number_by_kind[kind] = self.register_format(IntervalFormat(names, direction=direction))
        self.extend([number_by_kind[kind] for kind in kind_by_row], starts_s, ends_s, columns)

    def register_format(self, interval_format: IntervalFormat) -> int:
        """Return the number by which `extend` and `append_exact_interval` know a format."""
        number = self._index_by_format.setdefault(interval_format, len(self._formats))
        if number == len(self._formats):
            self._formats.append(interval_format)
        return number

    def extend(
        self,
        format_indexes: Iterable[int],
        starts_s: Sequence[float] | Floats,
        ends_s: Sequence[float] | Floats,
        columns: Mapping[str, ValueColumn],
    ) -> None:
        """Append intervals. Each column has as many values as there are intervals."""
        for name in columns:
            self._columns.setdefault(name, _PackedColumn(len(self)))
        self._format_indexes.extend(format_indexes)
        self._starts_s.frombytes(np.asarray(starts_s, dtype=np.float64).tobytes())
        self._ends_s.frombytes(np.asarray(ends_s, dtype=np.float64).tobytes())
        for name, packed in self._columns.items():
            packed.extend(
                columns[name] if name in columns else ValueColumn.exact(np.full(len(starts_s), nan))
            )

    def append_exact_interval(
        self, format_index: int, start_s: float, end_s: float, values: Mapping[str, float]
    ) -> None:
        """Append an interval whose values were not rounded."""
        for name in values:
            if name not in self._columns:
                self._columns[name] = _PackedColumn(len(self))
        self._format_indexes.append(format_index)
        self._starts_s.append(start_s)
        self._ends_s.append(end_s)
        for name, packed in self._columns.items():
            packed.append_unrounded(values.get(name, nan))

    def overwrite_last_times(self, interval_count: int, start_s: float, end_s: float) -> None:
        """Set the times of the last `interval_count` intervals."""
        first = len(self) - interval_count
        self._starts_s[first:] = array("d", (start_s,)) * interval_count
        self._ends_s[first:] = array("d", (end_s,)) * interval_count

    def replace_formats(self, replace_format: Callable[[IntervalFormat], IntervalFormat]) -> None:
        """Replace every format, because the direction or the stream may be known only at the end of a run."""
        self._formats = [replace_format(each) for each in self._formats]

    def sum_all_streams_intervals(self, value_name: str, direction: str) -> float:
        """Return the sum of a value over all intervals of all streams together, without omitted ones."""
        numbers = {
            number
            for number, each in enumerate(self._formats)
            if each.stream_number is None and each.direction == direction and not each.is_omitted
            if value_name in each.value_names
        }
        if not numbers:
            return 0
        rows = zip(self._format_indexes, self._columns[value_name].values, strict=True)
        return sum(value for number, value in rows if number in numbers)

    def count_distinct_times_by_direction(self) -> Counter[str]:
        """Return how many distinct times the intervals of each direction have, if those of a time adjoin."""
        starts_s, ends_s = np.array(self._starts_s), np.array(self._ends_s)
        numbers = np.array(self._format_indexes, dtype=np.intp)
        is_omitted = np.array([each.is_omitted for each in self._formats], dtype=np.bool_)[numbers]
        is_valid = ends_s > starts_s
        times = np.stack((starts_s, ends_s, is_omitted))[:, is_valid]
        groups = np.cumsum((times[:, 1:] != times[:, :-1]).any(axis=0))
        groups = np.concatenate(([0], groups))[: is_valid.sum()]
        pairs = set(zip(groups.tolist(), numbers[is_valid].tolist(), strict=True))
        return Counter(
            direction
            for _, direction in {(group, self._formats[number].direction) for group, number in pairs}
        )

    def drop_invalid(self) -> PackedIntervals:
        """Return the intervals that do not end before they start.

        Raises:
            ValueError: A value is not a finite number.
        """
        if not len(self):
            return self
        format_indexes = np.array(self._format_indexes, dtype=np.uint32)
        for name, packed in self._columns.items():
            has_value = np.array([name in each.value_names for each in self._formats], dtype=bool)
            column = packed.to_value_column()
            is_valid = (-inf < column.lows) & (column.lows <= column.values)
            is_valid &= (column.values <= column.highs) & (column.highs < inf)
            if not np.all(is_valid | ~has_value[format_indexes]):
                raise ValueError("a value is not a finite number")
        starts_s, ends_s = np.array(self._starts_s), np.array(self._ends_s)
        is_kept = (starts_s >= 0) & (starts_s <= ends_s) & (ends_s < inf)
        if is_kept.all():
            return self
        kept = PackedIntervals()
        kept._formats, kept._index_by_format = self._formats, self._index_by_format
        columns = {name: packed.to_value_column().select(is_kept) for name, packed in self._columns.items()}
        kept.extend(format_indexes[is_kept].tolist(), starts_s[is_kept], ends_s[is_kept], columns)
        return kept

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
        interval_format = self._formats[self._format_indexes[row]]
        columns = {name: self._columns[name] for name in interval_format.value_names}
        return ReportInterval(
            self._starts_s[row],
            self._ends_s[row],
            {
                name: RoundedValue(packed.values[row], packed.lows[row], packed.highs[row])
                for name, packed in columns.items()
            },
            interval_format.stream_number,
            interval_format.direction,
            interval_format.is_omitted,
        )

    def __iter__(self) -> Iterator[ReportInterval]:
        columns_by_format = [
            [
                (name, self._columns[name].values, self._columns[name].lows, self._columns[name].highs)
                for name in each.value_names
            ]
            for each in self._formats
        ]
        rows = zip(self._format_indexes, self._starts_s, self._ends_s, strict=True)
        for row, (number, start_s, end_s) in enumerate(rows):
            each = self._formats[number]
            values = {
                name: RoundedValue(numbers[row], lows[row], highs[row])
                for name, numbers, lows, highs in columns_by_format[number]
            }
            yield ReportInterval(start_s, end_s, values, each.stream_number, each.direction, each.is_omitted)
