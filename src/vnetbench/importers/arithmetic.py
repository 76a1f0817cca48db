"""Sums, products and quotients of reported values, with their rounding ranges."""

from __future__ import annotations

from collections.abc import Iterable

from vnetbench.importers.runs import ReportedValue


def sum_values(values: Iterable[ReportedValue]) -> ReportedValue:
    """Return the sum of the values."""
    terms = list(values)
    return ReportedValue(sum(x.value for x in terms), sum(x.low for x in terms), sum(x.high for x in terms))


def scale(value: ReportedValue, factor: float) -> ReportedValue:
    """Return the value times a factor that is not negative."""
    return ReportedValue(value.value * factor, value.low * factor, value.high * factor)


def divide(dividend: ReportedValue, divisor: ReportedValue) -> ReportedValue:
    """Return the quotient of two values that are not negative.

    Raises:
        ZeroDivisionError: The divisor may be zero.
    """
    return ReportedValue(
        dividend.value / divisor.value, dividend.low / divisor.high, dividend.high / divisor.low
    )


def more_precise(one: ReportedValue, other: ReportedValue) -> ReportedValue:
    """Return the one of two reports of the same number that was rounded less."""
    return min((one, other), key=lambda each: each.high - each.low)


def mean_value(values: Iterable[ReportedValue]) -> ReportedValue:
    """Return the mean of at least one value."""
    terms = list(values)
    return scale(sum_values(terms), 1 / len(terms))
