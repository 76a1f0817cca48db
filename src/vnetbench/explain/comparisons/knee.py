"""Find the knee of a scaling curve: the level of a numeric factor from which more gains little."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.cell_means import (
    CellMean,
    FloatArray,
    bootstrap_log_means,
    estimate_cell_means,
)
from vnetbench.explain.comparisons.scaling_laws import (
    MIN_LEVELS_TO_CHOOSE_LAW,
    SCALABILITY,
    ScalingLaw,
    choose_best_predicting_laws,
    fit_scalability,
)
from vnetbench.explain.model import MEASURED_SERIES_NAME, EvidenceChart, Finding
from vnetbench.explain.models import scalability
from vnetbench.explain.phrases import is_numeric_factor, other_factors_phrase
from vnetbench.quantity import choose_scale, format_exact_share
from vnetbench.study.model import Level
from vnetbench.wording.estimate_text import find_metric, finite_or_none, metric_noun
from vnetbench.wording.factor_text import capitalize_sentence, factor_title, level_phrase

MIN_GAIN_SHARE_OF_METRIC = 0.05
"""Share of the metric: from the knee on, higher levels gain less."""
_MIN_LOG_GAIN = math.log1p(MIN_GAIN_SHARE_OF_METRIC)
_BOOTSTRAP_SAMPLE_COUNT = 100
_DRAWN_CURVE_POINTS = 40
"""Number of points of a drawn law."""


@dataclass(frozen=True)
class ScalingKnee:
    """The knee of one scaling curve: treatments that differ in one numeric factor."""

    factor: str
    cells: tuple[CellMean, ...]
    """In ascending order of the level, like `levels`."""
    levels: tuple[float, ...]
    law: ScalingLaw
    fitted_log_values: tuple[float, ...]
    """Logarithm of the law at each level."""
    drawn_level_log_value_pairs: tuple[tuple[float, float], ...]
    """Points of the drawn law: level and logarithm."""
    knee_level: float
    """Smallest level after which the law gains less than the minimum; the last level without a knee."""
    knee_low: float
    knee_high: float
    """Interval of the knee."""
    scalability_fit: scalability.ScalabilityFit | None
    """Parameters in units of the first level; None for other laws."""
    akaike_criterion_by_law: Mapping[str, float]
    """Law to its criterion of choice; lower is better."""

    @property
    def is_before_last_level(self) -> bool:
        """Whether the whole interval of the knee lies before the last level."""
        return self.knee_high < self.levels[-1]

    @property
    def peak_level_within_measured(self) -> float | None:
        """The level with the maximum, if the law falls beyond it within the measured levels."""
        peak = self.scalability_fit.peak_worker_count * self.levels[0] if self.scalability_fit else math.inf
        return peak if peak < self.levels[-1] else None

    @property
    def decline_share_of_peak(self) -> float:
        """Share by which the last level is below the maximum, by the law."""
        return 1 - math.exp(self.fitted_log_values[-1] - max(self.fitted_log_values))


def find_knee_per_curve(summary: CampaignSummary) -> tuple[ScalingKnee, ...]:
    """Return the knee of each scaling curve with enough levels; none if lower values are better."""
    metric = summary.deciding_metric
    if is_lower_better(metric):
        return ()
    cells = estimate_cell_means(summary, metric)
    if not cells:
        return ()
    samples = {
        cell.treatment.index: column
        for cell, column in zip(cells, bootstrap_log_means(cells, _BOOTSTRAP_SAMPLE_COUNT).T, strict=True)
    }
    return tuple(
        knee
        for factor in summary.factors
        if is_numeric_factor(factor.name)
        for knee in _factor_knees(factor.name, cells, samples, summary.required_precision.confidence)
    )


def knee_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return one finding per factor with scaling curves."""
    by_factor: dict[str, list[ScalingKnee]] = {}
    for knee in find_knee_per_curve(summary):
        by_factor.setdefault(knee.factor, []).append(knee)
    return tuple(_knee_finding(summary, factor, knees) for factor, knees in by_factor.items())


def _group_cells_into_curves(cells: Sequence[CellMean], factor: str) -> Iterator[list[CellMean]]:
    groups: dict[frozenset[tuple[str, Level]], list[CellMean]] = {}
    for cell in cells:
        levels = cell.treatment.factors
        if isinstance(levels.get(factor), int | float) and float(levels[factor]) > 0:
            groups.setdefault(cell.treatment.levels_without(factor), []).append(cell)
    for group in groups.values():
        if len(group) >= MIN_LEVELS_TO_CHOOSE_LAW:
            yield sorted(group, key=lambda cell: float(cell.treatment.factors[factor]))


def _factor_knees(
    factor: str,
    cells: Sequence[CellMean],
    bootstrap_log_means_by_treatment: Mapping[int, FloatArray],
    confidence: float,
) -> Iterator[ScalingKnee]:
    """Yield a factor's knees. Curves over equal levels are fitted together, as there can be hundreds."""
    curves = list(_group_cells_into_curves(cells, factor))
    by_levels: dict[tuple[float, ...], list[int]] = {}
    for position, curve in enumerate(curves):
        levels = tuple(float(cell.treatment.factors[factor]) for cell in curve)
        by_levels.setdefault(levels, []).append(position)
    knees: dict[int, ScalingKnee] = {}
    for levels, positions in by_levels.items():
        group = [curves[position] for position in positions]
        knees |= zip(
            positions,
            _fit_knees_of_curves_with_equal_levels(
                factor, levels, group, bootstrap_log_means_by_treatment, confidence
            ),
            strict=True,
        )
    yield from (knees[position] for position in range(len(curves)))


def _fit_knees_of_curves_with_equal_levels(
    factor: str,
    levels: tuple[float, ...],
    curves: Sequence[Sequence[CellMean]],
    bootstrap_log_means_by_treatment: Mapping[int, FloatArray],
    confidence: float,
) -> list[ScalingKnee]:
    """Fit the knees of curves over these levels, in their order."""
    level_array, curve_levels = np.array(levels), np.geomspace(levels[0], levels[-1], _DRAWN_CURVE_POINTS)
    logs = np.array([[cell.log_mean for cell in curve] for curve in curves])
    resampled = np.array(
        [[bootstrap_log_means_by_treatment[cell.treatment.index] for cell in curve] for curve in curves]
    ).swapaxes(1, 2)
    tail_percent = 100 * (1 - confidence) / 2
    law_choices = choose_best_predicting_laws(levels, logs, _MIN_LOG_GAIN)
    knees: dict[int, ScalingKnee] = {}
    for law in dict.fromkeys(law for law, _ in law_choices):
        rows = [row for row, choice in enumerate(law_choices) if choice.law is law]
        evaluate = law.fit(level_array, logs[rows])
        fitted, drawn = evaluate(level_array), evaluate(curve_levels)
        refit = law.fit(level_array, resampled[rows].reshape(-1, len(level_array)))
        indices = _knee_indices(refit(level_array)).reshape(len(rows), -1)
        ends = np.percentile(
            indices, [tail_percent, 100 - tail_percent], axis=1, method="closest_observation"
        )
        for row, index, fitted_log_values, curve, low, high in zip(
            rows, _knee_indices(fitted), fitted, drawn, *ends.astype(int), strict=True
        ):
            knees[row] = ScalingKnee(
                factor=factor,
                cells=tuple(curves[row]),
                levels=levels,
                law=law,
                fitted_log_values=tuple(fitted_log_values.tolist()),
                drawn_level_log_value_pairs=tuple(zip(curve_levels.tolist(), curve.tolist(), strict=True)),
                knee_level=levels[index],
                knee_low=levels[min(index, low)],
                knee_high=levels[max(index, high)],
                scalability_fit=fit_scalability(level_array, logs[row]) if law.name == SCALABILITY else None,
                akaike_criterion_by_law=law_choices[row].akaike_criteria,
            )
    return [knees[row] for row in range(len(curves))]


def _knee_indices(logs: FloatArray) -> npt.NDArray[np.intp]:
    """Return for each row the first index after which no value is higher by _MIN_LOG_GAIN or more."""
    later_maxima = np.maximum.accumulate(logs[:, ::-1], axis=1)[:, ::-1]
    indices: npt.NDArray[np.intp] = np.argmax(later_maxima - logs < _MIN_LOG_GAIN, axis=1)
    return indices


def _knee_finding(summary: CampaignSummary, factor: str, knees: Sequence[ScalingKnee]) -> Finding:
    groups: dict[str, list[ScalingKnee]] = {}
    for knee in knees:
        groups.setdefault(_knee_sentence(summary, knee), []).append(knee)
    sentences = [
        f"{_clause_that_names_curves(summary, factor, group, len(knees))}{sentence}."
        for sentence, group in groups.items()
    ]
    return Finding(
        kind="knee",
        text=" ".join(map(capitalize_sentence, sentences)),
        treatment_indices=tuple(cell.treatment.index for knee in knees for cell in knee.cells),
        chart=_scaling_curves_chart(summary, knees),
        details={
            "factor": factor,
            "min_gain_share": MIN_GAIN_SHARE_OF_METRIC,
            "curves": [_knee_details(knee) for knee in knees],
        },
    )


def _knee_sentence(summary: CampaignSummary, knee: ScalingKnee) -> str:
    """Describe one curve, without the final period."""
    noun, gain = metric_noun(summary.deciding_metric), format_exact_share(MIN_GAIN_SHARE_OF_METRIC)
    last = _knee_level_text(knee, knee.levels[-1])
    if not knee.is_before_last_level:
        return f"{noun} has no knee up to {last}, so higher levels may still gain {gain}"
    text = f"{noun} gains less than {gain} beyond {_knee_level_text(knee, knee.knee_level)}"
    if knee.knee_low != knee.knee_high:
        low_text, high_text = (_knee_level_text(knee, level) for level in (knee.knee_low, knee.knee_high))
        text += f" (interval: {low_text} to {high_text})"
    if knee.decline_share_of_peak >= MIN_GAIN_SHARE_OF_METRIC:
        decline = format_exact_share(round(knee.decline_share_of_peak, 2))
        text += f" and falls to {decline} below its maximum at {last}"
    return text


def _clause_that_names_curves(
    summary: CampaignSummary, factor: str, knees: Sequence[ScalingKnee], curve_count: int
) -> str:
    """Return the start of a sentence that names its curves; empty if there is only one."""
    if curve_count == 1:
        return ""
    if len(knees) == curve_count:
        return f"in all {curve_count} curves, "
    names = [other_factors_phrase(summary, knee.cells[0].treatment, factor) for knee in knees]
    names_text = "; ".join(names[:3]) + ("; …" if len(names) > 3 else "")
    return f"with {names_text}, "


def _knee_level_text(knee: ScalingKnee, level: float) -> str:
    return level_phrase(knee.factor, _level_as_in_study(knee, level))


def _level_as_in_study(knee: ScalingKnee, level: float) -> Level:
    return knee.cells[knee.levels.index(level)].treatment.factors[knee.factor]


def _scaling_curves_chart(summary: CampaignSummary, knees: Sequence[ScalingKnee]) -> EvidenceChart:
    metric = find_metric(summary.deciding_metric)
    scale = choose_scale(metric.unit, max(math.exp(cell.log_mean) for knee in knees for cell in knee.cells))
    rows: list[Mapping[str, str | float]] = []
    for knee in knees:
        name = other_factors_phrase(summary, knee.cells[0].treatment, knee.factor)
        rows += [
            _measured_chart_row(level, cell, scale.divisor)
            for level, cell in zip(knee.levels, knee.cells, strict=True)
        ]
        rows += [
            {
                "x": level,
                "y": math.exp(log) / scale.divisor,
                "series": f"{name}: {knee.law.name}" if name else knee.law.name,
            }
            for level, log in knee.drawn_level_log_value_pairs
        ]
    return EvidenceChart(
        chart_type="curve",
        title=f"{metric.label} over {factor_title(knees[0].factor).lower()}",
        x_label=factor_title(knees[0].factor),
        y_label=f"{metric.label} ({scale.unit})" if scale.unit else metric.label,
        rows=tuple(rows),
    )


def _measured_chart_row(level: float, cell: CellMean, divisor: float) -> dict[str, str | float]:
    half_width = 2 * math.sqrt(cell.variance)
    low, middle, high = (math.exp(cell.log_mean + sign * half_width) / divisor for sign in (-1, 0, 1))
    return {"x": level, "y": middle, "low": low, "high": high, "series": MEASURED_SERIES_NAME}


def _knee_details(knee: ScalingKnee) -> dict[str, object]:
    return {
        "treatments": [cell.treatment.index for cell in knee.cells],
        "knee": knee.knee_level,
        "low": knee.knee_low,
        "high": knee.knee_high,
        "is_shown": knee.is_before_last_level,
        "law": knee.law.name,
        "criteria": dict(knee.akaike_criterion_by_law),
        "peak": knee.peak_level_within_measured,
        "scalability": _scalability_fields(knee.scalability_fit) if knee.scalability_fit else None,
    }


def _scalability_fields(law: scalability.ScalabilityFit) -> dict[str, object]:
    """Return the parameters for JSON. JSON has no infinity, so a law without a peak has None."""
    parameters = {"gamma": law.gamma, "sigma": law.sigma, "kappa": law.kappa, "peak": law.peak_worker_count}
    return {
        name: {
            "value": finite_or_none(value),
            "interval": [finite_or_none(end) for end in law.interval_by_parameter.get(name, ())],
        }
        for name, value in parameters.items()
    }
