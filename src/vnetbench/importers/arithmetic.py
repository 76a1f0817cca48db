"""Sums, products and quotients of reported values, with their rounding ranges."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from vnetbench.importers.runs import RoundedValue


def sum_values(values: Iterable[RoundedValue]) -> RoundedValue:
    """Return the sum of the values."""
    terms = list(values)
    return RoundedValue(sum(x.value for x in terms), sum(x.low for x in terms), sum(x.high for x in terms))


def scale_value(value: RoundedValue, factor: float) -> RoundedValue:
    """Return the value times a factor that is not negative."""
    return RoundedValue(value.value * factor, value.low * factor, value.high * factor)


def divide_values(dividend: RoundedValue, divisor: RoundedValue) -> RoundedValue:
    """Return the quotient of two values that are not negative.

    Raises:
        ZeroDivisionError: The divisor may be zero.
    """
    return RoundedValue(
        dividend.value / divisor.value, dividend.low / divisor.high, dividend.high / divisor.low
    )


def choose_more_precise(one: RoundedValue, other: RoundedValue) -> RoundedValue:
    """Return the one of two reports of the same number that was rounded less."""
    return min((one, other), key=lambda each: each.high - each.low)


def has_observation_beyond(observation_count: int, percent: float) -> bool:
    """Return whether at least one of these observations lies beyond this percentile.

    Many tools print their maximum under the name of a percentile with fewer observations.
    """
    tail_percent = 100 - Fraction(str(percent))  # 100 - 99.9 is less than 0.1 as a float.
    return observation_count * tail_percent >= 100


def mean_value(values: Iterable[RoundedValue]) -> RoundedValue:
    """Return the mean of at least one value."""
    terms = list(values)
    return scale_value(sum_values(terms), 1 / len(terms))
