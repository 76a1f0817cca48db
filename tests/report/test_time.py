"""Where the time goes: shares per treatment, their bars, their lines of text and their JSON."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import replace

import altair as alt
import pytest

from tests.report.test_page import Page
from tests.report.time_campaigns import shares_by_streams, with_time_shares
from vnetbench.estimate.evidence.time_accounting.time_uses import TIME_USE_BY_NAME
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.estimate.treatment_time import campaign_time_shares, treatment_time_shares
from vnetbench.explain.model import REPRESENTATIVE_INDEX_KEY, Explanation, Finding
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.finding_charts import finding_chart
from vnetbench.report.charts.image_files import render_svg
from vnetbench.report.charts.time_charts import time_use_chart
from vnetbench.report.charts.time_rows import COLOUR_BY_TIME_USE, OTHER_USES_LABEL
from vnetbench.report.export.campaign_json import campaign_json, explanation_json
from vnetbench.report.page.html import render_page
from vnetbench.report.text.narrative import build_narrative
from vnetbench.report.text.time_text import time_lines


@pytest.fixture(scope="module")
def timed(jumbo: CampaignSummary) -> CampaignSummary:
    return with_time_shares(jumbo, shares_by_streams)


def draw(summary: CampaignSummary) -> Chart:
    chart = time_use_chart(summary)
    assert chart is not None
    return chart


def test_the_shares_of_a_treatment_are_the_mean_of_its_trials_and_add_up_to_1(
    single: CampaignSummary,
) -> None:
    first, second, *_ = with_time_shares(single, lambda _: {}).treatments[0].points
    points = (
        replace(first, evidence={"time_sender_running_percent": 100.0}),
        replace(second, evidence={"time_sender_running_percent": 40.0, "time_pacing_percent": 59.0}),
    )
    shares = treatment_time_shares(replace(single.treatments[0], points=points))
    assert shares["sender_running"] == pytest.approx(70 / 99.5)
    assert shares["pacing"] == pytest.approx(29.5 / 99.5)
    assert math.fsum(shares.values()) == pytest.approx(1)


def test_every_use_of_time_has_its_own_colour() -> None:
    assert set(COLOUR_BY_TIME_USE) == set(TIME_USE_BY_NAME)
    assert len(set(COLOUR_BY_TIME_USE.values())) == len(TIME_USE_BY_NAME)


def test_each_bar_has_segments_without_gaps_from_0_to_100_percent(timed: CampaignSummary) -> None:
    rows = draw(timed).rows
    bars = {(row["panel"], row["bar"]) for row in rows}
    assert len(bars) == 18  # Two of the 20 treatments have no trial.
    for panel, bar in bars:
        segments = [row for row in rows if (row["panel"], row["bar"]) == (panel, bar)]
        assert segments[0]["start"] == 0 and segments[-1]["end"] == 100
        for one, following in itertools.pairwise(segments):
            assert one["end"] == following["start"]
        assert all(0 <= row["percent"] <= 100 for row in segments)


def test_the_legend_names_only_uses_that_reach_2_percent_somewhere(timed: CampaignSummary) -> None:
    chart = draw(timed)
    named = list(dict.fromkeys(row["use"] for row in chart.rows))
    assert set(named) == {
        "sender runs", "sender waits for a CPU that the load uses", "receiver runs",
        "receiver waits for a CPU that packet processing uses", OTHER_USES_LABEL,
    }  # fmt: skip
    svg = render_svg(chart)
    assert OTHER_USES_LABEL in svg and "round trip" not in svg


def test_the_bars_are_streams_and_the_panels_the_other_factors(timed: CampaignSummary) -> None:
    rows = draw(timed).rows
    assert list(dict.fromkeys(row["bar"] for row in rows)) == ["1", "2", "4", "8", "16"]
    assert {row["panel"] for row in rows} == {
        "Forward, MTU 1500", "Forward, MTU 9000", "Reverse, MTU 1500", "Reverse, MTU 9000",
    }  # fmt: skip
    assert draw(timed).title == "Where the time of a stream goes"
    assert draw(timed).caption.startswith("Each bar is the whole time of a stream in one treatment")
    assert "A bar's name is its level of streams." in draw(timed).caption


@pytest.mark.parametrize("name", ["jumbo", "surface", "placement", "single", "requests", "mixed"])
def test_the_chart_is_valid_for_every_layout_of_factors(name: str, request: pytest.FixtureRequest) -> None:
    chart = draw(with_time_shares(request.getfixturevalue(name), shares_by_streams))
    alt.Chart.from_dict(chart.spec, validate=True)
    assert "% of the time" in render_svg(chart)


def test_a_campaign_of_requests_shows_the_time_of_a_request(requests: CampaignSummary) -> None:
    assert draw(with_time_shares(requests, shares_by_streams)).title == "Where the time of a request goes"


def test_without_time_evidence_there_is_no_chart_and_no_text(jumbo: CampaignSummary) -> None:
    assert time_use_chart(jumbo) is None and time_lines(jumbo) == [] and campaign_time_shares(jumbo) == []


def test_treatments_with_the_same_main_use_share_a_line_of_text(timed: CampaignSummary) -> None:
    lines = time_lines(timed)
    assert lines[0] == (
        "Time with streams 2, 4, 8, 16 (14 of 18 treatments): 74 % sender waits for a CPU that the load "
        "itself uses, 20 % sender runs, 3 % receiver runs, 3 % other."
    )
    assert lines[1].startswith("Time with streams 1 (4 of 18 treatments): 90 % sender runs, ")
    assert time_lines(timed, [0])[0].startswith("Time with 1 stream, forward, MTU 1500: 90 % sender runs, ")


def test_the_json_has_the_time_shares_of_each_treatment(timed: CampaignSummary) -> None:
    first = json.loads(campaign_json(timed))["treatments"][0]
    assert first["time_shares"]["sender_running"] == pytest.approx(0.9)
    assert sum(first["time_shares"].values()) == pytest.approx(1)
    form = json.loads(explanation_json(timed, build_narrative(timed), [1, 2]))
    assert [each["treatment"] for each in form["time_shares"]] == [1, 2]
    assert form["time_shares"][0]["factors"]["mtu"] == 9000


def test_the_page_has_the_main_chart_then_the_time_then_the_findings_then_the_table(
    timed: CampaignSummary,
) -> None:
    page = Page(render_page([timed]))
    figures = [attributes["id"] for tag, attributes in page.elements if tag == "figure"]
    assert figures[:3] == ["c1-goodput_bps", "c1-time", "c1-finding-1"]
    text = page.visible_text
    order = ("Goodput is highest with", "Medians of the trials", "Each bar is the whole time", "Findings")
    positions = [text.index(phrase) for phrase in (*order, "All treatments")]
    assert positions == sorted(positions)


def finding_without_evidence(indices: tuple[int, ...], details: Mapping[str, object]) -> Finding:
    return Finding("not explained", "No cause fits.", indices, details=details)


def test_a_limit_without_evidence_shows_the_time_of_its_representative(timed: CampaignSummary) -> None:
    chart = finding_chart(timed, finding_without_evidence((0, 1), {REPRESENTATIVE_INDEX_KEY: 1}), 4)
    assert chart is not None and chart.name == "finding-4"
    assert {row["treatment"] for row in chart.rows} == {"1 stream, forward, MTU 9000"}
    assert "1 stream, forward, MTU 9000" in chart.caption and chart.rows[-1]["end"] == 100


def test_another_finding_without_evidence_shows_the_values_of_its_treatments(timed: CampaignSummary) -> None:
    chart = finding_chart(timed, finding_without_evidence((0, 1), {}), 2)
    assert chart is not None and chart.title == "Goodput (Gbit/s)"
    assert [row["x"] for row in chart.rows] == ["1 stream, forward, MTU 1500", "1 stream, forward, MTU 9000"]
    assert all(row["low"] <= row["y"] <= row["high"] for row in chart.rows)


def test_a_finding_about_failed_treatments_shows_that_no_trial_finished(timed: CampaignSummary) -> None:
    chart = finding_chart(timed, finding_without_evidence((18,), {}), 1)
    assert chart is not None and chart.title == "Finished trials"
    assert [row["y"] for row in chart.rows] == [0.0]


@pytest.mark.parametrize("name", ["jumbo", "placement", "single", "requests", "mixed"])
def test_every_finding_has_a_picture(name: str, request: pytest.FixtureRequest) -> None:
    summary: CampaignSummary = request.getfixturevalue(name)
    findings: Explanation = build_narrative(summary).findings_as_explanation
    assert findings.findings
    for number, finding in enumerate(findings.findings, 1):
        assert finding_chart(summary, finding, number) is not None, finding.text
