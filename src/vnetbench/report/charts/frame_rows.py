"""The rows of the frame charts: line rates, search steps, loss curves, bursts and outstanding frames."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.tables import ValueWithRange
from vnetbench.quantity import Scale, choose_scale, format_exact_bit_rate, format_exact_share, format_interval
from vnetbench.report.charts.chart_rows import ChartRow, metric_rows, round_for_chart
from vnetbench.report.charts.factor_layout import FactorLayout, axis_position_by_level
from vnetbench.report.tables.published_comparison import (
    PublishedComparison,
    direction_label,
    measured_and_published_scale,
)
from vnetbench.results.records import BURST_STEP, GENERATOR_STEP, LOSS_CURVE_STEP, SEARCH_STEP, StepRecord
from vnetbench.search.interface import SearchStep
from vnetbench.search.loss_curve import LossCurve, fit_loss_curve
from vnetbench.wording.estimate_text import choose_metric_scale, metric_heading
from vnetbench.wording.factor_text import factor_names, treatment_phrase

_ETHERNET_LINE_RATES_BPS = (1e9, 10e9, 25e9, 40e9, 100e9)
"""The line rates that a chart can show if the study sets no `link_rate`."""
_ETHERNET_PREAMBLE_AND_GAP_BYTES = 20
_MIN_NEARBY_SHARE, _MAX_NEARBY_SHARE = 0.05, 1.1
"""A chart shows a line rate if its rate of the largest frames is within these shares of the best result."""
MAX_ZOOMED_LOAD_DEVIATION = 0.1
"""The zoomed chart shows the steps within this share of a throughput."""
SHARE_OF_STEPS_IN_LOSS_CURVE_BAND = 0.9
"""Share of the steps at a load that the model's band contains."""
_LOSS_CURVE_POINTS = 120
_MAX_STEPS_IN_LOSS_CURVE_FIT = 60
"""The model is fitted to about this many steps, to limit the time."""
_MAX_TREATMENT_PANELS = 8
_LINE_RATE_CURVE_POINTS = 24
_MAX_POINTS_PER_TRIAL = 200
_Y_MAX_OVER_LARGEST_VALUE = 1.12


def line_rate_fps(rate_bps: float, frame_bytes: float) -> float:
    """Return the frame rate that fills a link.

    Each frame needs 8 bytes of preamble and a gap of 12 bytes (IEEE 802.3, 4A.4.2). `frame_bytes` includes
    the frame check sequence.
    """
    return rate_bps / (8 * (frame_bytes + _ETHERNET_PREAMBLE_AND_GAP_BYTES))


def frame_size_rows_and_y_max(
    summary: CampaignSummary, layout: FactorLayout, metric: str
) -> tuple[list[ChartRow], float]:
    """Return metric rows, rows of kind `line rate` and `packet limit`, and the end of the y axis.

    Line rates are those of `link_rate`, or the Ethernet rates near the results. They are doubled in a panel
    whose treatments all send in both directions.
    """
    rows = metric_rows(summary, layout, metric)
    scale = choose_metric_scale(summary.treatments, metric)
    y_max = _Y_MAX_OVER_LARGEST_VALUE * max(
        (row.get("high") or row["value"] or 0.0 for row in rows), default=0.0
    )
    assert layout.x_factor is not None
    x_positions = list(axis_position_by_level(layout.x_factor).values())
    panels: dict[str, list[TreatmentSummary]] = {}
    for row, treatment in _estimates_with_treatments(summary, rows):
        panels.setdefault(row["panel"], []).append(treatment)
    for panel, treatments in panels.items():
        is_bidirectional = all(each.factors.get("direction") == "both" for each in treatments)
        direction_count = 2 if is_bidirectional else 1
        for rate_bps in _line_rates_in_range_bps(treatments, metric, direction_count, max(x_positions)):
            label = f"{'2 × ' if is_bidirectional else ''}{format_exact_bit_rate(rate_bps)}"
            line_rows = _line_rate_rows(
                rate_bps * direction_count, label, (min(x_positions), max(x_positions)), y_max, scale
            )
            rows += [{"panel": panel, "series": None, **row} for row in line_rows]
    return [*rows, *_packet_limit_rows(rows, scale)], y_max


class SearchStepRows(NamedTuple):
    """The rows of a chart of searches."""

    rows: list[ChartRow]
    load_scale: Scale
    """Unit of the loads. Loads are per direction of each pair."""
    omitted_treatments_note: str
    """How many treatments are omitted; empty if the chart has all of them."""


def search_step_rows(summary: CampaignSummary, layout: FactorLayout) -> SearchStepRows:
    """Return rows of kind `step`, `model`, `goal` and `throughput` of the first treatments."""
    searched = [each for each in summary.treatments if _trial_numbers_and_steps(each, SEARCH_STEP)]
    selected = searched[:_MAX_TREATMENT_PANELS]
    loads_fps = [
        _offered_load_fps(step)
        for each in selected
        for _, step in _trial_numbers_and_steps(each, SEARCH_STEP)
    ]
    # The median, because the highest load can be far above all other loads.
    scale = choose_scale("frame/s", statistics.median(loads_fps) if loads_fps else 0.0)
    rows = [
        {"treatment": _treatment_label(layout, treatment), **row}
        for treatment in selected
        for row in _search_chart_rows_of_treatment(treatment, scale.divisor)
    ]
    if len(searched) == len(selected):
        return SearchStepRows(rows, scale, "")
    return SearchStepRows(
        rows, scale, f"The chart shows the first {len(selected)} of {len(searched)} treatments."
    )


def step_rows_near_throughput(rows: Sequence[ChartRow]) -> list[ChartRow]:
    """Return rows of `search_step_rows` near their treatment's throughputs (MAX_ZOOMED_LOAD_DEVIATION)."""
    zoomed = []
    for treatment in dict.fromkeys(row["treatment"] for row in rows):
        treatment_rows = [row for row in rows if row["treatment"] == treatment]
        loads = [row["load"] for row in treatment_rows if row["kind"] == "throughput" and row["load"]]
        if not loads:
            continue
        low, high = min(loads) * (1 - MAX_ZOOMED_LOAD_DEVIATION), max(loads) * (1 + MAX_ZOOMED_LOAD_DEVIATION)
        for row in treatment_rows:
            if row["kind"] == "goal" or low <= row["load"] <= high:
                zoomed.append(_clip_interval_to_range(row, low, high) if row["kind"] == "throughput" else row)
    return zoomed


def loss_curve_rows_and_load_unit(
    summary: CampaignSummary, layout: FactorLayout
) -> tuple[list[ChartRow], Scale]:
    """Return a row of kind `step` for each load of each trial's loss curve, and the unit of loads."""
    steps = [
        (treatment, trial, step)
        for treatment in summary.treatments
        for trial, step in _trial_numbers_and_steps(treatment, LOSS_CURVE_STEP)
    ]
    scale = choose_scale("frame/s", max((_offered_load_fps(step) for _, _, step in steps), default=0.0))
    rows = [
        {
            "treatment": _treatment_label(layout, treatment),
            **_step_row(trial, step, _offered_load_fps(step) / scale.divisor),
        }
        for treatment, trial, step in steps
    ]
    return rows, scale


def burst_loss_rows(summary: CampaignSummary, layout: FactorLayout) -> list[ChartRow]:
    """Return a row of kind `step` for each burst; its load is its number of frames per direction."""
    return [
        {"treatment": _treatment_label(layout, treatment), **_step_row(trial, step, step.burst_frames or 0)}
        for treatment in summary.treatments
        for trial, step in _trial_numbers_and_steps(treatment, BURST_STEP)
    ]


def outstanding_frames_rows(summary: CampaignSummary, layout: FactorLayout) -> list[ChartRow]:
    """Return the outstanding frames over each trial."""
    rows = []
    for treatment in summary.treatments:
        name = _treatment_label(layout, treatment)
        for point in treatment.points:
            count = len(point.outstanding_frames_at_interval_ends)
            for index in _evenly_spaced_sample_indices(count):
                time_s = round_for_chart((index + 1) / count * point.duration_s)
                outstanding = point.outstanding_frames_at_interval_ends[index]
                rows.append(
                    {
                        "treatment": name,
                        "trial": point.trial_id,
                        "time_s": time_s,
                        "outstanding": outstanding,
                    }
                )
    return rows


def published_comparison_rows_and_heading(comparison: PublishedComparison) -> tuple[list[ChartRow], str]:
    """Return mean, minimum and maximum of measured and published values, and the title of their axis."""
    scale = measured_and_published_scale(comparison)
    rows = []
    for treatment in comparison.treatments:
        sources = [("measured", "", treatment.measured_by_direction)]
        sources += [
            ("published", setting, ranges)
            for setting, ranges in treatment.published_by_non_factor_cells.items()
        ]
        for origin, setting, ranges in sources:
            for direction, value_range in ranges.items():
                rows.append(
                    {
                        "treatment": treatment.treatment_name,
                        "origin": origin,
                        "setting": setting,
                        "direction": direction_label(direction),
                        **_mean_min_max_fields(value_range, scale),
                    }
                )
    return rows, metric_heading(comparison.source.metric, scale)


def _treatment_label(layout: FactorLayout, treatment: TreatmentSummary) -> str:
    return treatment_phrase(treatment.factors, factor_names(layout.varying))


def _mean_min_max_fields(value_range: ValueWithRange, scale: Scale) -> ChartRow:
    """Return mean, minimum and maximum; the latter two are None for a single published value."""
    values = {"mean": value_range.value, "minimum": value_range.minimum, "maximum": value_range.maximum}
    return {
        name: None if value is None else round_for_chart(value / scale.divisor)
        for name, value in values.items()
    }


def _clip_interval_to_range(row: ChartRow, low: float, high: float) -> ChartRow:
    return {**row, "low": max(row["low"], low), "high": min(row["high"], high)}


def _estimates_with_treatments(
    summary: CampaignSummary, rows: Iterable[ChartRow]
) -> Iterator[tuple[ChartRow, TreatmentSummary]]:
    """Return pairs of the `estimate` row and its treatment; the rows are in the order of the treatments."""
    estimates = [row for row in rows if row["kind"] == "estimate"]
    return zip(estimates, summary.treatments, strict=True)


def _line_rates_in_range_bps(
    treatments: Sequence[TreatmentSummary], metric: str, direction_count: int, max_x: float
) -> list[float]:
    """Return the line rates in bit/s that a panel shows."""
    link_rates = {rate for t in treatments if isinstance(rate := t.factors.get("link_rate"), int | float)}
    if link_rates:
        return sorted(map(float, link_rates))
    best_fps = max((each.metrics[metric].value for each in treatments if metric in each.metrics), default=0.0)
    min_fps, max_fps = _MIN_NEARBY_SHARE * best_fps, _MAX_NEARBY_SHARE * best_fps
    return [
        rate_bps
        for rate_bps in _ETHERNET_LINE_RATES_BPS
        if min_fps < direction_count * line_rate_fps(rate_bps, 2**max_x) < max_fps
    ]


def _line_rate_rows(
    rate_bps: float, label: str, x_range: tuple[float, float], y_max: float, scale: Scale
) -> Iterator[ChartRow]:
    """Yield the line rate over the frame sizes within the y axis, with its label in the middle."""
    min_x, max_x = x_range
    visible_x = math.log2(max(1.0, rate_bps / (8 * y_max * scale.divisor) - _ETHERNET_PREAMBLE_AND_GAP_BYTES))
    positions = np.linspace(max(min_x, visible_x), max_x, _LINE_RATE_CURVE_POINTS).tolist()
    for index, x in enumerate(positions):
        yield {
            "kind": "line rate",
            "x": round_for_chart(x),
            "value": round_for_chart(line_rate_fps(rate_bps, 2**x) / scale.divisor),
            "rate": label,
            "text": label if index == _LINE_RATE_CURVE_POINTS // 2 else "",
        }


def _packet_limit_rows(rows: Sequence[ChartRow], scale: Scale) -> Iterator[ChartRow]:
    """Yield the highest value of each line with several frame sizes."""
    values_by_line: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["kind"] == "estimate" and row["value"] is not None:
            values_by_line.setdefault((row["panel"], row["series"]), []).append(row["value"])
    for (panel, series), values in values_by_line.items():
        if len(values) > 1 and max(values) > 0:
            yield {
                "kind": "packet limit",
                "panel": panel,
                "series": series,
                "value": max(values),
                "text": f"{format_interval(max(values), None, None, '1').text} {scale.unit}",
            }


def _trial_numbers_and_steps(treatment: TreatmentSummary, *purposes: str) -> list[tuple[int, StepRecord]]:
    """Return the steps with these purposes, each with its trial's number."""
    return [
        (point.trial_id, step)
        for point in treatment.points
        for step in point.steps
        if step.purpose in purposes and step.sent
    ]


def _offered_load_fps(step: StepRecord) -> float:
    """Return the load per direction of each pair that the generator really offered."""
    return step.sent / step.duration_s / int(str(step.details["direction_count"]))


def _search_chart_rows_of_treatment(treatment: TreatmentSummary, divisor: float) -> Iterator[ChartRow]:
    for trial, step in _trial_numbers_and_steps(treatment, SEARCH_STEP, GENERATOR_STEP):
        yield _step_row(trial, step, _offered_load_fps(step) / divisor)
    for point in treatment.points:
        for result in point.goal_results:
            yield {
                "kind": "throughput",
                "trial": point.trial_id,
                "loss": result.goal,
                "load": round_for_chart(result.throughput_fps / divisor),
                "low": round_for_chart(result.low_fps / divisor),
                "high": round_for_chart(result.high_fps / divisor),
                "text": f"{format_exact_share(result.goal)} loss, limited by {result.limited_by}",
            }
    yield from _loss_curve_model_rows(_newest_search_steps(treatment), divisor)
    for goal in dict.fromkeys(result.goal for point in treatment.points for result in point.goal_results):
        yield {"kind": "goal", "loss": goal, "text": format_exact_share(goal)}


def _newest_search_steps(treatment: TreatmentSummary) -> tuple[SearchStep, ...]:
    """Return the steps of the newest searches, about _MAX_STEPS_IN_LOSS_CURVE_FIT in total."""
    newest: list[SearchStep] = []
    for point in reversed(treatment.points):
        steps = [
            SearchStep(_offered_load_fps(step), step.duration_s, step.sent, step.received)
            for step in point.steps
            if step.purpose == SEARCH_STEP and step.sent
        ]
        if newest and len(newest) + len(steps) > _MAX_STEPS_IN_LOSS_CURVE_FIT:
            break
        newest += steps
    return tuple(newest)


@lru_cache(maxsize=64)
def _fit_loss_curve_cached(steps: tuple[SearchStep, ...]) -> LossCurve:
    # A fit takes a second, and the page and the images need the same one.
    return fit_loss_curve(steps)


def _loss_curve_model_rows(steps: tuple[SearchStep, ...], divisor: float) -> Iterator[ChartRow]:
    """Yield the loss that the model expects for full-length steps at the loads of these steps."""
    model = _fit_loss_curve_cached(steps)
    loads_fps = np.geomspace(model.min_load_fps, model.max_load_fps, _LOSS_CURVE_POINTS)
    losses = model.median_low_high_loss_ratios(loads_fps, SHARE_OF_STEPS_IN_LOSS_CURVE_BAND)
    for load_fps, median, low, high in zip(loads_fps, *losses, strict=True):
        if not math.isnan(median):
            yield {
                "kind": "model",
                "load": round_for_chart(load_fps / divisor),
                "loss": round_for_chart(median),
                "low": round_for_chart(low),
                "high": round_for_chart(high),
            }


def _step_row(trial: int, step: StepRecord, load_on_chart_axis: float) -> ChartRow:
    return {
        "kind": "step",
        "trial": trial,
        "load": round_for_chart(load_on_chart_axis),
        "loss": round_for_chart(step.loss_ratio),
        "lost": "some" if step.loss_ratio else "none",
        "duration": round_for_chart(step.duration_s),
        "text": f"{step.sent - step.received} of {step.sent}",
    }


def _evenly_spaced_sample_indices(count: int) -> list[int]:
    """Return at most _MAX_POINTS_PER_TRIAL indices below `count`, including the last."""
    spacing = -(-count // _MAX_POINTS_PER_TRIAL) if count else 1
    return list(range(count - 1, -1, -spacing))[::-1]
