"""The rows of the charts' datasets: one row per mark, with numbers in the unit of their axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vnetbench.estimate.latency import latency_tail_curve
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.quantity import format_exact_share
from vnetbench.report.charts.factor_layout import FactorLayout, axis_position_by_level
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import choose_metric_scale, format_estimate, format_modes
from vnetbench.wording.factor_text import (
    CHANGE_FACTOR,
    TREATMENT_FACTOR,
    factor_names,
    factor_title,
    level_phrase,
    level_text,
    stop_reason_text,
    treatment_phrase,
)

ChartRow = dict[str, Any]

_MAX_PANELS, _MAX_TRIALS_PER_PANEL, _MAX_POINTS_PER_TRIAL = 12, 8, 100
"""Limits of the chart of the deciding metric within trials."""
_SERIES_OFFSET_SHARE_OF_X_RANGE = 0.012
"""Offset between lines as a share of the x axis, so that their intervals do not overlap."""


def metric_rows(summary: CampaignSummary, layout: FactorLayout, metric: str) -> list[ChartRow]:
    """Return rows of kind `estimate`, `mode`, `trial` and `missing` for one metric.

    A treatment with two modes or without trials has an `estimate` row without a value, which interrupts the
    line.
    """
    divisor = choose_metric_scale(summary.treatments, metric).divisor
    rows: list[ChartRow] = []
    for treatment in summary.treatments:
        rows += _estimate_rows(summary, layout, treatment, metric)
        base = _common_chart_row_fields(layout, treatment)
        for point in treatment.points:
            if metric in point.values:
                value = round_for_chart(point.values[metric] / divisor)
                rows.append(
                    {**base, "kind": "trial", "value": value, "trial": point.trial_id, "estimate_text": ""}
                )
    return rows


def _estimate_rows(
    summary: CampaignSummary, layout: FactorLayout, treatment: TreatmentSummary, metric: str
) -> Iterator[ChartRow]:
    """Yield the rows of a treatment's estimate, of its modes, or of its missing value."""
    base = _common_chart_row_fields(layout, treatment)
    scale = choose_metric_scale(summary.treatments, metric)
    estimate = treatment.metrics.get(metric)
    no_value = {"kind": "estimate", "value": None, "low": None, "high": None}
    if estimate is None:
        reason = "; ".join(treatment.failures) or stop_reason_text(treatment.stop_reason)
        yield {**base, **no_value, "estimate_text": ""}
        yield {**base, "kind": "missing", "value": 0.0, "estimate_text": reason}
        return
    text = format_estimate(estimate, metric, scale)
    if estimate.modes:
        yield {**base, **no_value, "estimate_text": text}
        for mode, mode_text in zip(estimate.modes, format_modes(estimate, metric, scale), strict=True):
            yield {
                **base,
                "kind": "mode",
                "value": round_for_chart(mode.value / scale.divisor),
                "share": f"{mode.share * 100:.0f} %",
                "estimate_text": mode_text,
            }
        return
    yield {
        **base,
        "kind": "estimate",
        "value": round_for_chart(estimate.value / scale.divisor),
        "low": None if estimate.low is None else round_for_chart(estimate.low / scale.divisor),
        "high": None if estimate.high is None else round_for_chart(estimate.high / scale.divisor),
        "estimate_text": text,
    }


def estimate_marks_sentence(rows: Sequence[ChartRow], confidence: float) -> str:
    """Return the caption's sentence on the marks; it mentions an interval only if the chart has one."""
    estimates = [row for row in rows if row["kind"] == "estimate" and row["value"] is not None]
    if not estimates:
        return "Each faint point is a trial."
    if any(row["low"] is not None for row in estimates):
        interval = f"{format_exact_share(confidence)} confidence intervals"
        return f"Medians of the trials with {interval}. Each faint point is a trial."
    return "Medians of the trials. An interval needs more trials. Each faint point is a trial."


def trial_deviation_rows(summary: CampaignSummary, layout: FactorLayout, metric: str) -> list[ChartRow]:
    """Return each trial with its deviation from its treatment's median (0.02 is 2 % above)."""
    rows: list[ChartRow] = []
    for treatment in summary.treatments:
        estimate = treatment.metrics.get(metric)
        if estimate is None or estimate.value == 0:
            continue
        name = treatment_phrase(treatment.factors, factor_names(layout.varying))
        points = [point for point in treatment.points if metric in point.values]
        for index, point in enumerate(points):
            is_outlier = index in estimate.outliers
            rows.append(
                {
                    "treatment": name,
                    "seconds": round_for_chart(point.since_campaign_start_s),
                    "deviation": round_for_chart(point.values[metric] / estimate.value - 1),
                    "trial": point.trial_id,
                    "block": point.block,
                    "mark": "two modes" if estimate.modes else "outlier" if is_outlier else "trial",
                }
            )
    return rows


def time_series_rows_and_omission_note(
    summary: CampaignSummary, layout: FactorLayout
) -> tuple[list[ChartRow], str]:
    """Return the deciding metric within trials and a sentence on what is omitted.

    The parts are `idle`, `warm-up` and `measured`; the load begins at second 0. If there are more treatments
    than panels, treatments with two modes or unsteady trials come first, then those with the widest
    intervals.
    """
    divisor = choose_metric_scale(summary.treatments, summary.deciding_metric).divisor
    candidates = [
        treatment
        for treatment in summary.treatments
        if summary.deciding_metric in treatment.metrics
        and any(len(point.time_series) > 1 for point in treatment.points)
    ]
    ranked = sorted(candidates, key=lambda t: _least_stable_first_key(t, summary.deciding_metric))
    selected = ranked[:_MAX_PANELS]
    rows: list[ChartRow] = []
    for treatment in sorted(selected, key=lambda t: t.index):
        name = treatment_phrase(treatment.factors, factor_names(layout.varying))
        for point in treatment.points[-_MAX_TRIALS_PER_PANEL:]:
            base = {"treatment": name, "trial": point.trial_id}
            rows += [{**base, **row} for row in _trial_series_rows(point, divisor)]
    notes = []
    if len(candidates) > len(selected):
        notes.append(
            f"The chart shows {len(selected)} of {len(candidates)} treatments: those with two modes, "
            "unsteady trials or the widest intervals."
        )
    if any(treatment.trial_count > _MAX_TRIALS_PER_PANEL for treatment in selected):
        notes.append(f"Each panel shows the last {_MAX_TRIALS_PER_PANEL} trials.")
    return rows, " ".join(notes)


def _least_stable_first_key(treatment: TreatmentSummary, metric: str) -> tuple[bool, bool, float]:
    estimate = treatment.metrics[metric]
    is_unsteady = any(not point.has_steady_state for point in treatment.points)
    return not estimate.modes, not is_unsteady, -(estimate.relative_half_width or 0.0)


def _trial_series_rows(point: TrialPoint, divisor: float) -> Iterator[ChartRow]:
    """Yield the samples of a trial, averaged in groups if there are more than the chart can show."""
    count = len(point.time_series)
    if count == 0:
        return
    interval_s = point.duration_s / count
    group_size = -(-count // _MAX_POINTS_PER_TRIAL)
    idle_count = len(point.idle_time_series)

    def group_row(samples: Sequence[float], first_index: int) -> ChartRow:
        time_s = (first_index + len(samples) / 2) * interval_s
        value = sum(samples) / len(samples) / divisor
        return {"time_s": round_for_chart(time_s), "value": round_for_chart(value)}

    for start in range(0, idle_count, group_size):
        samples = point.idle_time_series[start : start + group_size]
        yield {**group_row(samples, start - idle_count), "part": "idle"}
    warmup_end_s = point.warmup_s - interval_s / 2
    for start in range(0, count, group_size):
        row = group_row(point.time_series[start : start + group_size], start)
        is_warmup = start * interval_s < warmup_end_s
        yield {**row, "part": "warm-up" if is_warmup else "measured"}
        # Repeat the first measured sample as the end of the warm-up, so that the line has no gap.
        if not is_warmup and start > 0 and (start - group_size) * interval_s < warmup_end_s:
            yield {**row, "part": "warm-up"}


def latency_rows(summary: CampaignSummary, layout: FactorLayout) -> list[ChartRow]:
    """Return the latency curve of each treatment: the latency in µs that a share of the values exceeds.

    Dashes distinguish the levels of a factor; in a campaign with idle phases, they distinguish idle phases
    from load.
    """
    has_idle = any(treatment.idle_latency_histogram for treatment in summary.treatments)
    dash_factor = layout.colour_factor.name if layout.colour_factor and not has_idle else ""
    colour_factors = [name for name in factor_names(layout.varying) if name != dash_factor]
    rows: list[ChartRow] = []
    for treatment in summary.treatments:
        dash = level_phrase(dash_factor, treatment.factors[dash_factor]) if dash_factor else ""
        curves = [(dash, treatment.latency_histogram)]
        if has_idle:
            curves = [
                ("under load", treatment.latency_histogram),
                ("before the load", treatment.idle_latency_histogram),
            ]
        rows += [
            {
                "treatment": treatment_phrase(treatment.factors, factor_names(layout.varying)),
                "colour": treatment_phrase(treatment.factors, colour_factors),
                "dash": dash_label,
                "beyond": round_for_chart(point.share_above),
                "percentile": f"{100 * (1 - point.share_above):.6g} %",
                "latency": round_for_chart(point.latency_us),
            }
            for dash_label, histogram in curves
            for point in latency_tail_curve(histogram)
        ]
    return rows


def series_labels(layout: FactorLayout) -> list[str]:
    """Return the names of the lines in order."""
    factor = layout.colour_factor
    return [level_text(factor.name, level) for level in factor.levels] if factor else []


def panel_labels(summary: CampaignSummary, layout: FactorLayout) -> list[str]:
    """Return the names of the panels, or of the rows of a dot plot, in the order of the levels."""
    label_by_rank = {}
    for treatment in summary.treatments:
        levels = [(factor.levels, treatment.factors[factor.name]) for factor in layout.panel_factors]
        rank = tuple(known.index(level) for known, level in levels)
        label_by_rank[rank] = _panel_label(layout.panel_factors, treatment)
    return [label_by_rank[rank] for rank in sorted(label_by_rank)]


def _common_chart_row_fields(layout: FactorLayout, treatment: TreatmentSummary) -> ChartRow:
    x_factor, colour_factor = layout.x_factor, layout.colour_factor
    return {
        "treatment": treatment_phrase(treatment.factors, factor_names(layout.varying)),
        "x": _x_position(layout, treatment),
        "x_level": level_text(x_factor.name, treatment.factors[x_factor.name]) if x_factor else "",
        "series": level_text(colour_factor.name, treatment.factors[colour_factor.name])
        if colour_factor
        else "",
        "panel": _panel_label(layout.panel_factors, treatment),
        "trials": treatment.trial_count,
        "stop_reason": stop_reason_text(treatment.stop_reason),
    }


def _x_position(layout: FactorLayout, treatment: TreatmentSummary) -> float | None:
    """Return the position on the x axis, with a small offset for each line."""
    if layout.x_factor is None:
        return None
    level_to_position = axis_position_by_level(layout.x_factor)
    position = level_to_position[treatment.factors[layout.x_factor.name]]
    if layout.colour_factor is None:
        return position
    levels = layout.colour_factor.levels
    line_index = levels.index(treatment.factors[layout.colour_factor.name])
    axis_length = max(level_to_position.values()) - min(level_to_position.values())
    offset_share = min(_SERIES_OFFSET_SHARE_OF_X_RANGE, 3 * _SERIES_OFFSET_SHARE_OF_X_RANGE / len(levels))
    return position + (line_index - (len(levels) - 1) / 2) * offset_share * axis_length


def _panel_label(factors: tuple[FactorLevels, ...], treatment: TreatmentSummary) -> str:
    return " · ".join(
        level_text(factor.name, treatment.factors[factor.name])
        if factor.name in (CHANGE_FACTOR, TREATMENT_FACTOR)
        else f"{factor_title(factor.name)} {level_text(factor.name, treatment.factors[factor.name])}"
        for factor in factors
    )


def round_for_chart(value: float) -> float:
    """Round to five significant digits: more are invisible and triple the size of the page."""
    return float(f"{value:.5g}")
