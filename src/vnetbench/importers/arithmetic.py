"""Sums, products and quotients of told figures, whose rounding goes along."""

from __future__ import annotations

from collections.abc import Iterable

from vnetbench.importers.runs import Figure


def total(figures: Iterable[Figure]) -> Figure:
    """All of them together."""
    them = list(figures)
    return Figure(sum(f.value for f in them), sum(f.low for f in them), sum(f.high for f in them))


def times(figure: Figure, factor: float) -> Figure:
    """It so many times; the factor is not negative."""
    return Figure(figure.value * factor, figure.low * factor, figure.high * factor)


def over(figure: Figure, divisor: Figure) -> Figure:
    """A quotient of two that are not negative. Raises ZeroDivisionError where the divisor may be nothing."""
    return Figure(figure.value / divisor.value, figure.low / divisor.high, figure.high / divisor.low)


def narrower(one: Figure, other: Figure) -> Figure:
    """Of two tellings of one number that which rounding left better known."""
    return min((one, other), key=lambda f: f.high - f.low)


def mean(figures: Iterable[Figure]) -> Figure:
    """The mean of at least one."""
    them = list(figures)
    return times(total(them), 1 / len(them))
