"""The data behind the charts: one row a mark, numbers already in the unit of their axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vnetbench.estimate.latency import curve
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.quantity import spell_share
from vnetbench.report.charts.factor_layout import Layout, positions
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import figure, mode_texts, scale_of
from vnetbench.wording.factor_text import (
    CHANGED,
    NAMED,
    factor_label,
    level_phrase,
    level_text,
    names_of,
    stop_text,
    treatment_phrase,
)

Row = dict[str, Any]

_MOST_PANELS, _MOST_COURSES, _MOST_POINTS = 12, 8, 100
"""Of the main metric in trials are drawn: so many treatments, trials of each, and points of each trial."""
_DODGE = 0.012
"""Lines are set apart by this share of the x axis, so that one's intervals don't hide another's."""


def metric_rows(summary: CampaignSummary, layout: Layout, metric: str) -> list[Row]:
    """Rows of kind `estimate`, `mode`, `trial` and `missing` of one metric.

    A treatment with two modes, or without any trial, has an `estimate` row without a value: it breaks the
    line.
    """
    scale = scale_of(summary.treatments, metric)
    rows: list[Row] = []
    for treatment in summary.treatments:
        base = _base(layout, treatment)
        estimate = treatment.metrics.get(metric)
        if estimate is None:
            rows.append({**base, "kind": "estimate", "value": None, "low": None, "high": None, "figure": ""})
            reason = "; ".join(treatment.failures) or stop_text(treatment.stopped_by)
            rows.append({**base, "kind": "missing", "value": 0.0, "figure": reason})
            continue
        base["figure"] = figure(estimate, metric, scale)
        two = len(estimate.modes) == 2
        rows.append(
            {
                **base,
                "kind": "estimate",
                "value": None if two else short(estimate.value / scale.divisor),
                "low": None if two or estimate.low is None else short(estimate.low / scale.divisor),
                "high": None if two or estimate.high is None else short(estimate.high / scale.divisor),
            }
        )
        for mode, text in zip(estimate.modes, mode_texts(estimate, metric, scale), strict=True):
            share = f"{mode.share * 100:.0f} %"
            rows.append(
                {
                    **base,
                    "kind": "mode",
                    "value": short(mode.value / scale.divisor),
                    "share": share,
                    "figure": text,
                }
            )
        for point in treatment.points:
            if metric in point.values:
                value = short(point.values[metric] / scale.divisor)
                rows.append({**base, "kind": "trial", "value": value, "trial": point.trial, "figure": ""})
    return rows


def marks_told(rows: Sequence[Row], confidence: float) -> str:
    """A caption's sentence on the marks of estimates and trials: an interval is named where one is drawn."""
    estimates = [row for row in rows if row["kind"] == "estimate" and row["value"] is not None]
    if not estimates:
        return "Each trial is a faint point."
    with_interval = any(row["low"] is not None for row in estimates)
    interval = (
        f" with its {spell_share(confidence)} interval" if with_interval else ", too few for an interval"
    )
    return f"Median of the trials{interval}; each trial is a faint point."


def time_rows(summary: CampaignSummary, layout: Layout, metric: str) -> list[Row]:
    """Every trial in time order, as its deviation from its treatment's median (0.02 is 2 % above)."""
    rows: list[Row] = []
    for treatment in summary.treatments:
        estimate = treatment.metrics.get(metric)
        if estimate is None or estimate.value == 0:
            continue
        with_metric = [point for point in treatment.points if metric in point.values]
        for place, point in enumerate(with_metric):
            mark = "of two modes" if estimate.modes else "outlier" if place in estimate.outliers else "trial"
            rows.append(
                {
                    "treatment": treatment_phrase(treatment.factors, names_of(layout.varying)),
                    "seconds": short(point.started_at),
                    "deviation": short(point.values[metric] / estimate.value - 1),
                    "trial": point.trial,
                    "block": point.block,
                    "mark": mark,
                }
            )
    return rows


def course_rows(summary: CampaignSummary, layout: Layout) -> tuple[list[Row], str]:
    """The main metric within trials, as `idle`, `warm-up` and `measured` parts, and what is left out.

    The load begins at second 0; `idle` is what was measured before it.

    Where there are more treatments than panels, those with two modes or unsteady trials come first, then
    those with the widest intervals.
    """
    scale = scale_of(summary.treatments, summary.main_metric)
    drawn = [t for t in summary.treatments if any(len(point.course) > 1 for point in t.points)]
    chosen = sorted(drawn, key=lambda t: _oddity(t, summary.main_metric))[:_MOST_PANELS]
    rows: list[Row] = []
    for treatment in sorted(chosen, key=lambda t: t.index):
        name = treatment_phrase(treatment.factors, names_of(layout.varying))
        for point in treatment.points[-_MOST_COURSES:]:
            rows += [
                {"treatment": name, "trial": point.trial, **row} for row in _course(point, scale.divisor)
            ]
    left_out = []
    if len(drawn) > len(chosen):
        left_out.append(
            f"{len(chosen)} of {len(drawn)} treatments, the oddest: two modes, unsteady, wide intervals"
        )
    if any(t.trials > _MOST_COURSES for t in chosen):
        left_out.append(f"the last {_MOST_COURSES} trials of each")
    return rows, f"Drawn are {'; '.join(left_out)}." if left_out else ""


def _oddity(treatment: TreatmentSummary, metric: str) -> tuple[bool, bool, float]:
    found = treatment.metrics[metric]
    unsteady = any(not point.steady for point in treatment.points)
    return not found.modes, not unsteady, -(found.half_width or 0.0)


def _course(point: TrialPoint, divisor: float) -> Iterator[Row]:
    """The samples of a trial, several averaged into one where there are many."""
    count = len(point.course)
    if count == 0:
        return
    interval_s = point.duration_s / count
    step = -(-count // _MOST_POINTS)
    idle = len(point.before)
    for start in range(0, idle, step):
        samples = point.before[start : start + step]
        t = (start + len(samples) / 2 - idle) * interval_s
        yield {"t": short(t), "value": short(sum(samples) / len(samples) / divisor), "part": "idle"}
    for start in range(0, count, step):
        samples = point.course[start : start + step]
        t = (start + len(samples) / 2) * interval_s
        row = {"t": short(t), "value": short(sum(samples) / len(samples) / divisor)}
        is_cut = start * interval_s < point.warmup_s - interval_s / 2
        yield {**row, "part": "warm-up" if is_cut else "measured"}
        # The first measured sample ends the line of the warm-up too, or there would be a gap.
        if not is_cut and start > 0 and (start - step) * interval_s < point.warmup_s - interval_s / 2:
            yield {**row, "part": "warm-up"}


def latency_rows(summary: CampaignSummary, layout: Layout) -> list[Row]:
    """The curve of each treatment's latencies: how long (µs) all but the share `beyond` took at most.

    Dashes tell the levels of a factor apart, or where there was an idle phase that from the load.
    """
    has_idle = any(treatment.idle_latencies for treatment in summary.treatments)
    dashed = layout.colour.name if layout.colour and not has_idle else ""
    coloured = [name for name in names_of(layout.varying) if name != dashed]
    rows: list[Row] = []
    for treatment in summary.treatments:
        dash = level_phrase(dashed, treatment.factors[dashed]) if dashed else ""
        curves = [(dash, treatment.latencies)]
        if has_idle:
            curves = [("under load", treatment.latencies), ("before the load", treatment.idle_latencies)]
        rows += [
            {
                "treatment": treatment_phrase(treatment.factors, names_of(layout.varying)),
                "colour": treatment_phrase(treatment.factors, coloured),
                "dash": dash,
                "beyond": short(beyond),
                "percentile": f"{100 * (1 - beyond):.6g} %",
                "latency": short(latency_us),
            }
            for dash, latencies in curves
            for beyond, latency_us in curve(latencies)
        ]
    return rows


def series_texts(layout: Layout) -> list[str]:
    """The lines' names, in order."""
    factor = layout.colour
    return [level_text(factor.name, level) for level in factor.levels] if factor else []


def combination_texts(summary: CampaignSummary, layout: Layout) -> list[str]:
    """The names of the panels or rows that treatments fall into, in the order of the levels."""
    ranked = {}
    for treatment in summary.treatments:
        rank = tuple(factor.levels.index(treatment.factors[factor.name]) for factor in layout.others)
        ranked[rank] = _combination(layout.others, treatment)
    return [ranked[rank] for rank in sorted(ranked)]


def _base(layout: Layout, treatment: TreatmentSummary) -> Row:
    combination = _combination(layout.others, treatment)
    colour = layout.colour
    return {
        "treatment": treatment_phrase(treatment.factors, names_of(layout.varying)),
        "x": _x_position(layout, treatment),
        "xlevel": level_text(layout.x.name, treatment.factors[layout.x.name]) if layout.x else "",
        "series": level_text(colour.name, treatment.factors[colour.name]) if colour else "",
        "combination": combination,
        "trials": treatment.trials,
        "stopped": stop_text(treatment.stopped_by),
    }


def _x_position(layout: Layout, treatment: TreatmentSummary) -> float | None:
    if layout.x is None:
        return None
    places = positions(layout.x)
    here = places[treatment.factors[layout.x.name]]
    if layout.colour is None:
        return here
    count = len(layout.colour.levels)
    series = layout.colour.levels.index(treatment.factors[layout.colour.name])
    width = max(places.values()) - min(places.values())
    step = min(_DODGE, 3 * _DODGE / count)
    return here + (series - (count - 1) / 2) * step * width


def _combination(factors: tuple[FactorLevels, ...], treatment: TreatmentSummary) -> str:
    return " · ".join(
        level_text(factor.name, treatment.factors[factor.name])
        if factor.name in (CHANGED, NAMED)
        else f"{factor_label(factor.name)} {level_text(factor.name, treatment.factors[factor.name])}"
        for factor in factors
    )


def short(value: float) -> float:
    """Five significant digits: what a chart can show, and a third of the bytes."""
    return float(f"{value:.5g}")
