"""The charts of findings: every type renders and shows its threshold as a line."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import vl_convert

from tests.explain.comparisons.simulated import campaign, treatment
from tests.report.explanations import BARS, COURSE, EXPLANATION, FACTORS, KNEE, LIMIT, MODES, UNEXPLAINED
from vnetbench.explain.comparisons.instability import instability_findings
from vnetbench.explain.model import EvidenceChart, Finding
from vnetbench.report.charts.chart_specs import DATASET_NAME
from vnetbench.report.charts.evidence_charts import evidence_chart
from vnetbench.report.charts.theme import vega_config
from vnetbench.study.model import FactorLevels


def render_finding_svg(finding: Finding, *, dark: bool = False) -> str:
    chart = evidence_chart(finding, 1)
    assert chart is not None
    spec = {**chart.spec, "datasets": {DATASET_NAME: chart.rows}, "config": vega_config(dark=dark)}
    return str(vl_convert.vegalite_to_svg(json.dumps(spec)))


@pytest.mark.parametrize("finding", [LIMIT, MODES, FACTORS, KNEE, COURSE, BARS], ids=lambda each: each.kind)
@pytest.mark.parametrize("dark", [False, True])
def test_every_chart_type_renders(finding: Finding, dark: bool) -> None:
    assert "mark-" in render_finding_svg(finding, dark=dark)


def test_a_finding_without_a_chart_shows_the_evidence_of_its_first_candidate_with_thresholds() -> None:
    chart = evidence_chart(LIMIT, 1)
    assert chart is not None and len(chart.rows) == 4
    assert chart.rows[0]["panel"].startswith("receiver thread") or "99.1" in chart.rows[0]["panel"]
    assert [row["threshold"] for row in chart.rows] == [95.0, 50.0, 50.0, None]
    assert chart.rows[3]["value"] == pytest.approx(18.25)
    svg = render_finding_svg(LIMIT)
    assert svg.count("stroke-dasharray") == 3


def test_a_threshold_is_a_dashed_line_and_effects_have_one_at_one() -> None:
    for finding in (KNEE, COURSE, FACTORS):
        assert "stroke-dasharray" in render_finding_svg(finding)
    assert "stroke-dasharray" not in render_finding_svg(MODES)


def test_a_caption_can_consist_of_the_threshold_alone() -> None:
    assert BARS.chart is not None
    chart = evidence_chart(replace(BARS, chart=replace(BARS.chart, threshold=90.0)), 1)
    assert chart is not None and chart.caption == "The dashed line is the threshold."


def test_a_drift_is_shown_over_the_blocks() -> None:
    values = [1e10 * (1 - 0.02 * block) for block in range(16)]
    drifting = campaign([FactorLevels("streams", (1,))], [treatment(0, {"streams": 1}, values)])
    (drift,) = (each for each in instability_findings(drifting) if each.details["cause"] == "drift")
    chart = evidence_chart(drift, 1)
    assert chart is not None and [row["x"] for row in chart.rows] == list(range(16))
    assert chart.caption == "Each point is the median of one block (one trial of each treatment)."


@pytest.mark.parametrize("finding", [MODES, KNEE, COURSE, BARS, FACTORS], ids=lambda each: each.kind)
def test_a_long_axis_title_is_wrapped(finding: Finding) -> None:
    chart = finding.chart
    assert chart is not None
    long_titles = replace(
        chart,
        x_label="packet processing on the CPU of the sending thread (% of samples)",
        y_label="goodput against its treatments' medians in the blocks of the campaign (%)",
    )
    # Each line of a text is an SVG element.
    lines = re.findall(r">([^<>]+)</t(?:ext|span)>", render_finding_svg(replace(finding, chart=long_titles)))
    assert not any(
        title in lines for title in (long_titles.x_label, long_titles.y_label)
    ) and "(%)" in " ".join(lines)
    assert max(len(line) for line in lines) <= 50


def test_a_finding_without_evidence_has_no_chart() -> None:
    assert evidence_chart(UNEXPLAINED, 7) is None
    charts = [evidence_chart(finding, number) for number, finding in enumerate(EXPLANATION.findings)]
    assert sum(chart is not None for chart in charts) == 6


def test_ticks_of_ratios_close_to_one_have_distinct_labels() -> None:
    row: dict[str, str | float] = {"x": "MTU 9000 / MTU 1500", "y": 1.002, "low": 0.9885, "high": 1.0083}
    chart = EvidenceChart(chart_type="effects", title="", x_label="", y_label="goodput, times", rows=(row,))
    labels = re.findall(r">([0-9.]+)</text>", render_finding_svg(Finding("factors", "", chart=chart)))
    assert len(labels) > 2 and len(set(labels)) == len(labels)
