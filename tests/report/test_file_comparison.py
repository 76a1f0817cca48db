"""Several files side by side: the same metric on one chart where treatments share factors, all else said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.report.test_page import HOSTILE, Page
from tests.statements.campaigns import Way, forwarded, goodputs, made
from vnetbench.estimate.published_reference import reference_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.image_files import write_pngs
from vnetbench.report.charts.file_comparison import FileComparison, compare_files
from vnetbench.report.page.html import render_page
from vnetbench.study.model import Level

NTTTCP = reference_summary("ntttcp-vmxnet3-2011")
FORWARDING = reference_summary("packet-forwarding-2011")


def named(path: str, summary: CampaignSummary) -> CampaignSummary:
    return replace(summary, path=path)


def over_streams(path: str, factor: float = 1.0, **others: Level) -> CampaignSummary:
    means: dict[Level, float | tuple[float, float]] = {
        1: 9.0 * factor,
        2: 14.0 * factor,
        4: 20.0 * factor,
        8: 25.0 * factor,
    }
    rows = [row for mtu in (1500, 9000) for row in goodputs("streams", means, mtu=mtu, **others)]
    return named(path, made(rows))


def together(*summaries: CampaignSummary) -> FileComparison:
    found = compare_files(summaries)
    assert found is not None
    return found


def test_one_file_has_no_overview(jumbo: CampaignSummary) -> None:
    assert compare_files([jumbo]) is None


def test_two_campaigns_and_a_published_table_are_on_one_chart() -> None:
    found = together(over_streams("before.vnb"), over_streams("x/after.vnb", 1.2), NTTTCP)
    (chart,) = found.main
    assert (chart.name, chart.title) == ("goodput_bps", "Goodput (Gbit/s)")
    assert {row["file"] for row in chart.rows} == {"before.vnb", "after.vnb", "reference:ntttcp-vmxnet3-2011"}
    assert {row["place"] for row in chart.rows} == {"MTU 1500", "MTU 9000"}
    assert len({round(row["x"]) for row in chart.rows}) == 4
    assert sum(row["kind"] == "measured" for row in chart.rows) == 16
    assert any("message size" in said and "256 KiB" in said for said in found.said)
    assert any("host, guest" in said for said in found.said)


def test_published_figures_are_marks_of_another_shape_without_an_interval() -> None:
    (chart,) = together(over_streams("before.vnb"), NTTTCP).main
    published = [row for row in chart.rows if row["kind"] == "published"]
    assert len(published) == 44
    assert all(row["low"] is None and row["high"] is None for row in published)
    assert all("published alone" in row["estimate_text"] for row in published)
    assert '"range": ["circle", "triangle-up"]' in json.dumps(chart.spec)
    assert "no interval of it is known" in chart.caption


def test_least_and_most_of_a_published_mean_are_drawn_and_said() -> None:
    rows = forwarded("adapter", {"virtio-net": 50, "e1000": 20}, vcpu_pin="0", direction="forward")
    here = named("here.vnb", made(rows, Way("frames", "qemu")))
    (chart,) = together(here, FORWARDING).main
    published = [row for row in chart.rows if row["kind"] == "published"]
    assert published and all(row["low"] <= row["value"] <= row["high"] for row in published)
    assert "no interval of confidence" in chart.caption
    assert {row["file"] for row in chart.rows} == {"here.vnb", "reference:packet-forwarding-2011"}


def test_different_workloads_are_said_and_not_drawn_together() -> None:
    found = together(over_streams("before.vnb"), FORWARDING)
    assert found.main == found.others == []
    assert found.said == (
        "The files have different workloads, which are not on one chart: tcp_stream (before.vnb); frames "
        "(reference:packet-forwarding-2011).",
    )


def test_what_only_one_file_has_is_left_out_and_said() -> None:
    one, other = over_streams("one.vnb", direction="forward"), over_streams("other.vnb", direction="forward")
    back = over_streams("one.vnb", direction="reverse")
    both = replace(
        one,
        treatments=(*one.treatments, *back.treatments),
    )
    found = together(both, other)
    assert {row["place"] for row in found.main[0].rows} == {"forward, MTU 1500", "forward, MTU 9000"}
    assert found.said == ("Not drawn, since only one file has it: reverse, MTU 1500; reverse, MTU 9000.",)


def test_files_without_a_common_level_have_no_chart_together() -> None:
    low, high = (named(f"{n}.vnb", made(goodputs("streams", {n: 9.0}, mtu=1500))) for n in (1, 2))
    found = together(low, high)
    # One place, as nothing that both tell varies: the difference is said.
    assert [row["file"] for row in found.main[0].rows] == ["1.vnb", "2.vnb"]
    assert found.said == (
        "The files differ in streams, which the chart does not tell apart: 1 (1.vnb); 2 (2.vnb).",
    )


def test_files_without_a_trial_have_no_chart_and_say_so(empty: CampaignSummary) -> None:
    found = together(named("one.vnb", empty), named("other.vnb", empty))
    assert found.main == [] and "no chart of them together" in found.said[0]
    found = together(named("one.vnb", empty), over_streams("other.vnb"))
    assert found.main == [] and "have a metric in common" in found.said[0]
    assert "Side by side" in Page(render_page([empty, over_streams("other.vnb")])).shown


def test_a_file_that_lacks_a_metric_does_not_narrow_the_chart_of_it() -> None:
    values = {"goodput_bps": 9e9, "rtt_us": 40.0}
    rows = [({"streams": n, "mtu": 1500}, values) for n in (1, 2, 4)]
    one, other = (named(name, made(rows)) for name in ("one.vnb", "other.vnb"))
    found = together(one, other, NTTTCP)
    assert "rtt_us" in [chart.name for chart in found.others]
    (rtt,) = [chart for chart in found.others if chart.name == "rtt_us"]
    assert {row["file"] for row in rtt.rows} == {"one.vnb", "other.vnb"}


def test_charts_of_one_metric_of_two_workloads_are_told_apart() -> None:
    requests = [
        named(name, made(goodputs("streams", {1: 9.0, 2: 9.0}), Way("mixed"))) for name in ("c.vnb", "d.vnb")
    ]
    found = together(over_streams("a.vnb"), over_streams("b.vnb"), *requests)
    assert [chart.name for chart in found.main] == ["tcp_stream-goodput_bps", "mixed-goodput_bps"]
    assert found.main[1].title == "mixed: Goodput (Gbit/s)"


def test_two_modes_are_two_marks_in_an_overview_too() -> None:
    rows = goodputs("streams", {1: 9.0, 2: (10.0, 20.0), 4: 20.0})
    modal = named("modal.vnb", made(rows, Way(trials=30)))
    (chart,) = together(modal, over_streams("plain.vnb")).main
    modes = [row for row in chart.rows if row["kind"] == "mode"]
    assert [round(row["value"]) for row in modes] == [10, 20] and "two modes" in chart.caption


def test_files_of_one_name_are_told_apart() -> None:
    found = together(over_streams("a/r.vnb"), over_streams("b/r.vnb"), over_streams("b/r.vnb"))
    assert [name for name, _ in found.files] == ["a/r.vnb", "b/r.vnb (1)", "b/r.vnb (2)"]


def test_a_page_of_several_begins_with_them_side_by_side_and_has_each_whole() -> None:
    page = Page(render_page([over_streams("before.vnb"), over_streams("after.vnb", 1.2), NTTTCP]))
    articles = [a["id"] for tag, a in page.elements if tag == "article"]
    assert articles == ["all", "c1", "c2", "c3"]
    charts = json.loads(page.scripts[0])["charts"]
    figures = {a["id"] for tag, a in page.elements if tag == "figure"}
    assert figures == set(charts) and {"all-goodput_bps", "c1-goodput_bps", "c3-goodput_bps"} <= figures
    assert "A report of 2011 on NTttcp 3.0" in page.shown and "best of five runs" in page.shown
    assert page.shown.count("How it was measured") == 2  # nothing was, of the published table


def test_a_page_of_a_published_table_alone_has_its_figures_and_no_trials() -> None:
    page = Page(render_page([FORWARDING]))
    assert "76 figures" in page.shown and "hardware tester" in page.shown
    assert "published alone" not in page.shown and "[475, 578]" in page.shown
    for word in ("No treatment was measured", "too few trials", "seed", "Stopped by"):
        assert word not in page.shown


def test_names_of_files_are_shown_and_never_run() -> None:
    page = Page(render_page([over_streams(HOSTILE), over_streams("after.vnb")]))
    assert len(page.scripts) == 3 and page.count("img") == 3
    assert "<script>alert(1)" in page.shown


def test_charts_of_several_are_written_together_and_apart(tmp_path: Path) -> None:
    files = write_pngs([made(goodputs("streams", {1: 9.0, 2: 9.0, 4: 9.0})), FORWARDING], tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in files}
    assert "jumbo.vnb/goodput_bps.png" in names
    assert "reference-packet-forwarding-2011/throughput_fps.png" in names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in files)
