"""The data behind the charts of frames: line rates, steps and the model of loss, losses in time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.tables import Spread
from vnetbench.quantity import Scale, format_interval, scale_for, spell_rate, spell_share
from vnetbench.report.charts.chart_rows import Row, metric_rows, short
from vnetbench.report.charts.factor_layout import Layout, positions
from vnetbench.report.tables.published_comparison import Beside, scale_of_beside, way_of
from vnetbench.results.records import BURST, CURVE, GENERATOR, SEARCH, StepRecord
from vnetbench.search.interface import Step
from vnetbench.search.loss_curve import Model, fit
from vnetbench.wording.estimate_text import heading, scale_of
from vnetbench.wording.factor_text import names_of, treatment_phrase

_ETHERNETS_BPS = (1e9, 10e9, 25e9, 40e9, 100e9)
"""Line rates that are drawn where no `link_rate` was set."""
_BETWEEN_BYTES = 20
_NEAR_LEAST, _NEAR_MOST = 0.05, 1.1
"""An Ethernet is near whose line rate for the largest frames is within these shares of the highest figure."""
NEAR_SHARE = 0.1
MODEL_SHARE = 0.9
"""Of steps at a load that the band of the model holds."""
_POINTS_OF_MODEL = 120
_MOST_LEARNED = 60
_MOST_PANELS = 8
_POINTS_OF_LINE = 24
_MOST_POINTS = 200


def line_rate_fps(rate_bps: float, frame_bytes: float) -> float:
    """Frames/s of this size that fill a link: each has 8 bytes of preamble before it and a gap of 12 behind
    it (IEEE 802.3, 4A.4.2), and its size includes the frame check sequence."""
    return rate_bps / (8 * (frame_bytes + _BETWEEN_BYTES))


def size_rows(summary: CampaignSummary, layout: Layout, metric: str) -> tuple[list[Row], float]:
    """Rows of `metric_rows` and of kinds `line rate` and `packet limit` around them; where the y axis ends.

    A line rate is that of `link_rate`, or of each Ethernet that results come near; twice that where all
    frames of a panel go both ways at once.
    """
    rows = metric_rows(summary, layout, metric)
    scale = scale_of(summary.treatments, metric)
    top = 1.12 * max((row.get("high") or row["value"] or 0.0 for row in rows), default=0.0)
    assert layout.x is not None
    xs = list(positions(layout.x).values())
    panels: dict[str, list[TreatmentSummary]] = {}
    for row, treatment in _of_treatments(summary, rows):
        panels.setdefault(row["combination"], []).append(treatment)
    for combination, treatments in panels.items():
        base = {"combination": combination, "series": None}
        ways = 2 if all(t.factors.get("direction") == "both" for t in treatments) else 1
        for rate_bps in _line_rates(treatments, metric, ways, max(xs)):
            label = f"{'2 × ' if ways == 2 else ''}{spell_rate(rate_bps)}"
            rows += [{**base, **row} for row in _line(rate_bps * ways, label, min(xs), max(xs), top, scale)]
    return [*rows, *_packet_limits(rows, scale)], top


def step_rows(summary: CampaignSummary, layout: Layout) -> tuple[list[Row], Scale, str]:
    """Kinds `step`, `model`, `goal`, `answer` of treatments that searched; the loads' unit; what is left out.

    Loads are of each direction of each pair.
    """
    searched = [t for t in summary.treatments if _steps(t, SEARCH)]
    chosen = searched[:_MOST_PANELS]
    # The highest load of all may be far above all that is of interest.
    loads = [_load_fps(step) for t in chosen for _, step in _steps(t, SEARCH)]
    scale = scale_for("frame/s", statistics.median(loads) if loads else 0.0)
    rows = [
        {"treatment": treatment_phrase(t.factors, names_of(layout.varying)), **row}
        for t in chosen
        for row in _of_search(t, scale.divisor)
    ]
    few = len(searched) > len(chosen)
    return rows, scale, f"Drawn are the first {len(chosen)} of {len(searched)} treatments." if few else ""


def near_rows(rows: Sequence[Row]) -> list[Row]:
    """Of `step_rows` what lies within NEAR_SHARE of the throughputs of its treatment."""
    found = []
    for name in dict.fromkeys(row["treatment"] for row in rows):
        of_it = [row for row in rows if row["treatment"] == name]
        loads = [row["load"] for row in of_it if row["kind"] == "answer" and row["load"]]
        if loads:
            least, most = min(loads) * (1 - NEAR_SHARE), max(loads) * (1 + NEAR_SHARE)
            found += [
                _clipped(row, least, most) if row["kind"] == "answer" else row
                for row in of_it
                if row["kind"] == "goal" or least <= row["load"] <= most
            ]
    return found


def curve_rows(summary: CampaignSummary, layout: Layout) -> tuple[list[Row], Scale]:
    """Kind `step` of each load of the course of loss of each trial, and the loads' unit."""
    loads = [_load_fps(step) for t in summary.treatments for _, step in _steps(t, CURVE)]
    scale = scale_for("frame/s", max(loads, default=0.0))
    rows = [
        {
            "treatment": treatment_phrase(t.factors, names_of(layout.varying)),
            **_step(trial, step, _load_fps(step) / scale.divisor),
        }
        for t in summary.treatments
        for trial, step in _steps(t, CURVE)
    ]
    return rows, scale


def burst_rows(summary: CampaignSummary, layout: Layout) -> list[Row]:
    """Kind `step` of each burst of each trial; its load is how many frames it had in each direction."""
    return [
        {
            "treatment": treatment_phrase(t.factors, names_of(layout.varying)),
            **_step(trial, step, step.burst_frames or 0),
        }
        for t in summary.treatments
        for trial, step in _steps(t, BURST)
    ]


def missing_rows(summary: CampaignSummary, layout: Layout) -> list[Row]:
    """Of each trial how many frames were sent and had not come by then, in the course of its run."""
    return [
        {
            "treatment": treatment_phrase(t.factors, names_of(layout.varying)),
            "trial": point.trial,
            "t": short((at + 1) / len(point.missing) * point.duration_s),
            "missing": point.missing[at],
        }
        for t in summary.treatments
        for point in t.points
        for at in _few(len(point.missing))
    ]


def published_rows(found: Beside) -> tuple[list[Row], str]:
    """Means, least and most of each pair, measured here and published; the title of their axis."""
    scale = scale_of_beside(found)
    rows = []
    for pair in found.pairs:
        measured = [("here", "", pair.here)]
        measured += [("published", name, ways) for name, ways in pair.there.items()]
        for where, setting, ways in measured:
            rows += [
                {
                    "pair": pair.treatment, "where": where, "setting": setting,
                    "direction": way_of(direction), "mean": short(spread.mean / scale.divisor),
                    **_ends(spread, scale),
                }
                for direction, spread in ways.items()
            ]  # fmt: skip
    return rows, heading(found.source.metric, scale)


def _ends(spread: Spread, scale: Scale) -> Row:
    """Both None of a figure that was published alone."""
    ends = {"least": spread.least, "most": spread.most}
    return {name: None if end is None else short(end / scale.divisor) for name, end in ends.items()}


def _clipped(answer: Row, least: float, most: float) -> Row:
    """Its interval as far as it is between these loads."""
    return {**answer, "low": max(answer["low"], least), "high": min(answer["high"], most)}


def _of_treatments(summary: CampaignSummary, rows: Iterable[Row]) -> Iterator[tuple[Row, TreatmentSummary]]:
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
        for rate in _ETHERNETS_BPS
        if _NEAR_LEAST * most_fps < ways * line_rate_fps(rate, 2**x_high) < _NEAR_MOST * most_fps
    ]


def _line(
    rate_bps: float, label: str, x_low: float, x_high: float, top: float, scale: Scale
) -> Iterator[Row]:
    """The line rate over the sizes, from where it comes into view; its label stands in the middle."""
    enters = math.log2(max(1.0, rate_bps / (8 * top * scale.divisor) - _BETWEEN_BYTES))
    for place, x in enumerate(np.linspace(max(x_low, enters), x_high, _POINTS_OF_LINE).tolist()):
        value = short(line_rate_fps(rate_bps, 2**x) / scale.divisor)
        text = label if place == _POINTS_OF_LINE // 2 else ""
        yield {"kind": "line rate", "x": short(x), "value": value, "rate": label, "text": text}


def _packet_limits(rows: Sequence[Row], scale: Scale) -> Iterator[Row]:
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


def _steps(treatment: TreatmentSummary, *purposes: str) -> list[tuple[int, StepRecord]]:
    """Its trials' steps of these purposes, each with the number of its trial."""
    return [
        (point.trial, step)
        for point in treatment.points
        for step in point.steps
        if step.purpose in purposes and step.sent
    ]


def _load_fps(step: StepRecord) -> float:
    """What was really offered in each direction of each pair: the generator may have fallen behind."""
    return step.sent / step.duration_s / int(str(step.details["ways"]))


def _of_search(treatment: TreatmentSummary, divisor: float) -> Iterator[Row]:
    for trial, step in _steps(treatment, SEARCH, GENERATOR):
        yield _step(trial, step, _load_fps(step) / divisor)
    for point in treatment.points:
        for answer in point.answers:
            yield {
                "kind": "answer", "trial": point.trial, "loss": answer.goal,
                "load": short(answer.throughput_fps / divisor),
                "low": short(answer.low_fps / divisor), "high": short(answer.high_fps / divisor),
                "text": f"{spell_share(answer.goal)} lost, limited by {answer.limited_by}",
            }  # fmt: skip
    yield from _model(_newest(treatment), divisor)
    for goal in dict.fromkeys(answer.goal for point in treatment.points for answer in point.answers):
        yield {"kind": "goal", "loss": goal, "text": spell_share(goal)}


def _newest(treatment: TreatmentSummary) -> tuple[Step, ...]:
    """The steps of its newest searches, of so many as a model can learn from in little time."""
    newest: list[Step] = []
    for point in reversed(treatment.points):
        steps = [
            Step(_load_fps(step), step.duration_s, step.sent, step.received)
            for step in point.steps
            if step.purpose == SEARCH and step.sent
        ]
        if newest and len(newest) + len(steps) > _MOST_LEARNED:
            break
        newest += steps
    return tuple(newest)


@lru_cache(maxsize=64)
def _fitted(steps: tuple[Step, ...]) -> Model:
    # It takes a second, and the page and the pictures want the same.
    return fit(steps)


def _model(steps: tuple[Step, ...], divisor: float) -> Iterator[Row]:
    """What full steps at the loads that were tried are expected to lose, from these steps together."""
    model = _fitted(steps)
    loads = np.geomspace(model.least_fps, model.most_fps, _POINTS_OF_MODEL)
    for load, median, low, high in zip(loads, *model.loss_at(loads, MODEL_SHARE), strict=True):
        if math.isnan(median):
            continue
        yield {
            "kind": "model", "load": short(load / divisor), "loss": short(median),
            "low": short(low), "high": short(high),
        }  # fmt: skip


def _step(trial: int, step: StepRecord, load: float) -> Row:
    return {
        "kind": "step", "trial": trial, "load": short(load), "loss": short(step.loss_ratio),
        "lost": "some" if step.loss_ratio else "none", "duration": short(step.duration_s),
        "text": f"{step.sent - step.received} of {step.sent}",
    }  # fmt: skip


def _few(count: int) -> list[int]:
    """Places of at most _MOST_POINTS of so many, evenly, with the last."""
    step = -(-count // _MOST_POINTS) if count else 1
    return list(range(count - 1, -1, -step))[::-1]
