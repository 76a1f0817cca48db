"""Which charts a campaign has, what each is called and says; and all of them as PNG files."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import vl_convert

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.model import Finding
from vnetbench.quantity import format_exact_share
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import time_series_rows, latency_rows, describe_marks, metric_rows, trial_order_rows
from vnetbench.report.charts.chart_specs import (
    DATASET_NAME,
    time_series_spec,
    heat_map_spec,
    latency_spec,
    metric_spec,
    trial_order_spec,
)
from vnetbench.report.charts.evidence_charts import evidence_chart
from vnetbench.report.charts.factor_layout import FactorLayout, lay_out_factors
from vnetbench.report.charts.file_comparison import compare_files, published_charts
from vnetbench.report.charts.frame_charts import frame_charts, is_frame_rate_by_size, frame_size_chart
from vnetbench.report.charts.theme import vega_config
from vnetbench.report.one_at_a_time import to_single_factor
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.report.text.evidence_text import split_headline
from vnetbench.report.text.narrative import build_narrative
from vnetbench.study.workloads import UDP_STREAM, FRAME_WORKLOADS, THROUGHPUT_METRICS
from vnetbench.wording.estimate_text import metric_heading, is_always_zero, measured_metrics, find_metric, metric_scale

_CHARTED_METRICS = (
    *THROUGHPUT_METRICS, "throughput_bps", "forwarding_rate_fps", "frame_loss_percent", "offered_load_fps",
    "max_forwarding_rate_fps", "back_to_back_frames", "buffer_s",
    "goodput_bps", "datagrams_received_per_s", "datagrams_sent_per_s", "loss_percent", "socket_drop_percent",
    "delay_p50_us", "delay_p99_us", "jitter_us", "gap_deviation_us", "reordered_percent",
    "cycles_per_datagram", "latency_increase_p50_us", "latency_increase_p99_us", "transactions_per_s",
    "latency_p50_us", "latency_p99_us", "latency_p99_9_us", "latency_idle_p50_us", "connect_p50_us",
    "connect_p99_us", "cycles_per_transaction", "switch_drops_per_s", "forwarder_busy_percent",
    "forwarder_vcpu_percent", "receiver_busy_percent", "receiver_vcpu_percent", "busiest_vcpu_percent",
    "emulators_cpu_percent", "kvm_exits_per_s", "receiver_cpu_percent", "sender_cpu_percent",
    "goodput_forward_bps", "goodput_reverse_bps", "second_vm_cpu_percent", "first_vm_cpu_percent",
    "cycles_per_byte", "packets_per_s", "mean_segment_bytes",
    "retransmits_per_s", "rtt_us", "interrupts_per_s", "packets_per_interrupt", "host_cpu_percent",
)  # fmt: skip
"""Metrics that have a chart beside the main one, the most useful first."""
_CAPTION_WIDTH, _TITLE_WIDTH = 100, 75
_REQUEST_LATENCY_TERMS = ("Latency", "transaction")
_LATENCY_TERMS = {
    UDP_STREAM: ("One-way delay", "datagram"),
    **dict.fromkeys(FRAME_WORKLOADS, ("One-way delay", "frame")),
}
"""What the latencies of a workload are, and of what; of all others `_OF_REQUESTS`."""


def main_charts(summary: CampaignSummary) -> list[Chart]:
    """The main metric, as a heat map where two factors are numeric, and as lines or dots; latencies.

    Empty without any trial.
    """
    if summary.reference is not None:
        return published_charts(summary)[:1]
    if not measured_metrics(summary.treatments):
        return []
    layout = lay_out_factors(summary)
    main = summary.main_metric
    chart = _metric_chart(summary, layout, main)
    beside = [*frame_charts(summary, layout), *_latency_charts(summary, layout)]
    if not layout.heat_factor:
        return [chart, *beside]
    share = format_exact_share(summary.precision.confidence)
    caption = f"Median of the trials and its {share} interval."
    spec = heat_map_spec(summary, layout, main)
    return [Chart(f"{main}-heat", chart.title, caption, spec, chart.rows), chart, *beside]


def other_metric_charts(summary: CampaignSummary) -> list[Chart]:
    """One chart a metric beside the main one, the most useful first; last, what is zero everywhere."""
    if summary.reference is not None:
        return published_charts(summary)[1:]
    layout = lay_out_factors(summary)
    measured = measured_metrics(summary.treatments)
    names = [name for name in _CHARTED_METRICS if name in measured and name != summary.main_metric]
    names.sort(key=lambda name: is_always_zero(summary.treatments, name))
    return [_metric_chart(summary, layout, name) for name in names]


def trial_charts(summary: CampaignSummary) -> list[Chart]:
    """The trials themselves: in the order they ran, and the main metric over time within them."""
    return [*_trial_order_charts(summary), *_time_series_charts(summary)]


def write_pngs(summaries: Sequence[CampaignSummary], directory: Path) -> list[Path]:
    """Write each chart as a PNG (two pixels a point, light) into `directory`, made if need be.

    Of several files: those of all together into the directory, each one's own into a folder of its name.
    """
    together = compare_files(summaries)
    if together is None:
        return [path for summary in summaries for path in _write_campaign_pngs(summary, directory)]
    directory.mkdir(parents=True, exist_ok=True)
    title = ", ".join(name for name, _ in together.files)
    written = [_write_png(chart, title, (), directory) for chart in (*together.main, *together.others)]
    for name, summary in together.files:
        written += _write_campaign_pngs(summary, directory / name.replace("/", "_").replace(":", "-"))
    return written


def _write_campaign_pngs(summary: CampaignSummary, directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    findings = build_narrative(summary).findings
    summary = to_single_factor(summary)
    charts = (*main_charts(summary), *other_metric_charts(summary), *trial_charts(summary))
    about = emulation_warnings(summary)
    written = [_write_png(chart, summary.title, about, directory) for chart in charts]
    for number, finding in enumerate(findings, 1):
        if chart := evidence_chart(finding, number):
            named = replace(chart, name=f"{chart.name}-{_finding_slug(finding)}")
            written.append(_write_png(named, summary.title, (split_headline(finding)[0], *about), directory))
    return written


def _finding_slug(finding: Finding) -> str:
    """What it is about, as part of a file's name: `receiver_cpu`, `two_modes`, `factors`, `not-explained`."""
    return str(finding.details.get("cause", finding.kind)).replace(" ", "-")


def _write_png(chart: Chart, title: str, before: Sequence[str], directory: Path) -> Path:
    """The chart under `title`, its caption after the sentences `before`."""
    path = directory / f"{chart.name}.png"
    caption = textwrap.wrap(" ".join((*before, chart.caption)), _CAPTION_WIDTH)
    whole = {
        **chart.spec,
        "title": {"text": textwrap.wrap(title, _TITLE_WIDTH), "subtitle": [chart.title, *caption]},
        "datasets": {DATASET_NAME: chart.rows},
        "config": {**vega_config(dark=False), "padding": 24},
    }
    path.write_bytes(vl_convert.vegalite_to_png(json.dumps(whole), scale=2))
    return path


def render_svg(chart: Chart) -> str:
    """The chart as an SVG in light colours, without the single trials: thousands of them are megabytes."""
    rows = [row for row in chart.rows if row.get("kind") != "trial"]
    whole = {**chart.spec, "datasets": {DATASET_NAME: rows}, "config": vega_config(dark=False)}
    return str(vl_convert.vegalite_to_svg(json.dumps(whole)))


def _metric_chart(summary: CampaignSummary, layout: FactorLayout, metric: str) -> Chart:
    if is_frame_rate_by_size(layout, metric):
        return frame_size_chart(summary, layout, metric)
    rows = metric_rows(summary, layout, metric)
    words = [describe_marks(rows, summary.precision.confidence)]
    kinds = {row["kind"] for row in rows}
    if "mode" in kinds:
        words.append("Two diamonds: the trials fall into two modes, with these shares of them.")
    if "missing" in kinds:
        words.append("A cross on the axis: not measured.")
    if metric != summary.main_metric and find_metric(metric).meaning:
        words.insert(0, f"{find_metric(metric).meaning[:1].upper()}{find_metric(metric).meaning[1:]}.")
    title = metric_heading(metric, metric_scale(summary.treatments, metric))
    return Chart(metric, title, " ".join(words), metric_spec(summary, layout, metric), rows)


def _latency_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    if rows := latency_rows(summary, layout):
        noun, single = _LATENCY_TERMS.get(summary.workload, _REQUEST_LATENCY_TERMS)
        words = (
            "How long all but the slowest took: all trials of a treatment together, without their warm-up. A "
            f"line ends where a single {single} is left."
        )
        if any(treatment.idle_latency_histogram for treatment in summary.treatments):
            words += " Before the load the same requests were alone."
        chart = latency_spec(rows, noun)
        yield Chart("latency-percentiles", f"{noun} by percentile", words, chart, rows)


def _trial_order_charts(summary: CampaignSummary) -> Iterator[Chart]:
    if rows := trial_order_rows(summary, lay_out_factors(summary), summary.main_metric):
        words = f"{find_metric(summary.main_metric).label} of each trial against its treatment's median"
        if any(row["mark"] == "trial" for row in rows):
            words += (
                "; the line joins the medians of the blocks. "
                "A line that slopes or jumps is a machine that changed while it was measured"
            )
        yield Chart("trials-in-time", "Trials in the order they ran", f"{words}.", trial_order_spec(rows), rows)


def _time_series_charts(summary: CampaignSummary) -> Iterator[Chart]:
    rows, left_out = time_series_rows(summary, lay_out_factors(summary))
    if rows:
        words = "Every line is a trial; the grey, dashed part was cut off as warm-up."
        if any(row["part"] == "idle" for row in rows):
            words += " Before second 0 there are only requests; then the load begins."
        if left_out:
            words += f" {left_out}"
        scale = metric_scale(summary.treatments, summary.main_metric)
        title = f"{metric_heading(summary.main_metric, scale)} within the trials"
        yield Chart("within-trials", title, words, time_series_spec(rows), rows)
