"""Reports of frame workloads: limits, search steps, loss goals and published values."""

from __future__ import annotations

import json
from dataclasses import replace

import altair as alt
import pytest
from rich.console import Console

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.published.tables import ValueWithRange
from vnetbench.report.charts.campaign_charts import main_charts, other_metric_charts, trial_charts
from vnetbench.report.charts.factor_layout import lay_out_factors
from vnetbench.report.charts.frame_rows import (
    frame_size_rows_and_y_max,
    line_rate_fps,
    search_step_rows,
    step_rows_near_throughput,
)
from vnetbench.report.charts.image_files import render_svg
from vnetbench.report.export.campaign_csv import campaign_csv
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.export.markdown import campaign_markdown
from vnetbench.report.page.html import render_page
from vnetbench.report.tables.columns import metric_columns, search_columns
from vnetbench.report.tables.estimates_table import estimates_table
from vnetbench.report.tables.published_comparison import bidirectional_ratio, compare_with_published


def print_table(summary: CampaignSummary, width: int) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(estimates_table(summary))
    return capture.get()


@pytest.mark.parametrize("name", ["throughput", "forwarding", "loss", "bursts", "soak"])
def test_every_frame_chart_is_valid_vega_lite_and_renders(name: str, request: pytest.FixtureRequest) -> None:
    summary: CampaignSummary = request.getfixturevalue(name)
    for chart in (*main_charts(summary), *other_metric_charts(summary), *trial_charts(summary)):
        alt.Chart.from_dict(chart.spec, validate=True)
    assert all(render_svg(chart).startswith("<svg") for chart in main_charts(summary))


def test_the_line_rate_is_that_of_ethernet() -> None:
    # RFC 5180 and every data sheet: 14.88 Mframe/s of 64 bytes on 10 Gbit/s, 812,743 of 1518.
    assert line_rate_fps(10e9, 64) == pytest.approx(14_880_952, abs=1)
    assert line_rate_fps(10e9, 1518) == pytest.approx(812_743, abs=1)


def test_frame_sizes_are_on_the_x_axis_with_the_mix_at_its_mean(throughput: CampaignSummary) -> None:
    layout = lay_out_factors(throughput)
    assert layout.x_factor is not None and layout.x_factor.name == "frame_size"
    rows, _ = frame_size_rows_and_y_max(throughput, layout, "throughput_fps")
    forward = [row for row in rows if row["kind"] == "estimate" and row["series"] == "forward"]
    position = {row["x_level"]: row["x"] for row in forward}
    assert position["256"] < position["imix"] < position["512"]


def test_the_chart_shows_nearby_line_rates_and_the_packet_limit(throughput: CampaignSummary) -> None:
    rows, y_max = frame_size_rows_and_y_max(throughput, lay_out_factors(throughput), "throughput_fps")
    rates = {(row["panel"], row["rate"]) for row in rows if row["kind"] == "line rate"}
    assert ("vSwitch bridge", "10 Gbit/s") in rates
    # 0.2 Mframe/s of 1518 bytes is far from 10 Gbit/s.
    assert ("vSwitch openvswitch", "10 Gbit/s") not in rates
    assert all(row["value"] <= y_max * 1.001 for row in rows if row["kind"] == "line rate")
    limits = [row for row in rows if row["kind"] == "packet limit"]
    assert limits
    for row in limits:
        values = [
            other["value"]
            for other in rows
            if other["kind"] == "estimate" and row["panel"] == other["panel"]
            and row["series"] == other["series"]
        ]  # fmt: skip
        assert row["value"] == max(values)


def test_the_link_rate_is_the_line_rate_and_doubles_for_both_directions(
    throughput: CampaignSummary,
) -> None:
    shaped = tuple(
        replace(t, factors={**t.factors, "link_rate": 1e9, "direction": "both"})
        for t in throughput.treatments
        if t.factors["direction"] == "both"
    )
    summary = replace(throughput, treatments=shaped)
    rows, _ = frame_size_rows_and_y_max(summary, lay_out_factors(summary), "throughput_fps")
    assert {row["rate"] for row in rows if row["kind"] == "line rate"} == {"2 × 1 Gbit/s"}


def test_every_step_is_a_point_and_every_throughput_a_mark(
    forwarding: CampaignSummary,
) -> None:
    rows, scale, omission_note = search_step_rows(forwarding, lay_out_factors(forwarding))
    steps = [step for t in forwarding.treatments for p in t.points for step in p.steps]
    assert sum(row["kind"] == "step" for row in rows) == len(steps) and not omission_note
    assert scale.unit == "kframe/s"
    goal_results = [result for t in forwarding.treatments for p in t.points for result in p.goal_results]
    assert sum(row["kind"] == "throughput" for row in rows) == len(goal_results)
    assert {row["text"] for row in rows if row["kind"] == "goal"} == {"0.01 %"}


def test_a_note_counts_the_treatments_without_a_panel(throughput: CampaignSummary) -> None:
    _, _, omission_note = search_step_rows(throughput, lay_out_factors(throughput))
    assert omission_note == "The chart shows the first 8 of 48 treatments."


def test_the_zoomed_chart_shows_only_loads_near_the_throughput(forwarding: CampaignSummary) -> None:
    rows, _, _ = search_step_rows(forwarding, lay_out_factors(forwarding))
    steps = [row for row in step_rows_near_throughput(rows) if row["kind"] == "step"]
    name = "virtio-net, vCPUs: 1, forward"
    loads = [row["load"] for row in steps if row["treatment"] == name]
    assert loads and max(loads) < 1.3 * min(loads)


def test_a_soak_shows_when_frames_were_lost(soak: CampaignSummary) -> None:
    (chart,) = [chart for chart in main_charts(soak) if chart.name == "missing"]
    outstanding = [row["outstanding"] for row in chart.rows]
    assert (
        outstanding == sorted(outstanding)
        and outstanding[-1] == soak.treatments[0].points[0].outstanding_frames_at_interval_ends[-1] > 0
    )
    assert chart.rows[-1]["time_s"] == 600 and len(chart.rows) <= 200


def test_the_headings_of_throughputs_contain_the_loss_goal(throughput: CampaignSummary) -> None:
    titles = [column.title for column in metric_columns(throughput.treatments, throughput.deciding_metric)]
    assert titles[:3] == ["Throughput, 0 % loss", "0.01 % loss", "0.5 % loss"]


def test_the_limit_of_a_search_follows_its_throughput(forwarding: CampaignSummary) -> None:
    limited_by, one_search = search_columns(forwarding.treatments)
    assert set(limited_by.cells) == {("device",)}
    assert all(cell[0].startswith("± 0.") for cell in one_search.cells)
    assert "limited_by" in campaign_csv(forwarding).splitlines()[0]
    first = json.loads(campaign_json(forwarding))["treatments"][0]["trials"][0]
    assert first["goal_results"][0]["limited_by"] == "device" and first["steps"][0]["sent"] > 0


def test_a_campaign_is_compared_with_the_published_values_of_the_same_levels(
    forwarding: CampaignSummary,
) -> None:
    comparison = compare_with_published(forwarding)
    assert comparison is not None
    compared = next(
        each
        for each in comparison.treatments
        if each.varying_levels_without_direction == {"adapter": "e1000", "vcpu_pin": "1"}
    )
    # e1000,"1,1",#1: unidirectional 20261 [16602, 21713], bidirectional 25227 [21484, 27698]
    assert compared.published_by_non_factor_cells["1,1"] == {
        "forward": ValueWithRange(20261, 16602, 21713),
        "both": ValueWithRange(25227, 21484, 27698),
    }
    assert bidirectional_ratio(compared.published_by_non_factor_cells["1,1"]) == pytest.approx(25227 / 20261)
    measured = [point.values["throughput_fps"] for point in forwarding.treatments[6].points]
    assert compared.measured_by_direction["forward"] == ValueWithRange(
        sum(measured) / 3, min(measured), max(measured)
    )


def test_the_number_of_queues_selects_one_published_value(forwarding: CampaignSummary) -> None:
    queued = tuple(replace(t, factors={**t.factors, "queues": 8}) for t in forwarding.treatments)
    comparison = compare_with_published(replace(forwarding, treatments=queued))
    assert comparison is not None and all(
        list(each.published_by_non_factor_cells) == ["8,8"] for each in comparison.treatments
    )


def test_treatments_without_published_values_have_an_empty_comparison(forwarding: CampaignSummary) -> None:
    unknown = tuple(replace(t, factors={**t.factors, "vcpu_pin": "3"}) for t in forwarding.treatments)
    comparison = compare_with_published(replace(forwarding, treatments=unknown))
    assert comparison is not None and all(
        not each.published_by_non_factor_cells for each in comparison.treatments
    )


@pytest.mark.parametrize("width", [80, 200])
def test_the_published_values_fit_the_terminal(forwarding: CampaignSummary, width: int) -> None:
    text = print_table(forwarding, width)
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    assert "20.3 [16.6, 21.7]" in text and " ratio " in text


def test_published_values_and_conditions_are_on_the_page_and_in_markdown(
    forwarding: CampaignSummary,
) -> None:
    for text in (render_page([forwarding]), campaign_markdown(forwarding)):
        assert "Xeon L5520" in text and "20.3" in text and "Measured" in text


def test_a_study_without_a_published_table_has_no_comparison(throughput: CampaignSummary) -> None:
    assert compare_with_published(throughput) is None
    assert "Comparison with published" not in render_page([throughput])
