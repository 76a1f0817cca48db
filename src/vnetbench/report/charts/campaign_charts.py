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
from vnetbench.quantity import spell_share
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import course_rows, latency_rows, marks_told, metric_rows, time_rows
from vnetbench.report.charts.chart_specs import (
    ROWS,
    course_chart,
    heat_chart,
    latency_chart,
    metric_chart,
    time_chart,
)
from vnetbench.report.charts.evidence_charts import evidence_chart
from vnetbench.report.charts.factor_layout import Layout, lay_out
from vnetbench.report.charts.file_comparison import overview, published_charts
from vnetbench.report.charts.frame_charts import frame_charts, is_over_sizes, over_sizes
from vnetbench.report.charts.theme import chart_config
from vnetbench.report.one_at_a_time import by_change
from vnetbench.report.text.emulation_warning import emulation
from vnetbench.report.text.evidence_text import headline
from vnetbench.report.text.narrative import story_of
from vnetbench.study.workloads import DATAGRAMS, OF_FRAMES, THROUGHPUTS
from vnetbench.wording.estimate_text import heading, is_zero_throughout, measured_metrics, metric_of, scale_of

_METRICS = (
    *THROUGHPUTS, "throughput_bps", "forwarding_rate_fps", "frame_loss_percent", "offered_load_fps",
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
_OF_REQUESTS = ("Latency", "transaction")
_TIMED = {
    DATAGRAMS: ("One-way delay", "datagram"),
    **dict.fromkeys(OF_FRAMES, ("One-way delay", "frame")),
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
    layout = lay_out(summary)
    main = summary.main_metric
    chart = _metric_chart(summary, layout, main)
    beside = [*frame_charts(summary, layout), *_latencies(summary, layout)]
    if not layout.heat:
        return [chart, *beside]
    share = spell_share(summary.precision.confidence)
    caption = f"Median of the trials and its {share} interval."
    spec = heat_chart(summary, layout, main)
    return [Chart(f"{main}-heat", chart.title, caption, spec, chart.rows), chart, *beside]


def other_metric_charts(summary: CampaignSummary) -> list[Chart]:
    """One chart a metric beside the main one, the most useful first; last, what is zero everywhere."""
    if summary.reference is not None:
        return published_charts(summary)[1:]
    layout = lay_out(summary)
    measured = measured_metrics(summary.treatments)
    names = [name for name in _METRICS if name in measured and name != summary.main_metric]
    names.sort(key=lambda name: is_zero_throughout(summary.treatments, name))
    return [_metric_chart(summary, layout, name) for name in names]


def trial_charts(summary: CampaignSummary) -> list[Chart]:
    """The trials themselves: in the order they ran, and the main metric over time within them."""
    return [*_time(summary), *_courses(summary)]


def write_pngs(summaries: Sequence[CampaignSummary], directory: Path) -> list[Path]:
    """Write each chart as a PNG (two pixels a point, light) into `directory`, made if need be.

    Of several files: those of all together into the directory, each one's own into a folder of its name.
    """
    together = overview(summaries)
    if together is None:
        return [path for summary in summaries for path in _write_of(summary, directory)]
    directory.mkdir(parents=True, exist_ok=True)
    title = ", ".join(name for name, _ in together.files)
    written = [_write(chart, title, (), directory) for chart in (*together.main, *together.others)]
    for name, summary in together.files:
        written += _write_of(summary, directory / name.replace("/", "_").replace(":", "-"))
    return written


def _write_of(summary: CampaignSummary, directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    findings = story_of(summary).findings
    summary = by_change(summary)
    charts = (*main_charts(summary), *other_metric_charts(summary), *trial_charts(summary))
    about = emulation(summary)
    written = [_write(chart, summary.title, about, directory) for chart in charts]
    for number, finding in enumerate(findings, 1):
        if chart := evidence_chart(finding, number):
            named = replace(chart, name=f"{chart.name}-{_what(finding)}")
            written.append(_write(named, summary.title, (headline(finding)[0], *about), directory))
    return written


def _what(finding: Finding) -> str:
    """What it is about, as part of a file's name: `receiver_cpu`, `two_modes`, `factors`, `not-explained`."""
    return str(finding.details.get("cause", finding.kind)).replace(" ", "-")


def _write(chart: Chart, title: str, before: Sequence[str], directory: Path) -> Path:
    """The chart under `title`, its caption after the sentences `before`."""
    path = directory / f"{chart.name}.png"
    caption = textwrap.wrap(" ".join((*before, chart.caption)), _CAPTION_WIDTH)
    whole = {
        **chart.spec,
        "title": {"text": textwrap.wrap(title, _TITLE_WIDTH), "subtitle": [chart.title, *caption]},
        "datasets": {ROWS: chart.rows},
        "config": {**chart_config(dark=False), "padding": 24},
    }
    path.write_bytes(vl_convert.vegalite_to_png(json.dumps(whole), scale=2))
    return path


def still_picture(chart: Chart) -> str:
    """The chart as an SVG in light colours, without the single trials: thousands of them are megabytes."""
    rows = [row for row in chart.rows if row.get("kind") != "trial"]
    whole = {**chart.spec, "datasets": {ROWS: rows}, "config": chart_config(dark=False)}
    return str(vl_convert.vegalite_to_svg(json.dumps(whole)))


def _metric_chart(summary: CampaignSummary, layout: Layout, metric: str) -> Chart:
    if is_over_sizes(layout, metric):
        return over_sizes(summary, layout, metric)
    rows = metric_rows(summary, layout, metric)
    words = [marks_told(rows, summary.precision.confidence)]
    kinds = {row["kind"] for row in rows}
    if "mode" in kinds:
        words.append("Two diamonds: the trials fall into two modes, with these shares of them.")
    if "missing" in kinds:
        words.append("A cross on the axis: not measured.")
    if metric != summary.main_metric and metric_of(metric).meaning:
        words.insert(0, f"{metric_of(metric).meaning[:1].upper()}{metric_of(metric).meaning[1:]}.")
    title = heading(metric, scale_of(summary.treatments, metric))
    return Chart(metric, title, " ".join(words), metric_chart(summary, layout, metric), rows)


def _latencies(summary: CampaignSummary, layout: Layout) -> Iterator[Chart]:
    if rows := latency_rows(summary, layout):
        noun, single = _TIMED.get(summary.workload, _OF_REQUESTS)
        words = (
            "How long all but the slowest took: all trials of a treatment together, without their warm-up. A "
            f"line ends where a single {single} is left."
        )
        if any(treatment.idle_latencies for treatment in summary.treatments):
            words += " Before the load the same requests were alone."
        chart = latency_chart(rows, noun)
        yield Chart("latency-percentiles", f"{noun} by percentile", words, chart, rows)


def _time(summary: CampaignSummary) -> Iterator[Chart]:
    if rows := time_rows(summary, lay_out(summary), summary.main_metric):
        words = f"{metric_of(summary.main_metric).label} of each trial against its treatment's median"
        if any(row["mark"] == "trial" for row in rows):
            words += (
                "; the line joins the medians of the blocks. "
                "A line that slopes or jumps is a machine that changed while it was measured"
            )
        yield Chart("trials-in-time", "Trials in the order they ran", f"{words}.", time_chart(rows), rows)


def _courses(summary: CampaignSummary) -> Iterator[Chart]:
    rows, left_out = course_rows(summary, lay_out(summary))
    if rows:
        words = "Every line is a trial; the grey, dashed part was cut off as warm-up."
        if any(row["part"] == "idle" for row in rows):
            words += " Before second 0 there are only requests; then the load begins."
        if left_out:
            words += f" {left_out}"
        scale = scale_of(summary.treatments, summary.main_metric)
        title = f"{heading(summary.main_metric, scale)} within the trials"
        yield Chart("within-trials", title, words, course_chart(rows), rows)
