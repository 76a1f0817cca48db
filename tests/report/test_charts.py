"""Charts: the varying factors decide their type, they contain every trial, and they render."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import altair as alt
import pytest

from tests.explain.campaigns import QUOTA, SimulatedTreatment, campaign
from tests.report.campaigns import jumbo_campaign
from vnetbench.estimate.model import Mode
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.campaign_charts import main_charts, other_metric_charts, trial_charts
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import metric_rows, time_series_rows_and_omission_note
from vnetbench.report.charts.chart_specs import metric_spec
from vnetbench.report.charts.factor_layout import lay_out_factors
from vnetbench.report.charts.image_files import render_svg, write_pngs

SENDER = 'title = "t"\n[factors]\nstreams = 1\n'
PNG = b"\x89PNG\r\n\x1a\n"


def all_charts(summary: CampaignSummary) -> list[Chart]:
    return [*main_charts(summary), *other_metric_charts(summary), *trial_charts(summary)]


@pytest.mark.parametrize("name", ["jumbo", "surface", "placement", "single", "requests", "mixed"])
def test_every_chart_is_valid_vega_lite(name: str, request: pytest.FixtureRequest) -> None:
    summary: CampaignSummary = request.getfixturevalue(name)
    for chart in (*main_charts(summary), *other_metric_charts(summary)[:1], *trial_charts(summary)):
        alt.Chart.from_dict(chart.spec, validate=True)


def test_streams_are_on_the_x_axis_mtu_in_the_lines_and_direction_in_the_panels(
    jumbo: CampaignSummary,
) -> None:
    layout = lay_out_factors(jumbo)
    assert layout.x_factor is not None and layout.colour_factor is not None
    assert (layout.x_factor.name, layout.colour_factor.name, [f.name for f in layout.panel_factors]) == (
        "streams", "mtu", ["direction"],
    )  # fmt: skip
    svg = render_svg(main_charts(jumbo)[0])
    for text in ("Direction forward", "Direction reverse", "Streams", "1500", "9000", "16"):
        assert text in svg


def test_two_numeric_factors_make_a_heat_map_with_values_in_its_cells(surface: CampaignSummary) -> None:
    heat, lines = main_charts(surface)
    assert heat.name == "goodput_bps-heat" and lines.name == "goodput_bps"
    svg = render_svg(heat)
    assert "512 KiB" in svg and "auto" in svg and "[" in svg


def test_categorical_factors_make_a_dot_plot(placement: CampaignSummary) -> None:
    assert lay_out_factors(placement).x_factor is None
    assert "Receive processing on spread" in render_svg(main_charts(placement)[0])


def test_every_trial_is_a_point(jumbo: CampaignSummary) -> None:
    rows = metric_rows(jumbo, lay_out_factors(jumbo), "goodput_bps")
    plotted = [row["trial"] for row in rows if row["kind"] == "trial"]
    assert sorted(plotted) == sorted(point.trial_id for t in jumbo.treatments for point in t.points)


def test_two_modes_have_two_marks_and_no_median(jumbo: CampaignSummary) -> None:
    rows = metric_rows(jumbo, lay_out_factors(jumbo), "goodput_bps")
    bimodal = [row for row in rows if row["treatment"] == "8 streams, reverse, MTU 9000"]
    assert [row["share"] for row in bimodal if row["kind"] == "mode"] == ["33 %", "67 %"]
    assert [row["value"] for row in bimodal if row["kind"] == "estimate"] == [None]


def test_an_unmeasured_treatment_is_marked_with_the_reason(jumbo: CampaignSummary) -> None:
    rows = metric_rows(jumbo, lay_out_factors(jumbo), "goodput_bps")
    missing = [row["estimate_text"] for row in rows if row["kind"] == "missing"]
    assert len(missing) == 2 and missing[0].startswith("the path carries 1500 bytes")


def test_goodput_within_trials_shows_the_warm_up(single: CampaignSummary) -> None:
    rows, omission_note = time_series_rows_and_omission_note(single, lay_out_factors(single))
    assert omission_note == "Each panel shows the last 8 trials."
    point = next(p for p in single.treatments[0].points[1:] if p.warmup_s > 0)
    warmup_s = [row["time_s"] for row in rows if row["trial"] == point.trial_id and row["part"] == "warm-up"]
    assert warmup_s[0] == pytest.approx(0.025)
    # The line extends to the first measured sample.
    assert warmup_s[-1] == pytest.approx(point.warmup_s + 0.025)


def test_a_campaign_without_trials_has_no_charts(empty: CampaignSummary) -> None:
    assert all_charts(empty) == []


def test_each_chart_is_written_as_a_png(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("charts") / "new"
    files = write_pngs([jumbo_campaign()], directory)
    assert {"goodput_bps.png", "cycles_per_byte.png", "trials-in-time.png"} <= {file.name for file in files}
    assert all(file.read_bytes().startswith(PNG) for file in files)


@pytest.mark.parametrize(("trial_interval_s", "unit"), [(1, "Seconds"), (60, "Minutes")])
def test_the_time_axis_of_a_short_campaign_is_in_seconds(trial_interval_s: float, unit: str) -> None:
    summary = campaign(SENDER, SimulatedTreatment(QUOTA, trials=9))
    (treatment,) = summary.treatments
    points = tuple(
        replace(each, since_campaign_start_s=trial_interval_s * n) for n, each in enumerate(treatment.points)
    )
    charts = all_charts(replace(summary, treatments=(replace(treatment, points=points),)))
    (chart,) = (each for each in charts if each.name == "trials-in-time")
    assert f'"{unit} since the campaign started"' in json.dumps(chart.spec)


def test_a_caption_mentions_intervals_and_lines_only_if_the_chart_has_them() -> None:
    several = all_charts(campaign(SENDER, SimulatedTreatment(QUOTA, trials=9)))
    assert "Medians of the trials with 95 % confidence intervals" in several[0].caption
    assert "The line joins the medians of the blocks" in captions(several)["trials-in-time"]

    few = all_charts(campaign(SENDER, SimulatedTreatment(QUOTA, trials=3)))
    assert (
        few[0].caption == "Medians of the trials. An interval needs more trials. Each faint point is a trial."
    )

    (one,) = campaign(SENDER, SimulatedTreatment(QUOTA, trials=9)).treatments
    bimodal = replace(one.metrics["goodput_bps"], modality="two", modes=(Mode(9e9, 0.5), Mode(11e9, 0.5)))
    bimodal_treatment = replace(one, metrics={**one.metrics, "goodput_bps": bimodal})
    bimodal_charts = all_charts(
        replace(campaign(SENDER, SimulatedTreatment(QUOTA, trials=9)), treatments=(bimodal_treatment,))
    )
    assert bimodal_charts[0].caption.startswith("Each faint point is a trial. Two diamonds show")
    assert "line" not in captions(bimodal_charts)["trials-in-time"]


def captions(charts: list[Chart]) -> dict[str, str]:
    return {chart.name: chart.caption for chart in charts}


def test_the_chart_of_each_finding_has_a_file_named_by_its_cause(tmp_path: Path) -> None:
    study = 'title = "t"\n[factors]\nstreams = [1, 2]\n'
    quota = SimulatedTreatment({**QUOTA, "sender_throttled_periods_percent": 60.0})
    written = {file.name for file in write_pngs([campaign(study, quota, SimulatedTreatment())], tmp_path)}
    assert {"finding-1-cpu_quota.png", "finding-2-sender_cpu.png"} <= written
    assert all((tmp_path / name).read_bytes().startswith(PNG) for name in written)


def test_each_treatment_has_a_latency_curve_down_to_a_single_transaction(
    requests: CampaignSummary,
) -> None:
    deciding, latencies = main_charts(requests)
    assert (deciding.name, latencies.name) == ("latency_p99_us", "latency-percentiles")
    curves = {row["treatment"] for row in latencies.rows}
    assert len(curves) == 6
    for name in curves:
        rows = [row for row in latencies.rows if row["treatment"] == name]
        assert rows[0]["beyond"] < 1 and rows[-1]["beyond"] == pytest.approx(1e-5)
        assert [row["latency"] for row in rows] == sorted(row["latency"] for row in rows)
    assert next(chart.name for chart in other_metric_charts(requests)) == "transactions_per_s"


def test_latencies_before_the_load_have_separate_curves(mixed: CampaignSummary) -> None:
    latencies = next(chart for chart in main_charts(mixed) if chart.name == "latency-percentiles")
    assert {row["dash"] for row in latencies.rows} == {"under load", "before the load"}
    assert len({(row["treatment"], row["colour"]) for row in latencies.rows}) == 6
    slowest_idle = max(row["latency"] for row in latencies.rows if row["dash"] == "before the load")
    assert slowest_idle < min(row["latency"] for row in latencies.rows if row["dash"] == "under load")


def test_a_time_series_shows_the_idle_phase_before_second_0(mixed: CampaignSummary) -> None:
    rows, _ = time_series_rows_and_omission_note(mixed, lay_out_factors(mixed))
    rows_by_part = {
        part: [row for row in rows if row["part"] == part] for part in ("idle", "warm-up", "measured")
    }
    assert (
        max(row["time_s"] for row in rows_by_part["idle"])
        < 0
        < min(row["time_s"] for row in rows_by_part["warm-up"])
    )
    assert min(row["time_s"] for row in rows_by_part["idle"]) == pytest.approx(-0.475)
    assert max(row["value"] for row in rows_by_part["idle"]) < min(
        row["value"] for row in rows_by_part["measured"]
    )
    assert "Seconds since the load started" in render_svg(trial_charts(mixed)[-1])


def test_goodput_and_latency_increase_have_the_first_charts_of_other_metrics(
    mixed: CampaignSummary,
) -> None:
    names = [chart.name for chart in other_metric_charts(mixed)]
    assert names[:3] == ["goodput_bps", "latency_increase_p50_us", "latency_increase_p99_us"]


def test_the_axis_includes_an_increase_below_zero(mixed: CampaignSummary) -> None:
    metric = "latency_increase_p50_us"
    first, *others = mixed.treatments
    negative = replace(first.metrics[metric], value=-500.0, low=-700.0, high=-300.0)
    changed = replace(first, metrics={**first.metrics, metric: negative})
    layout = lay_out_factors(mixed)
    assert "domainMin" in str(metric_spec(mixed, layout, metric))
    summary = replace(mixed, treatments=(changed, *others))
    assert "domainMin" not in str(metric_spec(summary, layout, metric))


def test_a_campaign_of_streams_has_no_latency_chart(jumbo: CampaignSummary) -> None:
    assert [chart.name for chart in main_charts(jumbo)] == ["goodput_bps"]
