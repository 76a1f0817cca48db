"""Comparison of files: one chart per metric for treatments that share factors, and notes on omissions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.report.test_page import HOSTILE, Page
from tests.statements.campaigns import SimulationOptions, forwarded, goodputs, simulated_campaign
from vnetbench.estimate.published_reference import published_table_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.file_comparison import FileComparison, compare_files
from vnetbench.report.charts.image_files import write_pngs
from vnetbench.report.page.html import render_page
from vnetbench.study.model import Level

NTTTCP = published_table_summary("ntttcp-vmxnet3-2011")
FORWARDING = published_table_summary("packet-forwarding-2011")


def with_path(path: str, summary: CampaignSummary) -> CampaignSummary:
    return replace(summary, path=path)


def over_streams(path: str, factor: float = 1.0, **others: Level) -> CampaignSummary:
    means: dict[Level, float | tuple[float, float]] = {
        1: 9.0 * factor,
        2: 14.0 * factor,
        4: 20.0 * factor,
        8: 25.0 * factor,
    }
    rows = [row for mtu in (1500, 9000) for row in goodputs("streams", means, mtu=mtu, **others)]
    return with_path(path, simulated_campaign(rows))


def compare_all(*summaries: CampaignSummary) -> FileComparison:
    comparison = compare_files(summaries)
    assert comparison is not None
    return comparison


def test_a_single_file_has_no_comparison(jumbo: CampaignSummary) -> None:
    assert compare_files([jumbo]) is None


def test_two_campaigns_and_a_published_table_share_a_chart() -> None:
    comparison = compare_all(over_streams("before.vnb"), over_streams("x/after.vnb", 1.2), NTTTCP)
    (chart,) = comparison.main_charts
    assert (chart.name, chart.title) == ("goodput_bps", "Goodput (Gbit/s)")
    assert {row["file"] for row in chart.rows} == {"before.vnb", "after.vnb", "reference:ntttcp-vmxnet3-2011"}
    assert {row["panel"] for row in chart.rows} == {"MTU 1500", "MTU 9000"}
    assert len({round(row["x"]) for row in chart.rows}) == 4
    assert sum(row["kind"] == "measured" for row in chart.rows) == 16
    assert any("message size" in note and "256 KiB" in note for note in comparison.notes)
    assert any("host, guest" in note for note in comparison.notes)


def test_published_values_have_another_shape_and_no_interval() -> None:
    (chart,) = compare_all(over_streams("before.vnb"), NTTTCP).main_charts
    published = [row for row in chart.rows if row["kind"] == "published"]
    assert len(published) == 44
    assert all(row["low"] is None and row["high"] is None for row in published)
    assert all("published without a range" in row["estimate_text"] for row in published)
    assert '"range": ["circle", "triangle-up"]' in json.dumps(chart.spec)
    assert "published without an interval" in chart.caption


def test_the_range_of_a_published_mean_is_on_the_chart() -> None:
    rows = forwarded("adapter", {"virtio-net": 50, "e1000": 20}, vcpu_pin="0", direction="forward")
    measured = with_path("measured.vnb", simulated_campaign(rows, SimulationOptions("frames", "qemu")))
    (chart,) = compare_all(measured, FORWARDING).main_charts
    published = [row for row in chart.rows if row["kind"] == "published"]
    assert published and all(row["low"] <= row["value"] <= row["high"] for row in published)
    assert "instead of a confidence interval" in chart.caption
    assert {row["file"] for row in chart.rows} == {"measured.vnb", "reference:packet-forwarding-2011"}


def test_different_workloads_are_said_and_not_drawn_compare_all() -> None:
    comparison = compare_all(over_streams("before.vnb"), FORWARDING)
    assert comparison.main_charts == comparison.other_metric_charts == []
    assert comparison.notes == (
        "A chart compares files with the same workload only. The workloads are: tcp_stream (before.vnb); "
        "frames (reference:packet-forwarding-2011).",
    )


def test_treatments_of_one_file_only_are_omitted_with_a_note() -> None:
    one, other = over_streams("one.vnb", direction="forward"), over_streams("other.vnb", direction="forward")
    back = over_streams("one.vnb", direction="reverse")
    both = replace(
        one,
        treatments=(*one.treatments, *back.treatments),
    )
    comparison = compare_all(both, other)
    assert {row["panel"] for row in comparison.main_charts[0].rows} == {
        "forward, MTU 1500",
        "forward, MTU 9000",
    }
    assert comparison.notes == (
        "The chart does not show levels that only one file has: reverse, MTU 1500; reverse, MTU 9000.",
    )


def test_files_without_a_common_level_have_no_chart_compare_all() -> None:
    low, high = (
        with_path(f"{n}.vnb", simulated_campaign(goodputs("streams", {n: 9.0}, mtu=1500))) for n in (1, 2)
    )
    comparison = compare_all(low, high)
    # Both treatments share one position, because no factor that both specify varies.
    assert [row["file"] for row in comparison.main_charts[0].rows] == ["1.vnb", "2.vnb"]
    assert comparison.notes == (
        "The files differ in streams, which the chart does not show: 1 (1.vnb); 2 (2.vnb).",
    )


def test_files_without_trials_have_a_note_and_no_chart(empty: CampaignSummary) -> None:
    comparison = compare_all(with_path("one.vnb", empty), with_path("other.vnb", empty))
    assert comparison.main_charts == [] and "There is no comparison chart" in comparison.notes[0]
    comparison = compare_all(with_path("one.vnb", empty), over_streams("other.vnb"))
    assert comparison.main_charts == [] and "share a metric" in comparison.notes[0]
    assert "Comparison" in Page(render_page([empty, over_streams("other.vnb")])).visible_text


def test_a_file_without_a_metric_does_not_affect_its_chart() -> None:
    values = {"goodput_bps": 9e9, "rtt_us": 40.0}
    rows = [({"streams": n, "mtu": 1500}, values) for n in (1, 2, 4)]
    one, other = (with_path(name, simulated_campaign(rows)) for name in ("one.vnb", "other.vnb"))
    comparison = compare_all(one, other, NTTTCP)
    assert "rtt_us" in [chart.name for chart in comparison.other_metric_charts]
    (rtt,) = [chart for chart in comparison.other_metric_charts if chart.name == "rtt_us"]
    assert {row["file"] for row in rtt.rows} == {"one.vnb", "other.vnb"}


def test_charts_of_the_same_metric_are_distinguished_by_workload() -> None:
    requests = [
        with_path(name, simulated_campaign(goodputs("streams", {1: 9.0, 2: 9.0}), SimulationOptions("mixed")))
        for name in ("c.vnb", "d.vnb")
    ]
    comparison = compare_all(over_streams("a.vnb"), over_streams("b.vnb"), *requests)
    assert [chart.name for chart in comparison.main_charts] == ["tcp_stream-goodput_bps", "mixed-goodput_bps"]
    assert comparison.main_charts[1].title == "mixed: Goodput (Gbit/s)"


def test_two_modes_have_two_marks_in_a_comparison() -> None:
    rows = goodputs("streams", {1: 9.0, 2: (10.0, 20.0), 4: 20.0})
    modal = with_path("modal.vnb", simulated_campaign(rows, SimulationOptions(trials=30)))
    (chart,) = compare_all(modal, over_streams("plain.vnb")).main_charts
    modes = [row for row in chart.rows if row["kind"] == "mode"]
    assert [round(row["value"]) for row in modes] == [10, 20] and "two modes" in chart.caption


def test_files_with_the_same_name_are_distinguished() -> None:
    comparison = compare_all(over_streams("a/r.vnb"), over_streams("b/r.vnb"), over_streams("b/r.vnb"))
    assert [name for name, _ in comparison.files] == ["a/r.vnb", "b/r.vnb (1)", "b/r.vnb (2)"]


def test_a_page_of_several_files_starts_with_the_comparison_and_contains_each_campaign() -> None:
    page = Page(render_page([over_streams("before.vnb"), over_streams("after.vnb", 1.2), NTTTCP]))
    articles = [a["id"] for tag, a in page.elements if tag == "article"]
    assert articles == ["comparison", "c1", "c2", "c3"]
    charts = json.loads(page.scripts[0])["charts"]
    figures = {a["id"] for tag, a in page.elements if tag == "figure"}
    assert (
        figures == set(charts) and {"comparison-goodput_bps", "c1-goodput_bps", "c3-goodput_bps"} <= figures
    )
    assert "A report of 2011 on NTttcp 3.0" in page.visible_text and "best of five runs" in page.visible_text
    assert page.visible_text.count("How it was measured") == 2  # Not for the published table.


def test_a_page_of_a_published_table_has_its_values_and_no_trials() -> None:
    page = Page(render_page([FORWARDING]))
    assert "76 values" in page.visible_text and "hardware tester" in page.visible_text
    assert "published without a range" not in page.visible_text and "[475, 578]" in page.visible_text
    for word in ("No treatment was measured", "too few trials", "seed", "Stopped by"):
        assert word not in page.visible_text


def test_file_names_are_displayed_and_not_executed() -> None:
    page = Page(render_page([over_streams(HOSTILE), over_streams("after.vnb")]))
    assert len(page.scripts) == 3 and page.count("img") == 3
    assert "<script>alert(1)" in page.visible_text


def test_png_files_are_written_for_the_comparison_and_for_each_file(tmp_path: Path) -> None:
    files = write_pngs(
        [simulated_campaign(goodputs("streams", {1: 9.0, 2: 9.0, 4: 9.0})), FORWARDING], tmp_path
    )
    names = {str(path.relative_to(tmp_path)) for path in files}
    assert "jumbo.vnb/goodput_bps.png" in names
    assert "reference-packet-forwarding-2011/throughput_fps.png" in names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in files)
