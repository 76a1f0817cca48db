"""Find reasons why trials of one treatment differ: modes, drift, missing steady state, other work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.comparisons import modes
from vnetbench.explain.comparisons.trend import Trend, trend_over_blocks, trend_over_metric
from vnetbench.explain.model import CandidateCause, EvidenceChart, EvidenceItem, Finding
from vnetbench.explain.phrases import (
    format_metric,
    format_share_with_interval,
    list_treatment_names,
    metric_label,
)
from vnetbench.explain.rules import get_cause
from vnetbench.quantity import format_count_with_noun
from vnetbench.wording.estimate_text import find_metric, metric_noun
from vnetbench.wording.factor_text import capitalize_sentence

_MIN_BLOCKS_FOR_DRIFT = 6
"""Fewer blocks have too few orders for a p value of _SIGNIFICANCE_LEVEL."""
_SIGNIFICANCE_LEVEL = 0.01
"""Share of stable campaigns that each test may report as unstable."""
_MIN_DIFFERENCE_BY_OTHER_WORK_METRIC = {"other_work_cpus": 0.2, "worst_steal_percent": 20.0}
"""Smallest difference in other work between quiet and busy trials: a fifth of one CPU."""


class _TrendOverEvidence(NamedTuple):
    """Trend of the deciding metric's logarithm over an evidence metric, with quiet and busy trials."""

    trend: Trend
    evidence_percentile_5: float
    """Of the evidence metric."""
    evidence_percentile_95: float


def instability_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return the reasons why trials of one treatment differ, modes first."""
    if summary.represented_table is not None:
        return ()
    return (
        *modes.mode_findings(summary),
        *_drift_findings(summary),
        *_no_steady_state_findings(summary),
        *_machine_busy_findings(summary),
    )


def _drift_findings(summary: CampaignSummary) -> Iterator[Finding]:
    """Yield a finding if the trend of all treatments over the blocks exceeds the study's half-width."""
    series = [_log_value_by_block(each, summary.deciding_metric) for each in summary.treatments]
    blocks = sorted({block for each in series for block in each})
    if summary.is_imported or len(blocks) < _MIN_BLOCKS_FOR_DRIFT:
        return
    trend = trend_over_blocks(series)
    if trend is None or trend.p_value > _SIGNIFICANCE_LEVEL:
        return
    change = math.expm1(trend.median_change_per_unit * (blocks[-1] - blocks[0]))
    if abs(change) < summary.required_precision.half_width:
        return
    verb = "falls" if change < 0 else "rises"
    yield Finding(
        kind="unstable",
        text=(
            f"{capitalize_sentence(metric_noun(summary.deciding_metric))} {verb} by "
            f"{format_share_with_interval(abs(change))} from the first block to the last "
            f"({_format_p_value(trend.p_value)}), in all treatments alike. "
            "Effects and comparisons remain valid, because they compare trials of the same block. "
            "Single values depend on the time of the trial."
        ),
        candidates=(_very_likely_candidate("drift", 1 - trend.p_value),),
        chart=_drift_chart(summary, series),
        details={"cause": "drift", "change": change, "p": trend.p_value, "blocks": len(blocks)},
    )


def _drift_chart(summary: CampaignSummary, series: Sequence[Mapping[int, float]]) -> EvidenceChart:
    """Return a chart of each block's median, relative to the medians of the treatments."""
    deviations: dict[int, list[float]] = {}
    for logs in series:
        for block, log in logs.items():
            deviations.setdefault(block, []).append(log - float(np.median(list(logs.values()))))
    deciding_metric = find_metric(summary.deciding_metric)
    return EvidenceChart(
        chart_type="time_series",
        title=f"{deciding_metric.label} over the blocks of the campaign",
        x_label="block",
        y_label=f"{deciding_metric.label} relative to the treatments' medians (%)",
        rows=tuple(
            {"x": block, "y": 100 * math.exp(float(np.median(each))), "series": "all treatments"}
            for block, each in sorted(deviations.items())
        ),
    )


def _no_steady_state_findings(summary: CampaignSummary) -> Iterator[Finding]:
    """Yield a finding about treatments whose trials mostly end before they reach a steady state."""
    counts = {
        each.index: max(_count_unsteady_rising_and_falling(summary, each)) for each in summary.treatments
    }
    unsteady = [
        each for each in summary.treatments if _is_majority_of_trials(counts[each.index], each.trial_count)
    ]
    if not unsteady:
        return
    moving = sum(counts[each.index] for each in unsteady)
    trials = sum(each.trial_count for each in unsteady)
    prefix = "" if len(summary.treatments) == 1 else f"{list_treatment_names(summary, unsteady)}: "
    yield Finding(
        kind="unstable",
        text=(
            f"{prefix}{metric_noun(summary.deciding_metric)} was still "
            f"{_rising_or_falling_words(summary, unsteady)} "
            f"at the end of {moving} of {format_count_with_noun(trials, 'trial')}. "
            "The values of these trials do not describe a steady state."
        ),
        treatment_indices=tuple(each.index for each in unsteady),
        candidates=(_very_likely_candidate("warm_up", moving / trials),),
        details={"cause": "warm_up", "moving": moving, "trials": trials},
    )


def _is_majority_of_trials(moving: int, trials: int) -> bool:
    return moving >= 2 and 2 * moving > trials


def _count_unsteady_rising_and_falling(
    summary: CampaignSummary, treatment: TreatmentSummary
) -> tuple[int, int]:
    """Count trials without steady state that rise, or fall, at the end by more than the study's half-width.

    Callers use the larger count: if a path or a buffer fills, all trials move in one direction, while noise
    goes in both.
    """
    ratios = [
        _last_over_previous_quarter_ratio(point) for point in treatment.points if not point.has_steady_state
    ]
    least = summary.required_precision.half_width
    return sum(ratio > 1 + least for ratio in ratios), sum(ratio < 1 / (1 + least) for ratio in ratios)


def _rising_or_falling_words(summary: CampaignSummary, unsteady: Sequence[TreatmentSummary]) -> str:
    """Return `rising`, `falling` or both: a treatment has one direction, and treatments may differ."""
    counts = [_count_unsteady_rising_and_falling(summary, each) for each in unsteady]
    words = {"rising" if rising >= falling else "falling" for rising, falling in counts}
    return " or ".join(sorted(words, reverse=True))


def _last_over_previous_quarter_ratio(point: TrialPoint) -> float:
    """Return the median of the trial's last quarter over that of the quarter before."""
    quarter = len(point.time_series) // 4
    if not quarter:
        return 1.0
    before, last = (
        float(np.median(point.time_series[-start:][:quarter])) for start in (2 * quarter, quarter)
    )
    return last / before if before > 0 else 1.0


def _machine_busy_findings(summary: CampaignSummary) -> Iterator[Finding]:
    """Yield a finding if trials are worse the more other work ran at the same time."""
    trends = {
        name: result
        for name in _MIN_DIFFERENCE_BY_OTHER_WORK_METRIC
        if (result := _trend_over_evidence(summary, name)) is not None
    }
    adjusted = adjust_p_values(
        [Ratio(1.0, None, None, 0.95, trend.p_value) for trend, _, _ in trends.values()]
    )
    for (name, (trend, quiet, busy)), ratio in zip(trends.items(), adjusted, strict=True):
        p_value = ratio.p_value or 0.0
        if p_value > _SIGNIFICANCE_LEVEL or busy - quiet < _MIN_DIFFERENCE_BY_OTHER_WORK_METRIC[name]:
            continue
        decline = _relative_worsening(
            summary, _clamp_log_change_to_trial_range(summary, trend.median_change_per_unit * (busy - quiet))
        )
        if decline < summary.required_precision.half_width:
            continue
        values = [
            p.evidence[name]
            for t in summary.treatments
            for p in t.points
            if _has_evidence_and_result(summary, p, name)
        ]
        item = EvidenceItem(name, float(np.median(values)), min(values), max(values), None)
        noun = capitalize_sentence(metric_noun(summary.deciding_metric))
        yield Finding(
            kind="unstable",
            text=(
                f"Other work on the machine made trials worse. {noun} is "
                f"{format_share_with_interval(decline)} worse in "
                f"the trials with the most other work ({metric_label(name)} {format_metric(name, busy)}) "
                "than in "
                f"the trials with the least ({format_metric(name, quiet)})."
            ),
            candidates=(_very_likely_candidate("machine_busy", 1 - p_value, item),),
            details={"cause": "machine_busy", "metric": name, "decline": decline, "p": ratio.p_value},
        )
        return


def _trend_over_evidence(summary: CampaignSummary, metric: str) -> _TrendOverEvidence | None:
    """Return the trend of the deciding metric's logarithm over an evidence metric.

    The evidence metric is rounded to whole percent of a CPU: smaller differences would give slopes that are
    only noise.
    """
    resolution = _MIN_DIFFERENCE_BY_OTHER_WORK_METRIC[metric] / 20
    rows = [
        [
            (math.log(p.values[summary.deciding_metric]), round(p.evidence[metric] / resolution) * resolution)
            for p in each.points
            if _has_evidence_and_result(summary, p, metric)
        ]
        for each in summary.treatments
    ]
    rows = [row for row in rows if len(row) > 1]
    logs = [[log for log, _ in row] for row in rows]
    values = [[value for _, value in row] for row in rows]
    trend = trend_over_metric(logs, values)
    if trend is None:
        return None
    low, high = np.percentile([value for row in values for value in row], [5, 95])
    return _TrendOverEvidence(trend, float(low), float(high))


def _has_evidence_and_result(summary: CampaignSummary, point: TrialPoint, metric: str) -> bool:
    return metric in point.evidence and point.values.get(summary.deciding_metric, 0.0) > 0


def _clamp_log_change_to_trial_range(summary: CampaignSummary, log_change: float) -> float:
    """Limit a change to the range of trials of one treatment: a slope does not extrapolate."""
    values = [
        [p.values.get(summary.deciding_metric, 0.0) for p in each.points] for each in summary.treatments
    ]
    positive = [[value for value in own if value > 0] for own in values]
    largest = max((math.log(max(own) / min(own)) for own in positive if own), default=0.0)
    return max(-largest, min(largest, log_change))


def _relative_worsening(summary: CampaignSummary, log_change: float) -> float:
    """Return the share by which the deciding metric gets worse; negative if it gets better."""
    return math.expm1(log_change) if is_lower_better(summary.deciding_metric) else -math.expm1(log_change)


def _log_value_by_block(treatment: TreatmentSummary, metric: str) -> dict[int, float]:
    return {
        block: math.log(value) for block, value in values_by_block(treatment, metric).items() if value > 0
    }


def _very_likely_candidate(cause: str, score: float, *evidence: EvidenceItem) -> CandidateCause:
    return CandidateCause(get_cause(cause), score, "very likely", evidence)


def _format_p_value(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
