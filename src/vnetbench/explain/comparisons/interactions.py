"""Interactions: how one factor's effect depends on another factor's level.

An interaction is a ratio of ratios over four treatments with equal other levels, in the blocks that all four
share. It is one ratio of two products, so `estimate/paired_ratios.py` gives its interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import (
    PairedRatio,
    combine_paired_ratios,
    estimate_paired_ratio,
    min_blocks_for_paired_ratio,
)
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.model import FactorLevels, Level


@dataclass(frozen=True)
class Interaction:
    """One factor's effect after a change of another factor, over its effect before that change."""

    factors: tuple[str, str]
    bases: tuple[Level, Level]
    levels: tuple[Level, Level]
    ratio: Ratio
    """Geometric mean over all sets of four treatments. 1 means no interaction."""
    treatment_set_count: int
    """Number of sets of four treatments."""


def estimate_interactions(summary: CampaignSummary, metric: str) -> tuple[Interaction, ...]:
    """Estimate the interactions of each two factors, from their first levels to each other level.

    P values are not adjusted. An interaction needs four treatments with enough common blocks, so a study that
    changes one factor at a time has none.
    """
    by_levels = {frozenset(each.factors.items()): each for each in summary.treatments}
    values = {each.index: values_by_block(each, metric) for each in summary.treatments}
    fewest = min_blocks_for_paired_ratio(summary.required_precision.confidence)
    interactions = []
    for one, other in itertools.combinations(summary.factors, 2):
        for levels in itertools.product(one.levels[1:], other.levels[1:]):
            pairs = [
                pair
                for four in _two_by_two_treatment_sets(summary, by_levels, (one, other), levels)
                if (pair := _interaction_ratio(*(values[each.index] for each in four))) is not None
                and pair.block_count >= fewest
            ]
            if pairs:
                bases = (one.levels[0], other.levels[0])
                ratio = combine_paired_ratios(pairs, summary.required_precision.confidence)
                interactions.append(Interaction((one.name, other.name), bases, levels, ratio, len(pairs)))
    return tuple(interactions)


def _two_by_two_treatment_sets(
    summary: CampaignSummary,
    by_levels: Mapping[frozenset[tuple[str, Level]], TreatmentSummary],
    factors: tuple[FactorLevels, FactorLevels],
    levels: tuple[Level, Level],
) -> Iterator[tuple[TreatmentSummary, ...]]:
    """Yield sets of four treatments: first levels, one factor changed, the other changed, both changed."""
    one, other = (factor.name for factor in factors)
    for base in summary.treatments:
        if any(base.factors.get(factor.name) != factor.levels[0] for factor in factors):
            continue
        changes: tuple[dict[str, Level], ...] = (
            {},
            {one: levels[0]},
            {other: levels[1]},
            {one: levels[0], other: levels[1]},
        )
        four = [by_levels.get(frozenset({**base.factors, **change}.items())) for change in changes]
        if all(four):
            yield tuple(each for each in four if each is not None)


def _interaction_ratio(
    base: Mapping[int, float], one: Mapping[int, float], other: Mapping[int, float], both: Mapping[int, float]
) -> PairedRatio | None:
    """Return (both / other) / (one / base) in the blocks in which all four have traffic."""
    blocks = [b for b in base if all(each.get(b, 0.0) > 0 for each in (base, one, other, both))]
    separate = {block: one[block] * other[block] for block in blocks}
    combined = {block: base[block] * both[block] for block in blocks}
    return estimate_paired_ratio(separate, combined)
