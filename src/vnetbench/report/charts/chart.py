"""A chart: its specification, its data and its texts."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import VegaSpec


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification without data, the rows of its dataset, and its name, title and caption."""

    name: str
    title: str
    caption: str
    spec: VegaSpec
    rows: list[ChartRow]
