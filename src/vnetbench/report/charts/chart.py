"""What a chart is."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import VegaSpec


@dataclass(frozen=True)
class Chart:
    """One chart: a Vega-Lite specification without data, its rows, and the words around it."""

    name: str
    title: str
    caption: str
    spec: VegaSpec
    rows: list[ChartRow]
