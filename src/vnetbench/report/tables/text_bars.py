"""An estimate as a bar of characters with its interval as whiskers: `━━━━━├─●─┤`."""

from __future__ import annotations

from vnetbench.estimate.model import Estimate


def draw_estimate_bar(estimate: Estimate, largest: float, width: int) -> str:
    """Return a bar from zero on a scale where `largest` is `width` characters long.

    `●` is the value, `├` and `┤` are the ends of the interval, `○` is a value without an interval, and each
    `◆` is one of two modes. An interval narrower than a character is a dot.
    """
    if largest <= 0 or width < 1:
        return ""

    def to_position(value: float) -> int:
        return min(width - 1, max(0, round(value / largest * width) - 1))

    if estimate.modes:
        first, *_, last = (to_position(mode.value) for mode in estimate.modes)
        return _draw_bar_with_interval_and_marks({first: "◆", last: "◆"}, first, last, fill="╌")
    value = to_position(estimate.value)
    if estimate.low is None or estimate.high is None:
        return _draw_bar_with_interval_and_marks({value: "○"}, value, value)
    low, high = to_position(estimate.low), to_position(estimate.high)
    return _draw_bar_with_interval_and_marks({low: "├", high: "┤", value: "●"}, low, high)


def largest_bar_end_value(estimates: list[Estimate]) -> float:
    """Return the largest value, interval end or mode: the end of the longest bar."""
    ends = [each.value if each.high is None else each.high for each in estimates]
    return max([*ends, *(mode.value for each in estimates for mode in each.modes)], default=0.0)


def _draw_bar_with_interval_and_marks(marks: dict[int, str], low: int, high: int, fill: str = "─") -> str:
    return "━" * low + "".join(marks.get(position, fill) for position in range(low, high + 1))
