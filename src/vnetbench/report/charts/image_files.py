"""Charts as image files: PNG files for `vnetbench report --png`, and SVG images for the page."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import vl_convert

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.model import Finding
from vnetbench.report.charts.campaign_charts import main_charts, other_metric_charts, trial_charts
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_specs import DATASET_NAME
from vnetbench.report.charts.file_comparison import compare_files
from vnetbench.report.charts.finding_charts import finding_chart
from vnetbench.report.charts.theme import vega_config
from vnetbench.report.charts.time_charts import time_use_chart
from vnetbench.report.one_at_a_time import merge_sparse_design_into_one_factor
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.report.text.evidence_text import split_first_sentence
from vnetbench.report.text.stored_narrative import read_or_build_narrative

_MAX_CAPTION_CHARS, _MAX_TITLE_CHARS = 100, 75
"""Line lengths of captions and titles."""
_PNG_PIXELS_PER_CHART_PIXEL = 2
"""Pixels per point."""
_IMAGE_PADDING_PX = 24


def write_pngs(summaries: Sequence[CampaignSummary], directory: Path) -> list[Path]:
    """Write each chart as a PNG in light colours into `directory`, which is created if necessary.

    For several files, the charts of the comparison go into `directory` and those of each file into a
    sub-folder with its name.
    """
    comparison = compare_files(summaries)
    if comparison is None:
        return [path for summary in summaries for path in _write_campaign_pngs(summary, directory)]
    directory.mkdir(parents=True, exist_ok=True)
    title = ", ".join(name for name, _ in comparison.files)
    charts = (*comparison.main_charts, *comparison.other_metric_charts)
    paths = [_write_png(chart, title, (), directory) for chart in charts]
    for name, summary in comparison.files:
        paths += _write_campaign_pngs(summary, directory / name.replace("/", "_").replace(":", "-"))
    return paths


def render_svg(chart: Chart) -> str:
    """Return the chart as an SVG in light colours, without single trials to keep it small."""
    rows = [row for row in chart.rows if row.get("kind") != "trial"]
    spec = {**chart.spec, "datasets": {DATASET_NAME: rows}, "config": vega_config(dark=False)}
    return str(vl_convert.vegalite_to_svg(json.dumps(spec)))


def _write_campaign_pngs(summary: CampaignSummary, directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    findings = read_or_build_narrative(summary).findings
    summary = merge_sparse_design_into_one_factor(summary)
    charts = [*main_charts(summary), *other_metric_charts(summary), *trial_charts(summary)]
    if time := time_use_chart(summary):
        charts.insert(1, time)
    warnings = emulation_warnings(summary)
    paths = [_write_png(chart, summary.title, warnings, directory) for chart in charts]
    for number, finding in enumerate(findings, 1):
        if chart := finding_chart(summary, finding, number):
            renamed = replace(chart, name=f"{chart.name}-{_file_name_part_of_finding(finding)}")
            sentences = (split_first_sentence(finding)[0], *warnings)
            paths.append(_write_png(renamed, summary.title, sentences, directory))
    return paths


def _file_name_part_of_finding(finding: Finding) -> str:
    """Return the cause or the kind of a finding as a part of a file name."""
    return str(finding.details.get("cause", finding.kind)).replace(" ", "-")


def _write_png(chart: Chart, title: str, sentences: Sequence[str], directory: Path) -> Path:
    """Write the chart below `title`, with `sentences` before its caption."""
    path = directory / f"{chart.name}.png"
    caption = textwrap.wrap(" ".join((*sentences, chart.caption)), _MAX_CAPTION_CHARS)
    spec = {
        **chart.spec,
        "title": {"text": textwrap.wrap(title, _MAX_TITLE_CHARS), "subtitle": [chart.title, *caption]},
        "datasets": {DATASET_NAME: chart.rows},
        "config": {**vega_config(dark=False), "padding": _IMAGE_PADDING_PX},
    }
    path.write_bytes(vl_convert.vegalite_to_png(json.dumps(spec), scale=_PNG_PIXELS_PER_CHART_PIXEL))
    return path
