"""Which charts tests by frames have beside those of all workloads, what each is called and says."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.quantity import format_exact_share
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import describe_marks
from vnetbench.report.charts.factor_layout import FactorLayout
from vnetbench.report.charts.frame_rows import (
    MODEL_BAND_SHARE,
    ZOOM_SHARE,
    burst_rows,
    loss_curve_rows,
    missing_frames_rows,
    zoomed_step_rows,
    published_comparison_rows,
    frame_size_rows,
    search_step_rows,
)
from vnetbench.report.charts.frame_specs import (
    loss_curve_spec,
    missing_frames_spec,
    published_comparison_spec,
    frame_size_spec,
    step_loss_spec,
)
from vnetbench.report.tables.published_comparison import compare_with_published
from vnetbench.study.workloads import BACK_TO_BACK, FRAME_LOSS, SOAK, THROUGHPUT_METRICS
from vnetbench.wording.estimate_text import metric_heading, metric_scale
from vnetbench.wording.factor_text import pluralize

_FRAME_RATE_METRICS = (*THROUGHPUT_METRICS, "forwarding_rate_fps", "max_forwarding_rate_fps")
"""Metrics that a line rate is a limit of."""


def is_frame_rate_by_size(layout: FactorLayout, metric: str) -> bool:
    """Whether the metric is a rate of frames and their size is on x."""
    return metric in _FRAME_RATE_METRICS and layout.x_factor is not None and layout.x_factor.name == "frame_size"


def frame_size_chart(summary: CampaignSummary, layout: FactorLayout, metric: str) -> Chart:
    """A rate against the size of frames, with what limits it."""
    rows, top = frame_size_rows(summary, layout, metric)
    words = [describe_marks(rows, summary.precision.confidence)]
    kinds = {row["kind"] for row in rows}
    if "packet limit" in kinds:
        words.append("Dashed: the most frames/s of any size, which is the limit of packets.")
    if "line rate" in kinds:
        words.append(
            "Dotted: what a link of that rate carries (each frame with 20 bytes of preamble and gap)."
        )
    if "missing" in kinds:
        words.append("A cross on the axis: not measured.")
    title = f"{metric_heading(metric, metric_scale(summary.treatments, metric))} by size of frame"
    return Chart(metric, title, " ".join(words), frame_size_spec(summary, layout, metric, top), rows)


def frame_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    """Published figures beside, and what the steps of the trials lost."""
    if (found := compare_with_published(summary)) is not None:
        rows, title = published_comparison_rows(found)
        words = (
            f"Mean of the trials, from the least to the most. {found.source.title}: {found.source.conditions}"
        )
        yield Chart("published", f"{title}, here and published", words, published_comparison_spec(rows, title), rows)
    if summary.workload == FRAME_LOSS:
        yield from _loss_curve_charts(summary, layout)
    elif summary.workload == BACK_TO_BACK:
        yield from _burst_charts(summary, layout)
    else:
        yield from _search_step_charts(summary, layout)
    if summary.workload == SOAK and (missing := missing_frames_rows(summary, layout)):
        words = (
            "Frames sent less those that had come by then, a line a trial. A line that stays low is what is "
            "under way; one that rises is loss, and when it happened."
        )
        yield Chart("missing", "Frames missing so far", words, missing_frames_spec(missing), missing)


def _search_step_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows, scale, left_out = search_step_rows(summary, layout)
    if not rows:
        return
    load = f"Offered load in each direction ({scale.unit})"
    words = (
        "Each point is a step of a search, larger the longer it was. The grey band is to hold "
        f"{format_exact_share(MODEL_BAND_SHARE)} of the full steps at each load, by a model of loss that learned from "
        "the newest of them. A dashed line is a goal, a diamond on it the throughput of a trial with its "
        f"interval. {left_out}"
    )
    yield Chart("loss-load", "Frame loss ratio against load", words.rstrip(), step_loss_spec(rows, load), rows)
    if near := zoomed_step_rows(rows):
        words = f"The same steps, those within {format_exact_share(ZOOM_SHARE)} of a throughput."
        chart = step_loss_spec(near, load, is_whole=False)
        yield Chart("loss-load-near", "Frame loss ratio near the throughput", words, chart, near)


def _burst_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows = burst_rows(summary, layout)
    if rows:
        words = (
            "Each point is a burst, sent as fast as the generator goes, and the share of it that was lost."
        )
        yield Chart(
            "bursts",
            "Loss against the length of bursts",
            words,
            step_loss_spec(rows, "Frames in the burst"),
            rows,
        )


def _loss_curve_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    rows, scale = loss_curve_rows(summary, layout)
    if rows:
        trials = pluralize(sum(t.trials for t in summary.treatments), "trial")
        words = f"The share of frames that each load lost (RFC 2544, 26.3); a line for each of {trials}."
        load = f"Offered load in each direction ({scale.unit})"
        yield Chart("frame-loss", "Frame loss by load", words, loss_curve_spec(rows, load), rows)
