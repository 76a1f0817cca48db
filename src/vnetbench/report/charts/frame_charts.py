"""The additional charts of frame workloads: rates by frame size, loss, bursts and published values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.quantity import format_count_with_noun, format_exact_share
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import estimate_marks_sentence
from vnetbench.report.charts.event_charts import event_timeline_charts
from vnetbench.report.charts.factor_layout import FactorLayout
from vnetbench.report.charts.frame_rows import (
    MAX_ZOOMED_LOAD_DEVIATION,
    SHARE_OF_STEPS_IN_LOSS_CURVE_BAND,
    burst_loss_rows,
    frame_size_rows_and_y_max,
    loss_curve_rows_and_load_unit,
    outstanding_frames_rows,
    published_comparison_rows_and_heading,
    search_step_rows,
    step_rows_near_throughput,
)
from vnetbench.report.charts.frame_specs import (
    frame_size_spec,
    loss_curve_spec,
    outstanding_frames_spec,
    published_comparison_spec,
    step_loss_spec,
)
from vnetbench.report.tables.published_comparison import compare_with_published
from vnetbench.study.factors.frame_factors import FRAME_SIZE
from vnetbench.study.workloads import THROUGHPUT_METRIC_NAMES, WORKLOADS
from vnetbench.wording.estimate_text import choose_metric_scale, metric_heading

_METRICS_LIMITED_BY_LINE_RATE = (*THROUGHPUT_METRIC_NAMES, "forwarding_rate_fps", "max_forwarding_rate_fps")
"""Metrics that the line rate limits."""


def is_frame_rate_by_size(layout: FactorLayout, metric: str) -> bool:
    """Return whether the metric is a frame rate and the frame size is on the x axis."""
    x_factor = layout.x_factor
    return (
        metric in _METRICS_LIMITED_BY_LINE_RATE and x_factor is not None and x_factor.name == FRAME_SIZE.name
    )


def frame_size_chart(summary: CampaignSummary, layout: FactorLayout, metric: str) -> Chart:
    """Return a frame rate by frame size, with line rates and packet limits."""
    rows, y_max = frame_size_rows_and_y_max(summary, layout, metric)
    sentences = [estimate_marks_sentence(rows, summary.required_precision.confidence)]
    kinds = {row["kind"] for row in rows}
    if "packet limit" in kinds:
        sentences.append("Dashed lines: the packet limit, the highest frame rate of any size.")
    if "line rate" in kinds:
        sentences.append("Dotted lines: the line rate, with 20 bytes of preamble and gap per frame.")
    if "missing" in kinds:
        sentences.append("A cross on the axis means that a treatment was not measured.")
    title = f"{metric_heading(metric, choose_metric_scale(summary.treatments, metric))} by frame size"
    return Chart(metric, title, " ".join(sentences), frame_size_spec(summary, layout, metric, y_max), rows)


def published_and_additional_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    """Yield the comparison with published values, and the additional charts of the workload."""
    yield from _published_comparison_charts(summary)
    for name in WORKLOADS[summary.workload].additional_chart_names:
        yield from ADDITIONAL_CHARTS_BY_NAME[name](summary, layout)


def _published_comparison_charts(summary: CampaignSummary) -> Iterator[Chart]:
    comparison = compare_with_published(summary)
    if comparison is None:
        return
    rows, heading = published_comparison_rows_and_heading(comparison)
    source = comparison.source
    caption = f"Means of the trials, from minimum to maximum. {source.title}: {source.conditions}"
    spec = published_comparison_spec(rows, heading)
    yield Chart("published", f"{heading}, measured and published", caption, spec, rows)


def _search_step_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows, scale, omission_note = search_step_rows(summary, layout)
    if not rows:
        return
    load_title = f"Offered load per direction ({scale.unit})"
    share = format_exact_share(SHARE_OF_STEPS_IN_LOSS_CURVE_BAND)
    caption = (
        "Each point is a step of a search; a larger point is a longer step. The grey band contains "
        f"{share} of the full-length steps by a model fitted to the newest steps. A dashed line is a loss "
        f"goal, a diamond is the throughput of a trial with its interval. {omission_note}"
    )
    spec = step_loss_spec(rows, load_title)
    yield Chart("loss-load", "Frame loss ratio by offered load", caption.rstrip(), spec, rows)
    if zoomed := step_rows_near_throughput(rows):
        caption = (
            f"The chart shows the steps whose load is within {format_exact_share(MAX_ZOOMED_LOAD_DEVIATION)} "
            "of a throughput."
        )
        spec = step_loss_spec(zoomed, load_title, has_log_load=False)
        yield Chart("loss-load-near", "Frame loss ratio near the throughput", caption, spec, zoomed)


def _burst_loss_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows = burst_loss_rows(summary, layout)
    if rows:
        caption = (
            "Each point is a burst at the generator's maximum rate. It shows which share of the burst's "
            "frames was lost."
        )
        spec = step_loss_spec(rows, "Frames in the burst")
        yield Chart("bursts", "Frame loss ratio by burst length", caption, spec, rows)


def _loss_curve_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows, scale = loss_curve_rows_and_load_unit(summary, layout)
    if rows:
        trials = format_count_with_noun(
            sum(treatment.trial_count for treatment in summary.treatments), "trial"
        )
        caption = f"Frame loss ratio at each offered load (RFC 2544, 26.3), with a line for each of {trials}."
        spec = loss_curve_spec(rows, f"Offered load per direction ({scale.unit})")
        yield Chart("frame-loss", "Frame loss ratio by offered load", caption, spec, rows)


def _outstanding_frames_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows = outstanding_frames_rows(summary, layout)
    if rows:
        caption = (
            "Frames sent minus frames received, with a line per trial. A low constant line shows frames in "
            "flight; a rising line shows when frames were lost."
        )
        yield Chart("missing", "Outstanding frames", caption, outstanding_frames_spec(rows), rows)


ADDITIONAL_CHARTS_BY_NAME: Mapping[str, Callable[[CampaignSummary, FactorLayout], Iterator[Chart]]] = {
    "search_steps": _search_step_charts,
    "loss_curve": _loss_curve_charts,
    "bursts": _burst_loss_charts,
    "outstanding_frames": _outstanding_frames_charts,
    "event_timeline": event_timeline_charts,
}
"""The additional charts that a workload can name (`Workload.additional_chart_names`)."""
