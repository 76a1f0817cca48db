"""What each factor does, and which treatment is best: the answers that a campaign's question asks for.

Both compare matched treatments in matched blocks (`paired.py`), and both say many things at once, so their p
values are adjusted together (`compare.adjust`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import BestTreatment, Effect
from vnetbench.estimate.paired_ratios import PairedRatio, fewest_blocks, paired_ratio, combine_ratios
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.model import FactorLevels, Level


def estimate_effects(
    summary: CampaignSummary, metric: str = "goodput_bps", *, adjusts_p_values: bool = True
) -> tuple[Effect, ...]:
    """What changing each factor from its first level to another multiplies `metric` by, other factors alike.

    In the study's order of factors and levels; an effect without any pair that has a ratio is absent.
    The p values are adjusted over all effects returned, unless they are to be adjusted with others
    (`adjusted`); the intervals are each effect's own.
    """
    found = [
        effect
        for factor in summary.factors
        for level in factor.levels[1:]
        if (effect := _effect(summary, factor, level, metric)) is not None
    ]
    if not adjusts_p_values:
        return tuple(found)
    ratios = adjust_p_values([effect.ratio for effect in found])
    return tuple(replace(effect, ratio=ratio) for effect, ratio in zip(found, ratios, strict=True))


def find_best_treatment(summary: CampaignSummary, metric: str = "goodput_bps") -> BestTreatment | None:
    """The treatment with the highest median of `metric` (lowest, where less is better), and its equals.

    Another treatment is told from it when the adjusted p value of their ratio is no more than the study's
    confidence leaves, which needs as many shared blocks as `paired.fewest_blocks` says. None where no
    treatment has the metric.
    """
    sign = -1 if is_lower_better(metric) else 1
    measured = sorted(
        (each for each in summary.treatments if metric in each.metrics),
        key=lambda each: -sign * each.metrics[metric].value,
    )
    if not measured:
        return None
    first, *others = measured
    pairs = {each.index: compare_treatments(first, each, metric) for each in others}
    confidence = summary.precision.confidence
    known = {index: combine_ratios([pair], confidence) for index, pair in pairs.items() if pair is not None}
    ratios = dict(zip(known, adjust_p_values(list(known.values())), strict=True))
    told = {
        index for index, ratio in ratios.items() if ratio.p_value is not None and ratio.p_value <= 1 - confidence + 1e-12
    }
    level_with = tuple(each.index for each in others if each.index not in told)
    return BestTreatment(first.index, metric, ratios, level_with)


def compare_treatments(base: TreatmentSummary, changed: TreatmentSummary, metric: str) -> PairedRatio | None:
    """level / base in the blocks of both; None where they have no ratio, as differences below zero have."""
    sides = [values_by_block(each, metric) for each in (base, changed)]
    if any(value < 0 for side in sides for value in side.values()):
        return None
    return paired_ratio(*sides)


def _effect(summary: CampaignSummary, factor: FactorLevels, level: Level, metric: str) -> Effect | None:
    base = _by_other_factors(summary, factor, factor.levels[0])
    changed = _by_other_factors(summary, factor, level)
    both = [others for others in base if others in changed]
    pairs = [pair for others in both if (pair := compare_treatments(base[others], changed[others], metric)) is not None]
    confidence = summary.precision.confidence
    used = _usable(pairs, fewest_blocks(confidence))
    if not used:
        return None
    own = [pair.ratio for pair in used]
    return Effect(
        factor=factor.name,
        base_level=factor.levels[0],
        level=level,
        ratio=combine_ratios(used, confidence),
        pair_count=len(used),
        excluded_pairs=len(both) - len(used),
        smallest_ratio=min(own),
        largest_ratio=max(own),
    )


def _usable(pairs: list[PairedRatio], fewest: int) -> list[PairedRatio]:
    """The pairs that have a ratio above zero, and blocks enough for an interval unless none has.

    One dead pair would make the mean of all of them zero or infinite.
    """
    alive = [pair for pair in pairs if math.isfinite(pair.log_ratio)]
    return [pair for pair in alive if pair.block_count >= fewest] or alive


def _by_other_factors(
    summary: CampaignSummary, factor: FactorLevels, level: Level
) -> Mapping[frozenset[tuple[str, Level]], TreatmentSummary]:
    return {
        each.levels_without(factor.name): each
        for each in summary.treatments
        if each.factors.get(factor.name) == level
    }


def values_by_block(treatment: TreatmentSummary, metric: str) -> Mapping[int, float]:
    """The treatment's trials that have the metric, by the block that each was run in."""
    return {point.block: point.values[metric] for point in treatment.points if metric in point.values}
