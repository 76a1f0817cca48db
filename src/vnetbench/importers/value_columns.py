"""Columns of reported values: the numbers of very many rows, with the ranges that round to them.

The functions return, to the last bit, what `units` and `arithmetic` return for single values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.units import parse_rounded

Floats = npt.NDArray[np.float64]

_PLAIN_NUMBERS_PATTERN = re.compile(r"[-\d.]*", re.ASCII)
_MAX_PLAIN_NUMBER_CHARACTERS = 16
"""Longest number whose digits a float holds exactly."""
_MIN_ROWS_FOR_ARRAYS = 16
"""Fewest values for which arrays are faster than single values."""
_MAX_CACHED_TEXTS = 2**16
_POWERS_OF_TEN = 10.0 ** np.arange(_MAX_PLAIN_NUMBER_CHARACTERS)


@dataclass(frozen=True)
class ValueColumn:
    """Values of many rows: three arrays of the same length. NaN stands for a value that a row lacks."""

    values: Floats
    lows: Floats
    highs: Floats

    @classmethod
    def exact(cls, numbers: npt.ArrayLike) -> ValueColumn:
        """Return numbers that were not rounded."""
        values = np.asarray(numbers, dtype=np.float64)
        return cls(values, values, values)

    @classmethod
    def of_values(cls, values: Sequence[RoundedValue]) -> ValueColumn:
        """Return single values as a column."""
        return cls(
            np.array([each.value for each in values]),
            np.array([each.low for each in values]),
            np.array([each.high for each in values]),
        )

    @classmethod
    def of_table(cls, table: Floats) -> ValueColumn:
        """Return the column of `to_table`."""
        return cls(table[:, 0], table[:, 1], table[:, 2])

    def to_table(self) -> Floats:
        """Return values, lower and upper ends as an array of the shape (n, 3)."""
        return np.column_stack((self.values, self.lows, self.highs))

    def __len__(self) -> int:
        return len(self.values)

    def select(self, rows: npt.NDArray[np.bool_]) -> ValueColumn:
        """Return the values of the rows that the mask selects."""
        return self._map(lambda numbers: numbers[rows])

    @property
    def is_exact(self) -> bool:
        """Whether no value was rounded."""
        return self.lows is self.values and self.highs is self.values

    def replace(self, rows: npt.NDArray[np.bool_], number: float) -> ValueColumn:
        """Return the column with this exact value in the rows that the mask selects."""
        return self._map(lambda numbers: np.where(rows, number, numbers))

    def scale(self, factors: float | Floats) -> ValueColumn:
        """Return the values times factors that are not negative, one for all or one for each."""
        return self._map(lambda numbers: numbers * factors)

    def _map(self, function: Callable[[Floats], Floats]) -> ValueColumn:
        if self.is_exact:
            return ValueColumn.exact(function(self.values))
        return ValueColumn(function(self.values), function(self.lows), function(self.highs))


def parse_floats(texts: Sequence[str]) -> Floats:
    """Return the numbers, NaN for an empty text. Raises ValueError if one of the texts is no number."""
    if not all(texts):
        texts = [text or "nan" for text in texts]
    return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))


def parse_rounded_column(texts: Sequence[str], scale: float | Sequence[float] | Floats = 1.0) -> ValueColumn:
    """Return printed numbers times `scale`, one factor for all or one for each (`units.parse_rounded`).

    Raises:
        ValueError: A text is not a finite number.
    """
    is_plain = (
        len(texts) >= _MIN_ROWS_FOR_ARRAYS
        and _PLAIN_NUMBERS_PATTERN.fullmatch("".join(texts)) is not None
        and max(map(len, texts)) <= _MAX_PLAIN_NUMBER_CHARACTERS
    )
    if not is_plain:
        return _parse_each(texts, scale)
    try:
        values = parse_floats(texts)
    except ValueError:
        return _parse_each(texts, scale)
    units_per_one = _POWERS_OF_TEN[_count_decimals(texts)]
    half_units = 2 * np.rint(values * units_per_one)
    lows, highs = (half_units - 1) / (2 * units_per_one), (half_units + 1) / (2 * units_per_one)
    return ValueColumn(values, lows, highs).scale(np.asarray(scale, dtype=np.float64))


def _count_decimals(texts: Sequence[str]) -> npt.NDArray[np.intp]:
    """Return the number of decimals of plain numbers, each with one point at most."""
    characters = np.frombuffer(("\n".join(texts) + "\n").encode(), dtype=np.uint8)
    points, ends = np.flatnonzero(characters == ord(".")), np.flatnonzero(characters == ord("\n"))
    if len(points) < len(ends):
        has_point = np.zeros(len(ends), dtype=np.bool_)
        has_point[np.searchsorted(ends, points)] = True
        decimals = np.zeros(len(ends), dtype=np.intp)
        decimals[has_point] = ends[has_point] - points - 1
        return decimals
    return ends - points - 1


def _parse_each(texts: Sequence[str], scale: float | Sequence[float] | Floats) -> ValueColumn:
    factors = repeat(float(scale)) if isinstance(scale, int | float) else map(float, scale)
    return ValueColumn.of_values(
        [parse_rounded(text, factor) for text, factor in zip(texts, factors, strict=False)]
    )


def unit_factors(units: Sequence[str], factor_by_unit: Mapping[str, float]) -> Floats:
    """Return the factor of each row's unit. Raises ValueError for an unknown unit."""
    try:
        return np.fromiter(map(factor_by_unit.__getitem__, units), dtype=np.float64, count=len(units))
    except KeyError as error:
        raise ValueError(f"unknown unit: {error.args[0]!r}") from error


def choose_more_precise_value_per_row(one: ValueColumn, other: ValueColumn) -> ValueColumn:
    """Return for each row the one of two reports of the same number that was rounded less."""
    is_other_better = other.highs - other.lows < one.highs - one.lows
    return ValueColumn(
        np.where(is_other_better, other.values, one.values),
        np.where(is_other_better, other.lows, one.lows),
        np.where(is_other_better, other.highs, one.highs),
    )


def divide_columns(dividend: ValueColumn, divisor: ValueColumn) -> ValueColumn:
    """Return the quotients of values that are not negative. The divisors are not zero."""
    return ValueColumn(
        dividend.values / divisor.values, dividend.lows / divisor.highs, dividend.highs / divisor.lows
    )


class CachedNumbers:
    """The numbers of texts that occur again and again: `12.3 MBytes`, or `0.00-1.00` for all streams.

    An empty text stands for NaN.
    """

    def __init__(self, width: int, parse: Callable[[Sequence[str]], Floats]) -> None:
        """Create an empty cache.

        Args:
            width: Numbers for each text.
            parse: Returns the numbers of n texts, with the shape (n, width).
        """
        self._parse = parse
        self._table = np.full((_MIN_ROWS_FOR_ARRAYS, width), np.nan)
        self._row_by_text = {"": 0}

    def parse(self, texts: Sequence[str]) -> Floats:
        """Return the numbers of n texts, with the shape (n, width). Raises what the parser raises."""
        try:
            rows = list(map(self._row_by_text.__getitem__, texts))
        except KeyError:
            self._add_new_texts(texts)
            rows = list(map(self._row_by_text.__getitem__, texts))
        return self._table[rows]

    def _add_new_texts(self, texts: Sequence[str]) -> None:
        if len(self._row_by_text) >= _MAX_CACHED_TEXTS:
            self._row_by_text = {"": 0}
        new = [text for text in dict.fromkeys(texts) if text not in self._row_by_text]
        first, stop = len(self._row_by_text), len(self._row_by_text) + len(new)
        numbers = self._parse(new)
        if stop > len(self._table):
            self._table = np.concatenate((self._table[:first], np.empty((stop, self._table.shape[1]))))
        self._table[first:stop] = numbers
        self._row_by_text.update(zip(new, range(first, stop), strict=True))


def cache_values(parse: Callable[[str], RoundedValue]) -> Callable[[Sequence[str]], ValueColumn]:
    """Return a function that parses a column, each of its texts only once. An empty text becomes NaN."""
    cached = CachedNumbers(3, lambda texts: ValueColumn.of_values(list(map(parse, texts))).to_table())
    return lambda texts: ValueColumn.of_table(cached.parse(texts))
