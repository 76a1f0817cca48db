"""Explain the difference between two treatments that differ in one factor, by the metrics that change.

A limit leaves a law in the evidence. If packets are the cost, their rate stays constant while their size
changes. If a window limits, the data in flight stays constant while the round-trip time changes (`models/`).

A difference needs a significant ratio in common blocks, with p values adjusted over all compared pairs. A
changed evidence metric needs a significant rank test, adjusted over all evidence metrics.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import median

from vnetbench.estimate.effects import compare_treatments
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import combine_paired_ratios
from vnetbench.estimate.ratios import adjust_p_values, estimate_rank_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME, TreatmentLimit
from vnetbench.explain.model import Finding
from vnetbench.explain.models.packet_rate import fit_packet_cost
from vnetbench.explain.phrases import format_metric, metric_label, other_factors_phrase
from vnetbench.study.model import Level
from vnetbench.wording.factor_text import level_phrase

MIN_REPORTED_RATIO = 1.15
"""Smallest ratio of a difference that gets a finding. Effects cover smaller ones."""
_MAX_CONSTANT_METRIC_RATIO = 1.15
"""A metric with a smaller ratio is constant."""
_MAX_PROPORTIONAL_DEVIATION_RATIO = 1.3
"""Two ratios are proportional if they differ by less than this ratio."""
_EVIDENCE_CONFIDENCE = 0.95
_MAX_NAMED_METRICS = 2
"""Maximum number of changed metrics in a sentence."""


@dataclass(frozen=True)
class LimitLaw:
    """A relation that a limit leaves in the evidence of two treatments."""

    metric_that_stays_constant: str
    metric_proportional_to_deciding: str
    """Metric that changes in proportion to the deciding metric."""
    exponent: int
    """1 for proportional, -1 for inversely proportional."""
    cause_families: tuple[str, ...]
    """Families of causes with which the law applies; empty for all."""
    conclusion_sentence: str
    """A sentence."""


LIMIT_LAWS = (
    LimitLaw(
        "packets_per_s",
        "segment_bytes_received",
        1,
        (),
        "The packet rate is the limit, and larger packets carry more data.",
    ),
    LimitLaw(
        "calls_per_s",
        "bytes_per_call",
        1,
        (),
        "The rate of system calls is the limit, and larger calls carry more data.",
    ),
    LimitLaw(
        "in_flight_bytes",
        "rtt_us",
        -1,
        ("window",),
        "A window is the limit, and the round-trip time determines the goodput.",
    ),
    LimitLaw(
        "rtt_us",
        "in_flight_bytes",
        1,
        ("window",),
        "A window is the limit, and a larger window carries more data.",
    ),
    LimitLaw(
        "stream_goodput_bps",
        "streams",
        1,
        (),
        "Each stream has its own limit, and more streams carry more data.",
    ),
)

_METRICS_IN_LAWS = frozenset(
    name
    for law in LIMIT_LAWS
    for name in (law.metric_that_stays_constant, law.metric_proportional_to_deciding)
)


@dataclass(frozen=True)
class TreatmentDifference:
    """Two treatments that differ in one factor, with the matching law."""

    factor: str
    worse: TreatmentLimit
    better: TreatmentLimit
    larger_over_smaller_ratio: float
    """Larger deciding metric over the smaller one."""
    law: LimitLaw | None

    @cached_property
    def clearly_changed_metrics_and_ratios(self) -> tuple[tuple[str, float], ...]:
        """Evidence metrics with a significant change, and their ratios, largest change first."""
        worse, better = self.worse.treatment, self.better.treatment
        ratios = _median_ratios(_evidence_medians(worse), _evidence_medians(better), EVIDENCE_METRICS)
        changed = _significantly_changed_metrics(worse, better)
        return tuple(
            sorted(
                (each for each in ratios.items() if each[0] in changed),
                key=lambda each: -abs(math.log(each[1])),
            )
        )


def difference_findings(summary: CampaignSummary, limits: Sequence[TreatmentLimit]) -> Iterator[Finding]:
    """Yield a finding for each factor with a clear difference, largest difference first.

    Each finding is about the factor's pair with the largest difference. Pairs with a law come first.
    """
    largest: dict[str, TreatmentDifference] = {}
    for difference in _find_differences(summary, limits):
        known = largest.get(difference.factor)
        if known is None or (difference.law is not None, difference.larger_over_smaller_ratio) > (
            known.law is not None,
            known.larger_over_smaller_ratio,
        ):
            largest[difference.factor] = difference
    for difference in sorted(largest.values(), key=lambda each: -each.larger_over_smaller_ratio):
        yield _difference_finding(summary, difference)


def _find_differences(
    summary: CampaignSummary, limits: Sequence[TreatmentLimit]
) -> Iterator[TreatmentDifference]:
    metric = summary.deciding_metric
    medians = {limit.treatment.index: _evidence_medians(limit.treatment) for limit in limits}
    for factor, one, other in _significantly_different_pairs(summary, limits):
        ratio = _larger_over_smaller_median(one.treatment, other.treatment, metric)
        if ratio >= MIN_REPORTED_RATIO:
            worse, better = _worse_and_better(one, other, metric)
            law = _matching_law(factor, worse, better, ratio, medians)
            yield TreatmentDifference(factor, worse, better, ratio, law)


def _pairs_differing_in_one_factor(
    summary: CampaignSummary, limits: Sequence[TreatmentLimit]
) -> Iterator[tuple[str, TreatmentLimit, TreatmentLimit]]:
    """Yield each factor's name with two treatments that differ only in this factor."""
    for factor in summary.factors:
        for group in _group_by_other_factors(factor.name, limits):
            for one, other in combinations(group, 2):
                yield factor.name, one, other


def _significantly_different_pairs(
    summary: CampaignSummary, limits: Sequence[TreatmentLimit]
) -> Iterator[tuple[str, TreatmentLimit, TreatmentLimit]]:
    """Yield the pairs whose ratio differs significantly from 1, adjusted over all pairs."""
    compared = [
        (pair, ratio)
        for pair in _pairs_differing_in_one_factor(summary, limits)
        if (ratio := _deciding_metric_ratio(summary, pair[1].treatment, pair[2].treatment)) is not None
    ]
    adjusted = adjust_p_values([ratio for _, ratio in compared])
    for (pair, _), ratio in zip(compared, adjusted, strict=True):
        if ratio.has_significant_p_value:
            yield pair


def _deciding_metric_ratio(
    summary: CampaignSummary, one: TreatmentSummary, other: TreatmentSummary
) -> Ratio | None:
    """Return the ratio in common blocks; by ranks for imported trials, which have none."""
    metric, confidence = summary.deciding_metric, summary.required_precision.confidence
    values = [each.values_of_trials_with_metric(metric) for each in (one, other)]
    if not all(values) or min(map(min, values)) < 0:
        return None
    if summary.is_imported:
        return estimate_rank_ratio(values[0], values[1], confidence)
    pair = compare_treatments(one, other, metric)
    return None if pair is None else combine_paired_ratios([pair], confidence)


def _group_by_other_factors(
    factor: str, limits: Sequence[TreatmentLimit]
) -> Iterable[Sequence[TreatmentLimit]]:
    """Group treatments by their levels of all factors but one."""
    groups: dict[frozenset[tuple[str, Level]], list[TreatmentLimit]] = {}
    for limit in limits:
        if factor in limit.treatment.factors:
            groups.setdefault(limit.treatment.levels_without(factor), []).append(limit)
    return groups.values()


def _worse_and_better(
    one: TreatmentLimit, other: TreatmentLimit, metric: str
) -> tuple[TreatmentLimit, TreatmentLimit]:
    """Return the worse treatment first."""
    by_value = sorted((one, other), key=lambda each: each.treatment.metrics[metric].value)
    if is_lower_better(metric):
        by_value.reverse()
    return by_value[0], by_value[1]


def _larger_over_smaller_median(one: TreatmentSummary, other: TreatmentSummary, metric: str) -> float:
    """Return the larger median over the smaller one; 1 if one is 0."""
    low, high = sorted(median(each.values_of_trials_with_metric(metric)) for each in (one, other))
    return high / low if low > 0 else 1.0


def _matching_law(
    factor: str,
    worse: TreatmentLimit,
    better: TreatmentLimit,
    ratio: float,
    medians: Mapping[int, Mapping[str, float]],
) -> LimitLaw | None:
    """Return the first law that both treatments follow. `medians` has evidence medians by treatment index."""
    ratios = _median_ratios(medians[worse.treatment.index], medians[better.treatment.index], _METRICS_IN_LAWS)
    before, after = (each.treatment.factors[factor] for each in (worse, better))
    if isinstance(before, int | float) and isinstance(after, int | float) and before > 0 < after:
        ratios[factor] = after / before
    family = worse.candidates[0].cause.family if worse.candidates else ""
    return next((law for law in LIMIT_LAWS if _is_law_fulfilled(law, ratios, ratio, family)), None)


def _median_ratios(
    before: Mapping[str, float], after: Mapping[str, float], names: Collection[str]
) -> dict[str, float]:
    """Return after over before for each of these metrics with positive medians in both."""
    return {
        name: after[name] / before[name]
        for name in names
        if before.get(name, 0.0) > 0 and after.get(name, 0.0) > 0
    }


def _evidence_medians(treatment: TreatmentSummary) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for point in treatment.points:
        for name, value in point.evidence.items():
            values.setdefault(name, []).append(value)
    return {name: median(each) for name, each in values.items()}


def _significantly_changed_metrics(one: TreatmentSummary, other: TreatmentSummary) -> frozenset[str]:
    """Return the evidence metrics that differ significantly, adjusted over all metrics of both."""
    values = {
        name: (before, after)
        for name in EVIDENCE_METRICS
        if (before := one.evidence_values(name)) and (after := other.evidence_values(name))
        if min(*before, *after) >= 0
    }
    ratios = adjust_p_values(
        [estimate_rank_ratio(before, after, _EVIDENCE_CONFIDENCE) for before, after in values.values()]
    )
    return frozenset(
        name
        for name, ratio in zip(values, ratios, strict=True)
        if ratio.p_value is not None and ratio.p_value <= 1 - _EVIDENCE_CONFIDENCE
    )


def _is_law_fulfilled(
    law: LimitLaw, ratio_by_metric: Mapping[str, float], deciding_metric_ratio: float, cause_family: str
) -> bool:
    if law.cause_families and cause_family not in law.cause_families:
        return False
    if not {law.metric_that_stays_constant, law.metric_proportional_to_deciding} <= ratio_by_metric.keys():
        return False
    constant_ratio = ratio_by_metric[law.metric_that_stays_constant]
    relative_ratio = (
        ratio_by_metric[law.metric_proportional_to_deciding] ** law.exponent / deciding_metric_ratio
    )
    return (
        1 / _MAX_CONSTANT_METRIC_RATIO < constant_ratio < _MAX_CONSTANT_METRIC_RATIO < deciding_metric_ratio
        and 1 / _MAX_PROPORTIONAL_DEVIATION_RATIO < relative_ratio < _MAX_PROPORTIONAL_DEVIATION_RATIO
    )


def _difference_finding(summary: CampaignSummary, difference: TreatmentDifference) -> Finding:
    worse, better = difference.worse.treatment, difference.better.treatment
    better_level, worse_level = (
        level_phrase(difference.factor, each.factors[difference.factor]) for each in (better, worse)
    )
    other_factors = other_factors_phrase(summary, better, difference.factor)
    where = f" ({other_factors})" if other_factors else ""
    metric = summary.deciding_metric
    after, before = (format_metric(metric, each.metrics[metric].value) for each in (better, worse))
    return Finding(
        kind="difference",
        text=(
            f"With {better_level} instead of {worse_level}{where}, {metric_label(metric)} is {after} "
            f"instead of {before}. {_reason_sentences(difference)}"
        ),
        treatment_indices=(worse.index, better.index),
        details={
            "factor": difference.factor,
            "ratio": difference.larger_over_smaller_ratio,
            "limits": [difference.worse.cause_name, difference.better.cause_name],
            "law": None if difference.law is None else difference.law.metric_that_stays_constant,
            "changed_metrics": dict(difference.clearly_changed_metrics_and_ratios),
            **_packet_cost_details(difference),
        },
    )


def _packet_cost_details(difference: TreatmentDifference) -> dict[str, object]:
    """Return the CPU cost per packet and per byte (`models/packet_rate.py`) if packets are the limit."""
    law = difference.law
    if law is None or law.metric_that_stays_constant != "packets_per_s":
        return {}
    medians = [_evidence_medians(each.treatment) for each in (difference.worse, difference.better)]
    if not all({"cycles_per_byte", law.metric_proportional_to_deciding} <= each.keys() for each in medians):
        return {}
    sizes = [each[law.metric_proportional_to_deciding] for each in medians]
    cycles = [each["cycles_per_byte"] * size for each, size in zip(medians, sizes, strict=True)]
    cost = fit_packet_cost(sizes, cycles)
    if cost is None:
        return {}
    return {"cycles_per_packet": cost.cycles_per_packet, "cycles_per_further_byte": cost.cycles_per_byte}


def _reason_sentences(difference: TreatmentDifference) -> str:
    """Return the sentences that explain the difference."""
    if difference.law is not None:
        metric = difference.law.metric_that_stays_constant
        before, after = _format_both_medians(difference, metric)
        constant = f'The metric "{metric_label(metric)}" stays constant ({before} and {after}).'
        return f"{constant} {difference.law.conclusion_sentence}"
    sentences = []
    if difference.worse.cause_name != difference.better.cause_name:
        worse, better = _limiting_cause_clause(difference.worse), _limiting_cause_clause(difference.better)
        sentences.append(f"The limit changes from {worse} to {better}.")
    if difference.clearly_changed_metrics_and_ratios:
        changes = []
        for name, _ in difference.clearly_changed_metrics_and_ratios[:_MAX_NAMED_METRICS]:
            before, after = _format_both_medians(difference, name)
            changes.append(f"{metric_label(name)} (from {before} to {after})")
        subject = "The largest change is" if len(changes) == 1 else "The largest changes are"
        sentences.append(f"{subject} in {' and '.join(changes)}.")
    return " ".join(sentences) or "The counters do not explain this difference."


def _format_both_medians(difference: TreatmentDifference, metric: str) -> tuple[str, str]:
    worse, better = (
        format_metric(metric, _evidence_medians(each.treatment)[metric])
        for each in (difference.worse, difference.better)
    )
    return worse, better


def _limiting_cause_clause(limit: TreatmentLimit) -> str:
    if limit.cause_name == NO_LIMIT_CAUSE_NAME:
        return "none"
    if limit.cause_name == UNEXPLAINED_CAUSE_NAME:
        return "an unexplained limit"
    return f'"{limit.candidates[0].cause.description}"'
