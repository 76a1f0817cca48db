"""The effect of each factor and the best treatment: the answers to a campaign's question.

Both compare matched treatments in matched blocks (`paired_ratios.py`). Both make many comparisons. So the p
values of effects are adjusted together (`ratios.adjust_p_values`), and the best treatment is chosen with its
selection taken into account (`best_treatments.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vnetbench.estimate.best_treatments import compare_with_best_of_others
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import BestTreatment, Effect
from vnetbench.estimate.paired_ratios import (
    PairedRatio,
    combine_paired_ratios,
    estimate_paired_ratio,
    min_blocks_for_paired_ratio,
)
from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.model import FactorLevels, Level


def estimate_effects(
    summary: CampaignSummary, metric: str = "goodput_bps", *, adjusts_p_values: bool = True
) -> tuple[Effect, ...]:
    """Return the effect on `metric` of a change from each factor's first level to each other level.

    The order is that of the study's factors and levels. An effect without any pair that has a ratio is
    absent. The intervals are not adjusted.

    Args:
        summary: The campaign.
        metric: The name of the metric.
        adjusts_p_values: Whether to adjust the p values over all returned effects. False if the caller
            adjusts them together with others.
    """
    effects = [
        effect
        for factor in summary.factors
        for level in factor.levels[1:]
        if (effect := _estimate_effect(summary, factor, level, metric)) is not None
    ]
    if not adjusts_p_values:
        return tuple(effects)
    ratios = adjust_p_values([effect.ratio for effect in effects])
    return tuple(replace(effect, ratio=ratio) for effect, ratio in zip(effects, ratios, strict=True))


def find_best_treatment(summary: CampaignSummary, metric: str = "goodput_bps") -> BestTreatment | None:
    """Return the treatment with the best median of `metric`, and the others that may be the best.

    A treatment cannot be the best if another one is better by Hsu's comparisons with the best, at the
    confidence of the study. That needs the number of shared blocks that
    `paired_ratios.min_blocks_for_paired_ratio` returns. The result is None if no treatment has the metric.
    """
    sign = -1 if is_lower_better(metric) else 1
    measured = sorted(
        (each for each in summary.treatments if metric in each.metrics),
        key=lambda each: -sign * each.metrics[metric].value,
    )
    if not measured:
        return None
    best, *others = measured
    pairs = {each.index: compare_treatments(best, each, metric) for each in others}
    confidence = summary.required_precision.confidence
    unadjusted = {
        index: combine_paired_ratios([pair], confidence) for index, pair in pairs.items() if pair is not None
    }
    ratios = dict(zip(unadjusted, adjust_p_values(list(unadjusted.values())), strict=True))
    comparisons = compare_with_best_of_others(
        {each.index: values_by_block(each, metric) for each in measured},
        [each.index for each in measured],
        confidence,
        is_lower_better=is_lower_better(metric),
    )
    return BestTreatment(
        best.index,
        metric,
        ratios,
        tuple(index for index in comparisons.candidates if index != best.index),
        {index: float(np.exp(sign * log)) for index, log in comparisons.min_log_ratio_to_best.items()},
    )


def compare_treatments(base: TreatmentSummary, changed: TreatmentSummary, metric: str) -> PairedRatio | None:
    """Return the ratio changed / base in the blocks of both; None without a ratio or with negative values."""
    values = [values_by_block(each, metric) for each in (base, changed)]
    if any(value < 0 for by_block in values for value in by_block.values()):
        return None
    return estimate_paired_ratio(*values)


def _estimate_effect(
    summary: CampaignSummary, factor: FactorLevels, level: Level, metric: str
) -> Effect | None:
    base = _index_by_other_factors(summary, factor, factor.levels[0])
    changed = _index_by_other_factors(summary, factor, level)
    shared = [others for others in base if others in changed]
    pairs = [
        pair
        for others in shared
        if (pair := compare_treatments(base[others], changed[others], metric)) is not None
    ]
    confidence = summary.required_precision.confidence
    used = _prefer_pairs_with_enough_blocks(pairs, min_blocks_for_paired_ratio(confidence))
    if not used:
        return None
    ratios = [pair.ratio for pair in used]
    return Effect(
        factor=factor.name,
        base_level=factor.levels[0],
        level=level,
        ratio=combine_paired_ratios(used, confidence),
        pair_count=len(used),
        excluded_pair_count=len(shared) - len(used),
        min_pair_ratio=min(ratios),
        max_pair_ratio=max(ratios),
    )


def _prefer_pairs_with_enough_blocks(pairs: Sequence[PairedRatio], min_blocks: int) -> Sequence[PairedRatio]:
    """Return the pairs with a finite ratio and `min_blocks` blocks, or with fewer if no pair has so many.

    A single ratio of zero or infinity would make the mean of all of them zero or infinite.
    """
    finite = [pair for pair in pairs if math.isfinite(pair.log_ratio)]
    return [pair for pair in finite if pair.block_count >= min_blocks] or finite


def _index_by_other_factors(
    summary: CampaignSummary, factor: FactorLevels, level: Level
) -> Mapping[frozenset[tuple[str, Level]], TreatmentSummary]:
    return {
        each.levels_without(factor.name): each
        for each in summary.treatments
        if each.factors.get(factor.name) == level
    }


def values_by_block(treatment: TreatmentSummary, metric: str) -> Mapping[int, float]:
    """Return the metric of each of the treatment's trials that has it, by block."""
    return {point.block: point.values[metric] for point in treatment.points if metric in point.values}
