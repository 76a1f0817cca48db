"""Which charts tests by frames have beside those of all workloads, what each is called and says."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.quantity import spell_share
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import marks_told
from vnetbench.report.charts.factor_layout import Layout
from vnetbench.report.charts.frame_rows import (
    MODEL_SHARE,
    NEAR_SHARE,
    burst_rows,
    curve_rows,
    missing_rows,
    near_rows,
    published_rows,
    size_rows,
    step_rows,
)
from vnetbench.report.charts.frame_specs import (
    loss_curve_chart,
    missing_chart,
    published_chart,
    size_chart,
    steps_chart,
)
from vnetbench.report.tables.published_comparison import beside
from vnetbench.study.workloads import BACK_TO_BACK, FRAME_LOSS, SOAK, THROUGHPUTS
from vnetbench.wording.estimate_text import heading, scale_of
from vnetbench.wording.factor_text import counted

_RATES = (*THROUGHPUTS, "forwarding_rate_fps", "max_forwarding_rate_fps")
"""Metrics that a line rate is a limit of."""


def is_over_sizes(layout: Layout, metric: str) -> bool:
    """Whether the metric is a rate of frames and their size is on x."""
    return metric in _RATES and layout.x is not None and layout.x.name == "frame_size"


def over_sizes(summary: CampaignSummary, layout: Layout, metric: str) -> Chart:
    """A rate against the size of frames, with what limits it."""
    rows, top = size_rows(summary, layout, metric)
    words = [marks_told(rows, summary.precision.confidence)]
    kinds = {row["kind"] for row in rows}
    if "packet limit" in kinds:
        words.append("Dashed: the most frames/s of any size, which is the limit of packets.")
    if "line rate" in kinds:
        words.append(
            "Dotted: what a link of that rate carries (each frame with 20 bytes of preamble and gap)."
        )
    if "missing" in kinds:
        words.append("A cross on the axis: not measured.")
    title = f"{heading(metric, scale_of(summary.treatments, metric))} by size of frame"
    return Chart(metric, title, " ".join(words), size_chart(summary, layout, metric, top), rows)


def frame_charts(summary: CampaignSummary, layout: Layout) -> Iterator[Chart]:
    """Published figures beside, and what the steps of the trials lost."""
    if (found := beside(summary)) is not None:
        rows, title = published_rows(found)
        words = (
            f"Mean of the trials, from the least to the most. {found.source.title}: {found.source.conditions}"
        )
        yield Chart("published", f"{title}, here and published", words, published_chart(rows, title), rows)
    if summary.workload == FRAME_LOSS:
        yield from _loss_curve(summary, layout)
    elif summary.workload == BACK_TO_BACK:
        yield from _bursts(summary, layout)
    else:
        yield from _steps(summary, layout)
    if summary.workload == SOAK and (missing := missing_rows(summary, layout)):
        words = (
            "Frames sent less those that had come by then, a line a trial. A line that stays low is what is "
            "under way; one that rises is loss, and when it happened."
        )
        yield Chart("missing", "Frames missing so far", words, missing_chart(missing), missing)


def _steps(summary: CampaignSummary, layout: Layout) -> Iterator[Chart]:
    rows, scale, left_out = step_rows(summary, layout)
    if not rows:
        return
    load = f"Offered load in each direction ({scale.unit})"
    words = (
        "Each point is a step of a search, larger the longer it was. The grey band is to hold "
        f"{spell_share(MODEL_SHARE)} of the full steps at each load, by a model of loss that learned from "
        "the newest of them. A dashed line is a goal, a diamond on it the throughput of a trial with its "
        f"interval. {left_out}"
    )
    yield Chart("loss-load", "Frame loss ratio against load", words.rstrip(), steps_chart(rows, load), rows)
    if near := near_rows(rows):
        words = f"The same steps, those within {spell_share(NEAR_SHARE)} of a throughput."
        chart = steps_chart(near, load, is_whole=False)
        yield Chart("loss-load-near", "Frame loss ratio near the throughput", words, chart, near)


def _bursts(summary: CampaignSummary, layout: Layout) -> Iterator[Chart]:
    rows = burst_rows(summary, layout)
    if rows:
        words = (
            "Each point is a burst, sent as fast as the generator goes, and the share of it that was lost."
        )
        yield Chart(
            "bursts",
            "Loss against the length of bursts",
            words,
            steps_chart(rows, "Frames in the burst"),
            rows,
        )


def _loss_curve(summary: CampaignSummary, layout: Layout) -> Iterator[Chart]:
    rows, scale = curve_rows(summary, layout)
    if rows:
        trials = counted(sum(t.trials for t in summary.treatments), "trial")
        words = f"The share of frames that each load lost (RFC 2544, 26.3); a line for each of {trials}."
        load = f"Offered load in each direction ({scale.unit})"
        yield Chart("frame-loss", "Frame loss by load", words, loss_curve_chart(rows, load), rows)
