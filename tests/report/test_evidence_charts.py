"""The pictures beside findings: every form is valid, is drawn, and has the threshold as a line."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import vl_convert

from tests.explain.comparisons.simulated import campaign, treatment
from tests.report.explanations import BARS, COURSE, EXPLANATION, FACTORS, KNEE, LIMIT, MODES, UNEXPLAINED
from vnetbench.explain.comparisons.instability import findings
from vnetbench.explain.model import EvidenceChart, Finding
from vnetbench.report.charts.chart_specs import DATASET_NAME
from vnetbench.report.charts.evidence_charts import evidence_chart
from vnetbench.report.charts.theme import vega_config
from vnetbench.study.model import FactorLevels


def svg(finding: Finding, *, dark: bool = False) -> str:
    chart = evidence_chart(finding, 1)
    assert chart is not None
    whole = {**chart.spec, "datasets": {DATASET_NAME: chart.rows}, "config": vega_config(dark=dark)}
    return str(vl_convert.vegalite_to_svg(json.dumps(whole)))


@pytest.mark.parametrize("finding", [LIMIT, MODES, FACTORS, KNEE, COURSE, BARS], ids=lambda each: each.kind)
@pytest.mark.parametrize("dark", [False, True])
def test_every_form_is_drawn(finding: Finding, dark: bool) -> None:
    assert "mark-" in svg(finding, dark=dark)


def test_without_a_picture_the_first_suspects_figures_are_drawn_each_with_its_threshold() -> None:
    chart = evidence_chart(LIMIT, 1)
    assert chart is not None and len(chart.rows) == 4
    assert chart.rows[0]["panel"].startswith("receiver thread") or "99.1" in chart.rows[0]["panel"]
    assert [row["threshold"] for row in chart.rows] == [95.0, 50.0, 50.0, None]
    assert chart.rows[3]["value"] == pytest.approx(18.25)
    drawing = svg(LIMIT)
    assert drawing.count("stroke-dasharray") == 3


def test_a_threshold_is_a_broken_line_and_effects_have_one_at_no_change() -> None:
    for finding in (KNEE, COURSE, FACTORS):
        assert "stroke-dasharray" in svg(finding)
    assert "stroke-dasharray" not in svg(MODES)


def test_a_caption_begins_with_a_word() -> None:
    assert BARS.chart is not None
    chart = evidence_chart(replace(BARS, chart=replace(BARS.chart, threshold=90.0)), 1)
    assert chart is not None and chart.caption == "The broken line is the threshold."


def test_a_drift_is_drawn_over_the_blocks_and_its_caption_says_so() -> None:
    values = [1e10 * (1 - 0.02 * block) for block in range(16)]
    drifting = campaign([FactorLevels("streams", (1,))], [treatment(0, {"streams": 1}, values)])
    (drift,) = (each for each in findings(drifting) if each.details["cause"] == "drift")
    chart = evidence_chart(drift, 1)
    assert chart is not None and [row["x"] for row in chart.rows] == list(range(16))
    assert chart.caption == "Each point is a block of the campaign: the median of its trials."


@pytest.mark.parametrize("finding", [MODES, KNEE, COURSE, BARS, FACTORS], ids=lambda each: each.kind)
def test_a_long_title_of_an_axis_goes_on_below_and_is_not_cut_off(finding: Finding) -> None:
    picture = finding.chart
    assert picture is not None
    long = replace(
        picture,
        x_label="packet processing on the CPU of the sending thread (% of samples)",
        y_label="goodput against its treatments' medians in the blocks of the campaign (%)",
    )
    # As it is drawn each line of a text is an element of its own.
    lines = re.findall(r">([^<>]+)</t(?:ext|span)>", svg(replace(finding, chart=long)))
    assert not any(title in lines for title in (long.x_label, long.y_label)) and "(%)" in " ".join(lines)
    assert max(len(line) for line in lines) <= 50


def test_what_has_no_evidence_has_no_picture() -> None:
    assert evidence_chart(UNEXPLAINED, 7) is None
    charts = [evidence_chart(finding, number) for number, finding in enumerate(EXPLANATION.findings)]
    assert sum(chart is not None for chart in charts) == 6


def test_no_two_ticks_of_ratios_close_to_one_have_the_same_label() -> None:
    row: dict[str, str | float] = {"x": "MTU 9000 / MTU 1500", "y": 1.002, "low": 0.9885, "high": 1.0083}
    picture = EvidenceChart(chart_type="effects", title="", x_label="", y_label="goodput, times", rows=(row,))
    labels = re.findall(r">([0-9.]+)</text>", svg(Finding("factors", "", chart=picture)))
    assert len(labels) > 2 and len(set(labels)) == len(labels)
