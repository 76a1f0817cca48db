"""The rows of the charts of time: one row per use of time in a treatment's bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vnetbench.estimate.evidence.time_accounting.account import TimeShares
from vnetbench.estimate.evidence.time_accounting.time_uses import RECEIVER, SENDER, TIME_USE_BY_NAME
from vnetbench.estimate.treatment_time import MIN_NAMED_SHARE, TreatmentTimeShares, named_time_uses
from vnetbench.report.charts.chart_rows import ChartRow, round_for_chart
from vnetbench.report.charts.factor_layout import FactorLayout, is_numeric_except_one_word
from vnetbench.study.model import FactorLevels
from vnetbench.wording.factor_text import capitalize_sentence, factor_names, level_text, treatment_phrase

OTHER_USES_LABEL = f"other uses, each below {MIN_NAMED_SHARE:.0%}".replace("%", " %")
_MIN_SHARE_WITH_TEXT = 0.12
"""A narrower segment has no room for its percentage."""
_DARK_TEXT, _LIGHT_TEXT = "dark", "light"

# One hue per part. Each colour is readable on light and dark pages, and differs from its neighbours.
_THREAD_COLOURS = {
    SENDER: ("#08519c", "#3f8fd0", "#86bce8", "#5b6bb8", "#b3cdea", "#9a9fd6", "#34407f"),
    RECEIVER: ("#a63603", "#e6702e", "#f9a663", "#b5651d", "#f7c79a", "#d98c5f", "#7d3a20"),
}
_NETWORK_COLOURS = (
    "#1b5e3a", "#3b8f5a", "#12776f", "#7fbf8c", "#4fa79c", "#8fcdc4", "#5f7f2e", "#9dbb5b", "#c3d98f",
)  # fmt: skip
_LOAD_COLOURS = ("#7a828c",)
OTHER_USES_COLOUR = "#b5bac2"


def _colours_by_use() -> dict[str, str]:
    colours_by_part = {**_THREAD_COLOURS, "network": _NETWORK_COLOURS, "load": _LOAD_COLOURS}
    by_use: dict[str, str] = {}
    for part, colours in colours_by_part.items():
        names = [use.name for use in TIME_USE_BY_NAME.values() if use.part == part]
        by_use |= dict(zip(names, colours, strict=True))
    return by_use


COLOUR_BY_TIME_USE = _colours_by_use()
"""The fill colour of each use of time: blue for sender, orange for receiver, green for network."""


@dataclass(frozen=True)
class TimeBarLayout:
    """The factor with a bar per level, and the factors whose combinations make the panels."""

    bar_factor: FactorLevels | None
    """None for a single bar."""
    panel_factors: tuple[FactorLevels, ...]

    def bar_label(self, item: TreatmentTimeShares) -> str:
        """Return the label beside the treatment's bar; empty for a single bar."""
        factor = self.bar_factor
        return "" if factor is None else level_text(factor.name, item.treatment.factors[factor.name])

    def panel_label(self, item: TreatmentTimeShares) -> str:
        """Return the title of the treatment's panel; empty without panels."""
        if not self.panel_factors:
            return ""
        label = treatment_phrase(item.treatment.factors, factor_names(self.panel_factors))
        return capitalize_sentence(label)


def lay_out_time_bars(layout: FactorLayout) -> TimeBarLayout:
    """Give the factor of the x axis a bar per level, or without one the factor with the most levels."""
    bars = layout.x_factor or max(layout.varying, key=_rank_as_bar_factor, default=None)
    return TimeBarLayout(bars, tuple(factor for factor in layout.varying if factor is not bars))


def _rank_as_bar_factor(factor: FactorLevels) -> tuple[int, bool]:
    return len(factor.levels), is_numeric_except_one_word(factor)


def shown_time_uses(items: Sequence[TreatmentTimeShares]) -> list[str]:
    """Return the uses of time that have their own colour in the chart of these treatments."""
    return named_time_uses([item.shares for item in items])


def time_rows(
    items: Sequence[TreatmentTimeShares], bars: TimeBarLayout, names: Sequence[str]
) -> list[ChartRow]:
    """Return the segments of each treatment's bar in percent; the uses not in `names` are one segment."""
    everything = factor_names((*((bars.bar_factor,) if bars.bar_factor else ()), *bars.panel_factors))
    rows: list[ChartRow] = []
    for item in items:
        base = {
            "treatment": treatment_phrase(item.treatment.factors, everything),
            "panel": bars.panel_label(item),
            "bar": bars.bar_label(item),
        }
        rows += [{**base, **segment} for segment in _bar_segment_rows(item.shares, names)]
    return rows


def _bar_segment_rows(shares: TimeShares, names: Sequence[str]) -> Iterator[ChartRow]:
    """Yield the segments of one bar; the last one ends at exactly 100 %."""
    other = sum(share for name, share in shares.items() if name not in names)
    parts = [
        (TIME_USE_BY_NAME[name].label, COLOUR_BY_TIME_USE[name], shares.get(name, 0.0)) for name in names
    ]
    total = 0.0
    for label, colour, share in (*parts, (OTHER_USES_LABEL, OTHER_USES_COLOUR, other)):
        start, total = total, total + share
        if share > 0:
            yield {
                "use": label,
                "start": round_for_chart(100 * min(start, 1.0)),
                "end": round_for_chart(100 * min(total, 1.0)),
                "percent": round_for_chart(100 * min(share, 1.0)),
                "text": f"{100 * share:.0f} %" if share >= _MIN_SHARE_WITH_TEXT else "",
                "text_colour": _LIGHT_TEXT if _is_dark(colour) else _DARK_TEXT,
            }


def _is_dark(colour: str) -> bool:
    """Return whether white text is easier to read on the colour than black text (WCAG 2, contrast ratio)."""
    channels = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    linear = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels)
    luminance = sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return luminance < 0.179
