"""The data behind the charts of frames: line rates, steps and the model of loss, losses in time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.tables import ValueRange
from vnetbench.quantity import Scale, format_interval, choose_scale, format_exact_rate, format_exact_share
from vnetbench.report.charts.chart_rows import ChartRow, metric_rows, round_for_chart
from vnetbench.report.charts.factor_layout import FactorLayout, level_positions
from vnetbench.report.tables.published_comparison import PublishedComparison, comparison_scale, direction_label
from vnetbench.results.records import BURST_STEP, LOSS_CURVE_STEP, GENERATOR_STEP, SEARCH_STEP, StepRecord
from vnetbench.search.interface import SearchStep
from vnetbench.search.loss_curve import LossCurve, fit_loss_curve
from vnetbench.wording.estimate_text import metric_heading, metric_scale
from vnetbench.wording.factor_text import factor_names, treatment_phrase

_ETHERNET_LINE_RATES_BPS = (1e9, 10e9, 25e9, 40e9, 100e9)
"""Line rates that are drawn where no `link_rate` was set."""
_PREAMBLE_AND_GAP_BYTES = 20
_MIN_NEARBY_SHARE, _MAX_NEARBY_SHARE = 0.05, 1.1
"""An Ethernet is near whose line rate for the largest frames is within these shares of the highest figure."""
ZOOM_SHARE = 0.1
MODEL_BAND_SHARE = 0.9
"""Of steps at a load that the band of the model holds."""
_MODEL_POINTS = 120
_MAX_MODEL_STEPS = 60
_MAX_PANELS = 8
_LINE_RATE_POINTS = 24
_MAX_POINTS_PER_TRIAL = 200


def line_rate_fps(rate_bps: float, frame_bytes: float) -> float:
    """Frames/s of this size that fill a link: each has 8 bytes of preamble before it and a gap of 12 behind
    it (IEEE 802.3, 4A.4.2), and its size includes the frame check sequence."""
    return rate_bps / (8 * (frame_bytes + _PREAMBLE_AND_GAP_BYTES))


def frame_size_rows(summary: CampaignSummary, layout: FactorLayout, metric: str) -> tuple[list[ChartRow], float]:
    """Rows of `metric_rows` and of kinds `line rate` and `packet limit` around them; where the y axis ends.

    A line rate is that of `link_rate`, or of each Ethernet that results come near; twice that where all
    frames of a panel go both ways at once.
    """
    rows = metric_rows(summary, layout, metric)
    scale = metric_scale(summary.treatments, metric)
    top = 1.12 * max((row.get("high") or row["value"] or 0.0 for row in rows), default=0.0)
    assert layout.x_factor is not None
    xs = list(level_positions(layout.x_factor).values())
    panels: dict[str, list[TreatmentSummary]] = {}
    for row, treatment in _estimates_with_treatments(summary, rows):
        panels.setdefault(row["combination"], []).append(treatment)
    for combination, treatments in panels.items():
        base = {"combination": combination, "series": None}
        ways = 2 if all(t.factors.get("direction") == "both" for t in treatments) else 1
        for rate_bps in _line_rates(treatments, metric, ways, max(xs)):
            label = f"{'2 × ' if ways == 2 else ''}{format_exact_rate(rate_bps)}"
            rows += [{**base, **row} for row in _line_rate_rows(rate_bps * ways, label, min(xs), max(xs), top, scale)]
    return [*rows, *_packet_limit_rows(rows, scale)], top


def search_step_rows(summary: CampaignSummary, layout: FactorLayout) -> tuple[list[ChartRow], Scale, str]:
    """Kinds `step`, `model`, `goal`, `answer` of treatments that searched; the loads' unit; what is left out.

    Loads are of each direction of each pair.
    """
    searched = [t for t in summary.treatments if _select_steps(t, SEARCH_STEP)]
    chosen = searched[:_MAX_PANELS]
    # The highest load of all may be far above all that is of interest.
    loads = [_offered_load_fps(step) for t in chosen for _, step in _select_steps(t, SEARCH_STEP)]
    scale = choose_scale("frame/s", statistics.median(loads) if loads else 0.0)
    rows = [
        {"treatment": treatment_phrase(t.factors, factor_names(layout.varying)), **row}
        for t in chosen
        for row in _search_rows(t, scale.divisor)
    ]
    few = len(searched) > len(chosen)
    return rows, scale, f"Drawn are the first {len(chosen)} of {len(searched)} treatments." if few else ""


def zoomed_step_rows(rows: Sequence[ChartRow]) -> list[ChartRow]:
    """Of `step_rows` what lies within NEAR_SHARE of the throughputs of its treatment."""
    found = []
    for name in dict.fromkeys(row["treatment"] for row in rows):
        of_it = [row for row in rows if row["treatment"] == name]
        loads = [row["load"] for row in of_it if row["kind"] == "answer" and row["load"]]
        if loads:
            least, most = min(loads) * (1 - ZOOM_SHARE), max(loads) * (1 + ZOOM_SHARE)
            found += [
                _clip_interval(row, least, most) if row["kind"] == "answer" else row
                for row in of_it
                if row["kind"] == "goal" or least <= row["load"] <= most
            ]
    return found


def loss_curve_rows(summary: CampaignSummary, layout: FactorLayout) -> tuple[list[ChartRow], Scale]:
    """Kind `step` of each load of the course of loss of each trial, and the loads' unit."""
    loads = [_offered_load_fps(step) for t in summary.treatments for _, step in _select_steps(t, LOSS_CURVE_STEP)]
    scale = choose_scale("frame/s", max(loads, default=0.0))
    rows = [
        {
            "treatment": treatment_phrase(t.factors, factor_names(layout.varying)),
            **_step_row(trial, step, _offered_load_fps(step) / scale.divisor),
        }
        for t in summary.treatments
        for trial, step in _select_steps(t, LOSS_CURVE_STEP)
    ]
    return rows, scale


def burst_rows(summary: CampaignSummary, layout: FactorLayout) -> list[ChartRow]:
    """Kind `step` of each burst of each trial; its load is how many frames it had in each direction."""
    return [
        {
            "treatment": treatment_phrase(t.factors, factor_names(layout.varying)),
            **_step_row(trial, step, step.burst_frames or 0),
        }
        for t in summary.treatments
        for trial, step in _select_steps(t, BURST_STEP)
    ]


def missing_frames_rows(summary: CampaignSummary, layout: FactorLayout) -> list[ChartRow]:
    """Of each trial how many frames were sent and had not come by then, in the course of its run."""
    return [
        {
            "treatment": treatment_phrase(t.factors, factor_names(layout.varying)),
            "trial": point.trial,
            "t": round_for_chart((at + 1) / len(point.outstanding_frames) * point.duration_s),
            "missing": point.outstanding_frames[at],
        }
        for t in summary.treatments
        for point in t.points
        for at in _evenly_spaced_indices(len(point.outstanding_frames))
    ]


def published_comparison_rows(found: PublishedComparison) -> tuple[list[ChartRow], str]:
    """Means, least and most of each pair, measured here and published; the title of their axis."""
    scale = comparison_scale(found)
    rows = []
    for pair in found.pairs:
        measured = [("here", "", pair.here)]
        measured += [("published", name, ways) for name, ways in pair.there.items()]
        for where, setting, ways in measured:
            rows += [
                {
                    "pair": pair.treatment, "where": where, "setting": setting,
                    "direction": direction_label(direction), "mean": round_for_chart(spread.mean / scale.divisor),
                    **_range_ends(spread, scale),
                }
                for direction, spread in ways.items()
            ]  # fmt: skip
    return rows, metric_heading(found.source.metric, scale)


def _range_ends(spread: ValueRange, scale: Scale) -> ChartRow:
    """Both None of a figure that was published alone."""
    ends = {"least": spread.minimum, "most": spread.maximum}
    return {name: None if end is None else round_for_chart(end / scale.divisor) for name, end in ends.items()}


def _clip_interval(answer: ChartRow, least: float, most: float) -> ChartRow:
    """Its interval as far as it is between these loads."""
    return {**answer, "low": max(answer["low"], least), "high": min(answer["high"], most)}


def _estimates_with_treatments(summary: CampaignSummary, rows: Iterable[ChartRow]) -> Iterator[tuple[ChartRow, TreatmentSummary]]:
    """Each treatment's row of kind `estimate`, of which there is one in the order of the treatments."""
    estimates = [row for row in rows if row["kind"] == "estimate"]
    return zip(estimates, summary.treatments, strict=True)


def _line_rates(treatments: Sequence[TreatmentSummary], metric: str, ways: int, x_high: float) -> list[float]:
    """Rates in bit/s of the links that the figures of a panel are to be seen beside."""
    asked = {rate for t in treatments if isinstance(rate := t.factors.get("link_rate"), int | float)}
    if asked:
        return sorted(map(float, asked))
    most_fps = max((t.metrics[metric].value for t in treatments if metric in t.metrics), default=0.0)
    return [
        rate
        for rate in _ETHERNET_LINE_RATES_BPS
        if _MIN_NEARBY_SHARE * most_fps < ways * line_rate_fps(rate, 2**x_high) < _MAX_NEARBY_SHARE * most_fps
    ]


def _line_rate_rows(
    rate_bps: float, label: str, x_low: float, x_high: float, top: float, scale: Scale
) -> Iterator[ChartRow]:
    """The line rate over the sizes, from where it comes into view; its label stands in the middle."""
    enters = math.log2(max(1.0, rate_bps / (8 * top * scale.divisor) - _PREAMBLE_AND_GAP_BYTES))
    for place, x in enumerate(np.linspace(max(x_low, enters), x_high, _LINE_RATE_POINTS).tolist()):
        value = round_for_chart(line_rate_fps(rate_bps, 2**x) / scale.divisor)
        text = label if place == _LINE_RATE_POINTS // 2 else ""
        yield {"kind": "line rate", "x": round_for_chart(x), "value": value, "rate": label, "text": text}


def _packet_limit_rows(rows: Sequence[ChartRow], scale: Scale) -> Iterator[ChartRow]:
    """The highest value of each line, whatever the size of frames."""
    best: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["kind"] == "estimate" and row["value"] is not None:
            best.setdefault((row["combination"], row["series"]), []).append(row["value"])
    for (combination, series), values in best.items():
        if len(values) > 1 and max(values) > 0:
            text = f"{format_interval(max(values), None, None, '1').text} {scale.unit}"
            yield {
                "kind": "packet limit", "combination": combination, "series": series,
                "value": max(values), "text": text,
            }  # fmt: skip


def _select_steps(treatment: TreatmentSummary, *purposes: str) -> list[tuple[int, StepRecord]]:
    """Its trials' steps of these purposes, each with the number of its trial."""
    return [
        (point.trial, step)
        for point in treatment.points
        for step in point.steps
        if step.purpose in purposes and step.sent
    ]


def _offered_load_fps(step: StepRecord) -> float:
    """What was really offered in each direction of each pair: the generator may have fallen behind."""
    return step.sent / step.duration_s / int(str(step.details["ways"]))


def _search_rows(treatment: TreatmentSummary, divisor: float) -> Iterator[ChartRow]:
    for trial, step in _select_steps(treatment, SEARCH_STEP, GENERATOR_STEP):
        yield _step_row(trial, step, _offered_load_fps(step) / divisor)
    for point in treatment.points:
        for answer in point.search_answers:
            yield {
                "kind": "answer", "trial": point.trial, "loss": answer.goal,
                "load": round_for_chart(answer.throughput_fps / divisor),
                "low": round_for_chart(answer.low_fps / divisor), "high": round_for_chart(answer.high_fps / divisor),
                "text": f"{format_exact_share(answer.goal)} lost, limited by {answer.limited_by}",
            }  # fmt: skip
    yield from _model_rows(_newest_search_steps(treatment), divisor)
    for goal in dict.fromkeys(answer.goal for point in treatment.points for answer in point.search_answers):
        yield {"kind": "goal", "loss": goal, "text": format_exact_share(goal)}


def _newest_search_steps(treatment: TreatmentSummary) -> tuple[SearchStep, ...]:
    """The steps of its newest searches, of so many as a model can learn from in little time."""
    newest: list[SearchStep] = []
    for point in reversed(treatment.points):
        steps = [
            SearchStep(_offered_load_fps(step), step.duration_s, step.sent, step.received)
            for step in point.steps
            if step.purpose == SEARCH_STEP and step.sent
        ]
        if newest and len(newest) + len(steps) > _MAX_MODEL_STEPS:
            break
        newest += steps
    return tuple(newest)


@lru_cache(maxsize=64)
def _fit_cached(steps: tuple[SearchStep, ...]) -> LossCurve:
    # It takes a second, and the page and the pictures want the same.
    return fit_loss_curve(steps)


def _model_rows(steps: tuple[SearchStep, ...], divisor: float) -> Iterator[ChartRow]:
    """What full steps at the loads that were tried are expected to lose, from these steps together."""
    model = _fit_cached(steps)
    loads = np.geomspace(model.least_fps, model.most_fps, _MODEL_POINTS)
    for load, median, low, high in zip(loads, *model.loss_ratios_at(loads, MODEL_BAND_SHARE), strict=True):
        if math.isnan(median):
            continue
        yield {
            "kind": "model", "load": round_for_chart(load / divisor), "loss": round_for_chart(median),
            "low": round_for_chart(low), "high": round_for_chart(high),
        }  # fmt: skip


def _step_row(trial: int, step: StepRecord, load: float) -> ChartRow:
    return {
        "kind": "step", "trial": trial, "load": round_for_chart(load), "loss": round_for_chart(step.loss_ratio),
        "lost": "some" if step.loss_ratio else "none", "duration": round_for_chart(step.duration_s),
        "text": f"{step.sent - step.received} of {step.sent}",
    }  # fmt: skip


def _evenly_spaced_indices(count: int) -> list[int]:
    """Places of at most _MOST_POINTS of so many, evenly, with the last."""
    step = -(-count // _MAX_POINTS_PER_TRIAL) if count else 1
    return list(range(count - 1, -1, -step))[::-1]
