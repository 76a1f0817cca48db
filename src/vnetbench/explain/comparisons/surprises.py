"""Find surprising treatments: far from their prediction, or worse after a change that should do no harm.

The prediction for a treatment comes from all other treatments: an additive model of logarithms with all
interactions of two factors. A numeric factor enters interactions by its slope over the logarithm of the
level. The test for outliers removes the most extreme treatment as long as it stands out, and corrects for the
number of treatments (Rosner 1983, "Percentage points for a generalized ESD many-outlier procedure",
Technometrics 25(2), with externally studentized residuals: Belsley, Kuh & Welsch 1980).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.effects import compare_treatments
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import combine_paired_ratios
from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.comparisons.cell_means import CellMean, FloatArray, estimate_cell_means
from vnetbench.explain.comparisons.variance_shares import centred_indicator_columns, product_columns
from vnetbench.explain.model import EvidenceChart, Finding
from vnetbench.explain.phrases import (
    format_ratio_with_interval,
    format_share_with_interval,
    is_numeric_factor,
    other_factors_phrase,
    ratio_interval_fields,
)
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.model import ONE_AT_A_TIME, Level
from vnetbench.wording.estimate_text import metric_noun
from vnetbench.wording.factor_text import capitalize_sentence, factor_noun, level_phrase
from vnetbench.wording.treatment_names import treatment_name

special = DeferredModule("scipy.special")

_MIN_DEGREES_OF_FREEDOM = 5
"""Minimum number of treatments beyond the model's parameters, to estimate the usual error."""
_MIN_LOG_ERROR = 1e-9
"""Smallest error of a logarithm. Anything below is rounding."""
_MAX_OUTLIERS_PER_TREATMENT, _MAX_OUTLIERS = 0.1, 10
"""Maximum share and number of outliers. More treatments than this are not exceptions."""

_HIGHER_IS_BETTER_RATE_METRICS = (
    "goodput_bps",
    "transactions_per_s",
    "connections_per_s",
    "datagrams_received_per_s",
    "throughput_fps",
)


@dataclass(frozen=True)
class OutlierTreatment:
    """A treatment far from the prediction by all others."""

    cell_mean: CellMean
    measured_to_predicted_ratio: Ratio
    """Measured over predicted value. The p value is corrected for the number of treatments."""


@dataclass(frozen=True)
class ResourceContradiction:
    """Two treatments that differ in one factor, where the level that should do no harm is worse."""

    factor: str
    lower_level_treatment: TreatmentSummary
    higher_level_treatment: TreatmentSummary
    higher_to_lower_level_ratio: Ratio
    """Metric at the higher level over the lower level. The p value is adjusted over all compared pairs."""


def find_outliers(summary: CampaignSummary) -> tuple[OutlierTreatment, ...]:
    """Return significant outliers that differ by more than the study's half-width."""
    cells = list(estimate_cell_means(summary, summary.deciding_metric))
    if not cells or summary.level_combination_method == ONE_AT_A_TIME:
        return ()
    factors = [factor.name for factor in summary.factors]
    total, removed = len(cells), []
    last_significant = 0
    for number in range(1, min(_MAX_OUTLIERS, max(1, int(_MAX_OUTLIERS_PER_TREATMENT * total))) + 1):
        extreme = _find_largest_residual_treatment(
            cells, factors, total, summary.required_precision.confidence
        )
        if extreme is None:
            break
        removed.append(extreme)
        cells.remove(extreme.cell_mean)
        # An outlier can mask another one, so all up to the last significant one count.
        last_significant = number if _is_p_value_significant(summary, extreme) else last_significant
    return tuple(
        each
        for each in removed[:last_significant]
        if _is_beyond_precision(summary, each.measured_to_predicted_ratio)
    )


def find_contradictions(summary: CampaignSummary) -> tuple[ResourceContradiction, ...]:
    """Return pairs of neighbouring levels whose higher level, or `on`, lowers a rate in common blocks."""
    if summary.deciding_metric not in _HIGHER_IS_BETTER_RATE_METRICS or summary.is_imported:
        return ()
    compared = [
        ResourceContradiction(
            factor.name, less, more, combine_paired_ratios([pair], summary.required_precision.confidence)
        )
        for factor in summary.factors
        for less, more in _higher_level_neighbour_pairs(summary, factor.name)
        if (pair := compare_treatments(less, more, summary.deciding_metric)) is not None
    ]
    ratios = adjust_p_values([each.higher_to_lower_level_ratio for each in compared])
    adjusted = (
        ResourceContradiction(each.factor, each.lower_level_treatment, each.higher_level_treatment, ratio)
        for each, ratio in zip(compared, ratios, strict=True)
    )
    return tuple(
        each
        for each in adjusted
        if each.higher_to_lower_level_ratio.has_significant_p_value
        and each.higher_to_lower_level_ratio.value < 1 - summary.required_precision.half_width
    )


def surprise_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return one finding per outlier, and one per factor with contradictions."""
    by_factor: dict[str, list[ResourceContradiction]] = {}
    for each in find_contradictions(summary):
        by_factor.setdefault(each.factor, []).append(each)
    return (
        *(_outlier_finding(summary, each) for each in find_outliers(summary)),
        *(_contradiction_finding(summary, factor, pairs) for factor, pairs in by_factor.items()),
    )


def _find_largest_residual_treatment(
    cells: Sequence[CellMean], factors: Sequence[str], count: int, confidence: float
) -> OutlierTreatment | None:
    """Return the treatment with the largest studentized residual; None if too few treatments are left."""
    model = _projection_matrix_and_rank_of_richest_model(cells, factors)
    if model is None:
        return None
    projection, rank = model
    logs = np.array([cell.log_mean for cell in cells])
    freedom = len(cells) - rank - 1
    leverage = np.diag(projection)
    residuals = logs - projection @ logs
    # A treatment with a level of its own always fits the model exactly.
    is_free = leverage < 1 - 1e-6
    if not is_free.any():
        return None
    residual_share = np.where(is_free, 1 - leverage, 1.0)
    own_variance = np.array([cell.variance for cell in cells])
    # The error is at least that of the trials, even if the other treatments fit better by chance.
    min_variance = np.maximum(own_variance, _MIN_LOG_ERROR**2)
    variance = np.maximum(
        (float(residuals @ residuals) - residuals**2 / residual_share) / freedom, min_variance
    )
    scores = np.where(is_free, np.abs(residuals) / np.sqrt(variance * residual_share), 0.0)
    index = int(np.argmax(scores))
    deviation = float(residuals[index] / residual_share[index])
    error = math.sqrt(float(variance[index] / residual_share[index]))
    p_value = min(1.0, 2 * float(special.stdtr(freedom, -float(scores[index]))) * count)
    half_width = error * float(special.stdtrit(freedom, (1 + confidence) / 2))
    ratio = Ratio(
        math.exp(deviation),
        math.exp(deviation - half_width),
        math.exp(deviation + half_width),
        confidence,
        p_value,
        is_p_value_adjusted=True,
    )
    return OutlierTreatment(cells[index], ratio)


def _projection_matrix_and_rank_of_richest_model(
    cells: Sequence[CellMean], factors: Sequence[str]
) -> tuple[FloatArray, int] | None:
    """Return projection and rank of the richest model with enough degrees of freedom; None without one."""
    constant = np.ones((len(cells), 1))
    mains = {name: own for name in factors if (own := centred_indicator_columns(cells, name)).shape[1]}
    plain = [constant, *mains.values()]
    slim = {
        name: _log_and_word_level_columns(cells, name) if is_numeric_factor(name) else own
        for name, own in mains.items()
    }
    both = [product_columns(slim[one], slim[other]) for one, other in itertools.combinations(mains, 2)]
    for columns in ([*plain, *both], plain):
        table = np.hstack(columns)
        inverse = np.linalg.pinv(table.T @ table, rcond=1e-10, hermitian=True)
        projection: FloatArray = table @ inverse @ table.T
        rank = round(float(np.trace(projection)))
        if len(cells) - rank >= _MIN_DEGREES_OF_FREEDOM:
            return projection, rank
    return None


def _log_and_word_level_columns(cells: Sequence[CellMean], factor: str) -> FloatArray:
    """Return the centred logarithm of the level, and an indicator of each non-numeric level of the factor."""
    levels = [cell.treatment.factors.get(factor) for cell in cells]
    numbers = np.array([_log_level(level) for level in levels])
    if np.isnan(numbers).all():
        return centred_indicator_columns(cells, factor)
    slope = np.where(np.isnan(numbers), 0.0, numbers - np.nanmean(numbers))
    words = [level for level in dict.fromkeys(levels) if math.isnan(_log_level(level))]
    columns = [slope, *([float(level == word) for level in levels] for word in words)]
    table: FloatArray = np.array(columns).T
    return table


def _log_level(level: Level | None) -> float:
    """Return the logarithm of a level; NaN for a non-numeric level."""
    return math.log(level) if isinstance(level, int | float) and level > 0 else math.nan


def _is_p_value_significant(summary: CampaignSummary, outlier: OutlierTreatment) -> bool:
    return (
        outlier.measured_to_predicted_ratio.p_value is not None
        and outlier.measured_to_predicted_ratio.p_value <= 1 - summary.required_precision.confidence
    )


def _is_beyond_precision(summary: CampaignSummary, ratio: Ratio) -> bool:
    """Return whether the whole interval differs from 1 by more than the study's half-width."""
    low, high = ratio.low or 0.0, ratio.high or math.inf
    return low > 1 + summary.required_precision.half_width or high < 1 - summary.required_precision.half_width


def _higher_level_neighbour_pairs(
    summary: CampaignSummary, factor: str
) -> Iterator[tuple[TreatmentSummary, TreatmentSummary]]:
    """Yield treatments that differ in this factor only, at neighbouring levels, lower level first."""
    if factor not in FACTORS or not FACTORS[factor].should_not_lower_rate:
        return
    groups: dict[frozenset[tuple[str, Level]], list[tuple[float, TreatmentSummary]]] = {}
    for each in summary.treatments:
        rank = _level_or_switch_as_number(factor, each.factors.get(factor))
        if rank is not None and summary.deciding_metric in each.metrics:
            groups.setdefault(each.levels_without(factor), []).append((rank, each))
    for group in groups.values():
        ordered = [each for _, each in sorted(group, key=lambda pair: pair[0])]
        yield from itertools.pairwise(ordered)


def _level_or_switch_as_number(factor: str, level: Level | None) -> float | None:
    if FACTORS[factor].value_type.is_on_off:
        return {"off": 0.0, "on": 1.0}.get(str(level))
    return float(level) if isinstance(level, int | float) else None


def _outlier_finding(summary: CampaignSummary, outlier: OutlierTreatment) -> Finding:
    treatment, ratio = outlier.cell_mean.treatment, outlier.measured_to_predicted_ratio
    difference = (
        f"{format_share_with_interval(abs(ratio.value - 1))} {'higher' if ratio.value > 1 else 'lower'}"
    )
    return Finding(
        kind="surprise",
        text=(
            f"{treatment_name(summary, treatment)}: {metric_noun(summary.deciding_metric)} is {difference} "
            f"than the other treatments predict (ratio {format_ratio_with_interval(ratio)})."
        ),
        treatment_indices=(treatment.index,),
        details={
            "ratio": ratio.value,
            "low": ratio.low,
            "high": ratio.high,
            "p": ratio.p_value,
            "predicted": math.exp(outlier.cell_mean.log_mean) / ratio.value,
        },
    )


def _contradiction_finding(
    summary: CampaignSummary, factor: str, contradictions: Sequence[ResourceContradiction]
) -> Finding:
    worst = min(contradictions, key=lambda each: each.higher_to_lower_level_ratio.value)
    less, more = (
        level_phrase(factor, each.factors[factor])
        for each in (worst.lower_level_treatment, worst.higher_level_treatment)
    )
    pair_count = len(list(_higher_level_neighbour_pairs(summary, factor)))
    others = other_factors_phrase(summary, worst.lower_level_treatment, factor)
    where = f" ({others})" if others and len(contradictions) < pair_count else ""
    text = (
        f"Unexpected decline: {more} instead of {less}{where} multiplies "
        f"{metric_noun(summary.deciding_metric)} by "
        f"{format_ratio_with_interval(worst.higher_to_lower_level_ratio)}."
    )
    if pair_count > 1:
        text += (
            f" {capitalize_sentence(metric_noun(summary.deciding_metric))} declines in "
            f"{len(contradictions)} of {pair_count} pairs of treatments that differ only in "
            f"{factor_noun(factor)}."
        )
    return Finding(
        kind="surprise",
        text=text,
        treatment_indices=tuple(dict.fromkeys(each.higher_level_treatment.index for each in contradictions)),
        chart=EvidenceChart(
            chart_type="effects",
            title=f"Declines with a higher level of {factor_noun(factor)}",
            x_label="",
            y_label=f"{metric_noun(summary.deciding_metric)}, times",
            rows=tuple(_contradiction_chart_row(summary, each) for each in contradictions),
        ),
        details={
            "factor": factor,
            "pairs": [
                {"less": e.lower_level_treatment.index, "more": e.higher_level_treatment.index,
                 "ratio": ratio.value, "low": ratio.low, "high": ratio.high, "p": ratio.p_value}
                for e in contradictions
                for ratio in (e.higher_to_lower_level_ratio,)
            ],
        },
    )  # fmt: skip


def _contradiction_chart_row(
    summary: CampaignSummary, contradiction: ResourceContradiction
) -> Mapping[str, str | float]:
    ratio = contradiction.higher_to_lower_level_ratio
    base = level_phrase(
        contradiction.factor, contradiction.lower_level_treatment.factors[contradiction.factor]
    )
    label = f"{treatment_name(summary, contradiction.higher_level_treatment)} / {base}"
    return {"x": label, "y": ratio.value, **ratio_interval_fields(ratio)}
