"""The charts of a campaign: the deciding metric, other metrics, latencies and single trials."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.quantity import format_exact_share
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import (
    estimate_marks_sentence,
    latency_rows,
    metric_rows,
    time_series_rows_and_omission_note,
    trial_deviation_rows,
)
from vnetbench.report.charts.chart_specs import (
    heat_map_spec,
    metric_spec,
)
from vnetbench.report.charts.factor_layout import FactorLayout, lay_out_factors
from vnetbench.report.charts.file_comparison import charts_of_published_table
from vnetbench.report.charts.frame_charts import (
    frame_size_chart,
    is_frame_rate_by_size,
    published_and_additional_charts,
)
from vnetbench.report.charts.trial_specs import (
    latency_by_percentile_spec,
    time_series_spec,
    trial_deviation_spec,
)
from vnetbench.study.workloads import THROUGHPUT_METRIC_NAMES, WORKLOADS
from vnetbench.wording.estimate_text import (
    choose_metric_scale,
    find_metric,
    is_always_zero,
    measured_metrics,
    metric_heading,
)

_CHARTED_METRICS = (
    *THROUGHPUT_METRIC_NAMES, "throughput_bps", "forwarding_rate_fps", "frame_loss_percent",
    "offered_load_fps", "max_forwarding_rate_fps", "back_to_back_frames", "buffer_s",
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
"""The metrics with a chart, most useful first."""


def main_charts(summary: CampaignSummary) -> list[Chart]:
    """Return the charts of the deciding metric, of frames and of latencies; empty without trials.

    Two numeric factors add a heat map.
    """
    if summary.represented_table is not None:
        return charts_of_published_table(summary)[:1]
    if not measured_metrics(summary.treatments):
        return []
    layout = lay_out_factors(summary)
    metric = summary.deciding_metric
    charts = [_metric_chart(summary, layout, metric)]
    if layout.heat_map_y_factor:
        share = format_exact_share(summary.required_precision.confidence)
        caption = f"Medians of the trials with {share} confidence intervals."
        spec = heat_map_spec(summary, layout, metric)
        charts.insert(0, Chart(f"{metric}-heat", charts[0].title, caption, spec, charts[0].rows))
    return [*charts, *published_and_additional_charts(summary, layout), *_latency_charts(summary, layout)]


def other_metric_charts(summary: CampaignSummary) -> list[Chart]:
    """Return a chart per other metric, most useful first and always-zero metrics last."""
    if summary.represented_table is not None:
        return charts_of_published_table(summary)[1:]
    layout = lay_out_factors(summary)
    measured = measured_metrics(summary.treatments)
    metrics = [name for name in _CHARTED_METRICS if name in measured and name != summary.deciding_metric]
    metrics.sort(key=lambda name: is_always_zero(summary.treatments, name))
    return [_metric_chart(summary, layout, name) for name in metrics]


def trial_charts(summary: CampaignSummary) -> list[Chart]:
    """Return the charts of single trials: in the order they ran, and over time within each trial."""
    return [*_trial_deviation_charts(summary), *_time_series_charts(summary)]


def _metric_chart(summary: CampaignSummary, layout: FactorLayout, metric: str) -> Chart:
    if is_frame_rate_by_size(layout, metric):
        return frame_size_chart(summary, layout, metric)
    rows = metric_rows(summary, layout, metric)
    kinds = {row["kind"] for row in rows}
    sentences = [estimate_marks_sentence(rows, summary.required_precision.confidence)]
    if "mode" in kinds:
        sentences.append("Two diamonds show two modes, with their shares of the trials.")
    if "missing" in kinds:
        sentences.append("A cross on the axis means that a treatment was not measured.")
    meaning = find_metric(metric).meaning
    if metric != summary.deciding_metric and meaning:
        sentences.insert(0, f"{meaning[:1].upper()}{meaning[1:].rstrip('.')}.")
    title = metric_heading(metric, choose_metric_scale(summary.treatments, metric))
    return Chart(metric, title, " ".join(sentences), metric_spec(summary, layout, metric), rows)


def _latency_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows = latency_rows(summary, layout)
    if not rows:
        return
    workload = WORKLOADS[summary.workload]
    title = workload.latency_title
    caption = (
        f"{title} percentiles of all trials of a treatment, without the warm-up. "
        f"Each line ends where a single {workload.counted_unit_noun} remains."
    )
    if any(treatment.idle_latency_histogram for treatment in summary.treatments):
        caption += " Before the load starts, the trial sends the same requests without the load."
    yield Chart(
        "latency-percentiles",
        f"{title} by percentile",
        caption,
        latency_by_percentile_spec(rows, title),
        rows,
    )


def _trial_deviation_charts(summary: CampaignSummary) -> Iterator[Chart]:
    rows = trial_deviation_rows(summary, lay_out_factors(summary), summary.deciding_metric)
    if not rows:
        return
    label = find_metric(summary.deciding_metric).label
    caption = f"{label} of each trial relative to its treatment's median."
    if any(row["mark"] == "trial" for row in rows):
        caption += " The line joins the medians of the blocks. If it slopes or jumps, the machine changed."
    yield Chart("trials-in-time", "Trials in the order they ran", caption, trial_deviation_spec(rows), rows)


def _time_series_charts(summary: CampaignSummary) -> Iterator[Chart]:
    rows, omission_note = time_series_rows_and_omission_note(summary, lay_out_factors(summary))
    if not rows:
        return
    sentences = ["Each line is a trial. The dashed grey part is the warm-up."]
    if any(row["part"] == "idle" for row in rows):
        sentences.append("The load starts at second 0. Before the load, the trial sends requests only.")
    if omission_note:
        sentences.append(omission_note)
    scale = choose_metric_scale(summary.treatments, summary.deciding_metric)
    title = f"{metric_heading(summary.deciding_metric, scale)} within trials"
    yield Chart("within-trials", title, " ".join(sentences), time_series_spec(rows), rows)
