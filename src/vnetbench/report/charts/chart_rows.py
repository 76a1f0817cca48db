"""The data behind the charts: one row a mark, numbers already in the unit of their axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vnetbench.estimate.latency import tail_curve
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.quantity import format_exact_share
from vnetbench.report.charts.factor_layout import FactorLayout, level_positions
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import format_estimate, format_modes, metric_scale
from vnetbench.wording.factor_text import (
    CHANGE_FACTOR,
    TREATMENT_FACTOR,
    factor_label,
    level_phrase,
    level_text,
    factor_names,
    stop_reason_text,
    treatment_phrase,
)

ChartRow = dict[str, Any]

_MAX_PANELS, _MAX_TRIALS_PER_PANEL, _MAX_POINTS_PER_TRIAL = 12, 8, 100
"""Of the main metric in trials are drawn: so many treatments, trials of each, and points of each trial."""
_LINE_OFFSET_SHARE = 0.012
"""Lines are set apart by this share of the x axis, so that one's intervals don't hide another's."""


def metric_rows(summary: CampaignSummary, layout: FactorLayout, metric: str) -> list[ChartRow]:
    """Rows of kind `estimate`, `mode`, `trial` and `missing` of one metric.

    A treatment with two modes, or without any trial, has an `estimate` row without a value: it breaks the
    line.
    """
    scale = metric_scale(summary.treatments, metric)
    rows: list[ChartRow] = []
    for treatment in summary.treatments:
        base = _common_fields(layout, treatment)
        estimate = treatment.metrics.get(metric)
        if estimate is None:
            rows.append({**base, "kind": "estimate", "value": None, "low": None, "high": None, "figure": ""})
            reason = "; ".join(treatment.failures) or stop_reason_text(treatment.stopped_by)
            rows.append({**base, "kind": "missing", "value": 0.0, "figure": reason})
            continue
        base["figure"] = format_estimate(estimate, metric, scale)
        two = len(estimate.modes) == 2
        rows.append(
            {
                **base,
                "kind": "estimate",
                "value": None if two else round_for_chart(estimate.value / scale.divisor),
                "low": None if two or estimate.low is None else round_for_chart(estimate.low / scale.divisor),
                "high": None if two or estimate.high is None else round_for_chart(estimate.high / scale.divisor),
            }
        )
        for mode, text in zip(estimate.modes, format_modes(estimate, metric, scale), strict=True):
            share = f"{mode.share * 100:.0f} %"
            rows.append(
                {
                    **base,
                    "kind": "mode",
                    "value": round_for_chart(mode.value / scale.divisor),
                    "share": share,
                    "figure": text,
                }
            )
        for point in treatment.points:
            if metric in point.values:
                value = round_for_chart(point.values[metric] / scale.divisor)
                rows.append({**base, "kind": "trial", "value": value, "trial": point.trial, "figure": ""})
    return rows


def describe_marks(rows: Sequence[ChartRow], confidence: float) -> str:
    """A caption's sentence on the marks of estimates and trials: an interval is named where one is drawn."""
    estimates = [row for row in rows if row["kind"] == "estimate" and row["value"] is not None]
    if not estimates:
        return "Each trial is a faint point."
    with_interval = any(row["low"] is not None for row in estimates)
    interval = (
        f" with its {format_exact_share(confidence)} interval" if with_interval else ", too few for an interval"
    )
    return f"Median of the trials{interval}; each trial is a faint point."


def trial_order_rows(summary: CampaignSummary, layout: FactorLayout, metric: str) -> list[ChartRow]:
    """Every trial in time order, as its deviation from its treatment's median (0.02 is 2 % above)."""
    rows: list[ChartRow] = []
    for treatment in summary.treatments:
        estimate = treatment.metrics.get(metric)
        if estimate is None or estimate.value == 0:
            continue
        with_metric = [point for point in treatment.points if metric in point.values]
        for place, point in enumerate(with_metric):
            mark = "of two modes" if estimate.modes else "outlier" if place in estimate.outliers else "trial"
            rows.append(
                {
                    "treatment": treatment_phrase(treatment.factors, factor_names(layout.varying)),
                    "seconds": round_for_chart(point.started_s),
                    "deviation": round_for_chart(point.values[metric] / estimate.value - 1),
                    "trial": point.trial,
                    "block": point.block,
                    "mark": mark,
                }
            )
    return rows


def time_series_rows(summary: CampaignSummary, layout: FactorLayout) -> tuple[list[ChartRow], str]:
    """The main metric within trials, as `idle`, `warm-up` and `measured` parts, and what is left out.

    The load begins at second 0; `idle` is what was measured before it.

    Where there are more treatments than panels, those with two modes or unsteady trials come first, then
    those with the widest intervals.
    """
    scale = metric_scale(summary.treatments, summary.main_metric)
    drawn = [t for t in summary.treatments if any(len(point.time_series) > 1 for point in t.points)]
    chosen = sorted(drawn, key=lambda t: _selection_rank(t, summary.main_metric))[:_MAX_PANELS]
    rows: list[ChartRow] = []
    for treatment in sorted(chosen, key=lambda t: t.index):
        name = treatment_phrase(treatment.factors, factor_names(layout.varying))
        for point in treatment.points[-_MAX_TRIALS_PER_PANEL:]:
            rows += [
                {"treatment": name, "trial": point.trial, **row} for row in _trial_series_rows(point, scale.divisor)
            ]
    left_out = []
    if len(drawn) > len(chosen):
        left_out.append(
            f"{len(chosen)} of {len(drawn)} treatments, the oddest: two modes, unsteady, wide intervals"
        )
    if any(t.trials > _MAX_TRIALS_PER_PANEL for t in chosen):
        left_out.append(f"the last {_MAX_TRIALS_PER_PANEL} trials of each")
    return rows, f"Drawn are {'; '.join(left_out)}." if left_out else ""


def _selection_rank(treatment: TreatmentSummary, metric: str) -> tuple[bool, bool, float]:
    found = treatment.metrics[metric]
    unsteady = any(not point.has_steady_state for point in treatment.points)
    return not found.modes, not unsteady, -(found.half_width or 0.0)


def _trial_series_rows(point: TrialPoint, divisor: float) -> Iterator[ChartRow]:
    """The samples of a trial, several averaged into one where there are many."""
    count = len(point.time_series)
    if count == 0:
        return
    interval_s = point.duration_s / count
    step = -(-count // _MAX_POINTS_PER_TRIAL)
    idle = len(point.idle_time_series)
    for start in range(0, idle, step):
        samples = point.idle_time_series[start : start + step]
        t = (start + len(samples) / 2 - idle) * interval_s
        yield {"t": round_for_chart(t), "value": round_for_chart(sum(samples) / len(samples) / divisor), "part": "idle"}
    for start in range(0, count, step):
        samples = point.time_series[start : start + step]
        t = (start + len(samples) / 2) * interval_s
        row = {"t": round_for_chart(t), "value": round_for_chart(sum(samples) / len(samples) / divisor)}
        is_cut = start * interval_s < point.warmup_s - interval_s / 2
        yield {**row, "part": "warm-up" if is_cut else "measured"}
        # The first measured sample ends the line of the warm-up too, or there would be a gap.
        if not is_cut and start > 0 and (start - step) * interval_s < point.warmup_s - interval_s / 2:
            yield {**row, "part": "warm-up"}


def latency_rows(summary: CampaignSummary, layout: FactorLayout) -> list[ChartRow]:
    """The curve of each treatment's latencies: how long (µs) all but the share `beyond` took at most.

    Dashes tell the levels of a factor apart, or where there was an idle phase that from the load.
    """
    has_idle = any(treatment.idle_latency_histogram for treatment in summary.treatments)
    dashed = layout.colour_factor.name if layout.colour_factor and not has_idle else ""
    coloured = [name for name in factor_names(layout.varying) if name != dashed]
    rows: list[ChartRow] = []
    for treatment in summary.treatments:
        dash = level_phrase(dashed, treatment.factors[dashed]) if dashed else ""
        curves = [(dash, treatment.latency_histogram)]
        if has_idle:
            curves = [("under load", treatment.latency_histogram), ("before the load", treatment.idle_latency_histogram)]
        rows += [
            {
                "treatment": treatment_phrase(treatment.factors, factor_names(layout.varying)),
                "colour": treatment_phrase(treatment.factors, coloured),
                "dash": dash,
                "beyond": round_for_chart(beyond),
                "percentile": f"{100 * (1 - beyond):.6g} %",
                "latency": round_for_chart(latency_us),
            }
            for dash, latencies in curves
            for beyond, latency_us in tail_curve(latencies)
        ]
    return rows


def series_labels(layout: FactorLayout) -> list[str]:
    """The lines' names, in order."""
    factor = layout.colour_factor
    return [level_text(factor.name, level) for level in factor.levels] if factor else []


def panel_labels(summary: CampaignSummary, layout: FactorLayout) -> list[str]:
    """The names of the panels or rows that treatments fall into, in the order of the levels."""
    ranked = {}
    for treatment in summary.treatments:
        rank = tuple(factor.levels.index(treatment.factors[factor.name]) for factor in layout.panel_factors)
        ranked[rank] = _panel_label(layout.panel_factors, treatment)
    return [ranked[rank] for rank in sorted(ranked)]


def _common_fields(layout: FactorLayout, treatment: TreatmentSummary) -> ChartRow:
    combination = _panel_label(layout.panel_factors, treatment)
    colour = layout.colour_factor
    return {
        "treatment": treatment_phrase(treatment.factors, factor_names(layout.varying)),
        "x": _x_position(layout, treatment),
        "xlevel": level_text(layout.x_factor.name, treatment.factors[layout.x_factor.name]) if layout.x_factor else "",
        "series": level_text(colour.name, treatment.factors[colour.name]) if colour else "",
        "combination": combination,
        "trials": treatment.trials,
        "stopped": stop_reason_text(treatment.stopped_by),
    }


def _x_position(layout: FactorLayout, treatment: TreatmentSummary) -> float | None:
    if layout.x_factor is None:
        return None
    places = level_positions(layout.x_factor)
    here = places[treatment.factors[layout.x_factor.name]]
    if layout.colour_factor is None:
        return here
    count = len(layout.colour_factor.levels)
    series = layout.colour_factor.levels.index(treatment.factors[layout.colour_factor.name])
    width = max(places.values()) - min(places.values())
    step = min(_LINE_OFFSET_SHARE, 3 * _LINE_OFFSET_SHARE / count)
    return here + (series - (count - 1) / 2) * step * width


def _panel_label(factors: tuple[FactorLevels, ...], treatment: TreatmentSummary) -> str:
    return " · ".join(
        level_text(factor.name, treatment.factors[factor.name])
        if factor.name in (CHANGE_FACTOR, TREATMENT_FACTOR)
        else f"{factor_label(factor.name)} {level_text(factor.name, treatment.factors[factor.name])}"
        for factor in factors
    )


def round_for_chart(value: float) -> float:
    """Five significant digits: what a chart can show, and a third of the bytes."""
    return float(f"{value:.5g}")
