"""An estimate as a bar of characters with whiskers for its interval: `━━━━━├─●─┤`."""

from __future__ import annotations

from vnetbench.estimate.model import Estimate


def draw_bar(estimate: Estimate, largest: float, width: int) -> str:
    """A bar from zero, where `largest` would end at `width` characters.

    `●` is the value, `├` and `┤` the interval's ends, `○` a value without an interval, `◆` each of two
    modes. An interval narrower than a character is the dot alone.
    """
    if largest <= 0 or width < 1:
        return ""

    def place(value: float) -> int:
        return min(width - 1, max(0, round(value / largest * width) - 1))

    if estimate.modes:
        first, *_, last = (place(mode.value) for mode in estimate.modes)
        return _join_marks({first: "◆", last: "◆"}, first, last, inner="╌")
    at = place(estimate.value)
    if estimate.low is None or estimate.high is None:
        return _join_marks({at: "○"}, at, at)
    low, high = place(estimate.low), place(estimate.high)
    return _join_marks({low: "├", high: "┤", at: "●"}, low, high)


def max_bar_value(estimates: list[Estimate]) -> float:
    """What the longest bar has to reach: the highest value, interval's end or mode."""
    ends = [each.value if each.high is None else each.high for each in estimates]
    return max([*ends, *(mode.value for each in estimates for mode in each.modes)], default=0.0)


def _join_marks(marks: dict[int, str], low: int, high: int, inner: str = "─") -> str:
    return "━" * low + "".join(marks.get(place, inner) for place in range(low, high + 1))
