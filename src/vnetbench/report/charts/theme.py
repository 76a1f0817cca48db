"""The style of the charts: fonts and colours for light and dark pages, safe for colour blindness."""

from __future__ import annotations

from typing import Any

FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, 'Liberation Sans', Arial, sans-serif"

_LIGHT_SERIES_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#A14E86", "#B87A00", "#3A95C9", "#5B5F66"]
_DARK_SERIES_COLOURS = ["#5DB3E8", "#F08A4B", "#3CC79B", "#DD9BC4", "#E9B949", "#A5D4F0", "#B5BAC2"]
"""The hues of Okabe and Ito (Color Universal Design, 2008), adjusted to a contrast of 3:1."""


def vega_config(dark: bool) -> dict[str, Any]:
    """Return a Vega-Lite `config` with fonts and palettes.

    The charts contain no colours, so the same chart works on light and dark pages.
    """
    ink, soft, faint, paper = (
        ("#E7E9EC", "#A2A9B3", "#2E343C", "#15181C") if dark else ("#1C2024", "#5F6772", "#E6E8EB", "#FFFFFF")
    )
    first = (_DARK_SERIES_COLOURS if dark else _LIGHT_SERIES_COLOURS)[0]
    label = {
        "labelColor": soft,
        "labelFontSize": 12,
        "titleColor": soft,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "font": FONT,
        "background": "transparent" if dark else paper,
        "padding": 4,
        "view": {"stroke": None},
        "axis": {
            **label,
            "domain": False,
            "ticks": False,
            "labelPadding": 6,
            "titlePadding": 10,
            "gridColor": faint,
            "gridWidth": 1,
        },
        "axisX": {"grid": False, "domain": True, "domainColor": soft, "ticks": True, "tickColor": soft,
                  "tickSize": 4, "labelFlush": 12},
        "header": {"labelAnchor": "start", "labelColor": ink, "labelFontSize": 13, "labelFontWeight": 600,
                   "titleColor": soft, "labelPadding": 12},
        "legend": {
            **label,
            "labelColor": ink,
            "orient": "top",
            "direction": "horizontal",
            "symbolSize": 70,
            "columnPadding": 18,
            "offset": 14,
            "labelLimit": 260,
        },
        "title": {"color": ink, "subtitleColor": soft, "fontSize": 17, "subtitleFontSize": 12,
                  "anchor": "start", "offset": 18, "subtitlePadding": 6, "subtitleLineHeight": 16},
        "range": {
            "category": _DARK_SERIES_COLOURS if dark else _LIGHT_SERIES_COLOURS,
            "ordinal": {"scheme": "plasma", "extent": [0.3, 1.0] if dark else [0.0, 0.8]},
            "heatmap": {"scheme": "viridis"},
            "ramp": {"scheme": "viridis"},
        },
        "text": {"color": ink, "fontSize": 11},
        "style": {"soft": {"color": soft}, "ink": {"color": ink},
                  "segment": {"stroke": paper, "strokeWidth": 1}},
        **{mark: {"color": first} for mark in ("rule", "tick", "point", "line", "bar")},
    }  # fmt: skip
