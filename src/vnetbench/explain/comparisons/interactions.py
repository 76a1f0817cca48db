"""Where one factor's effect depends on another's level: how many times as much it does there.

An interaction is a ratio of ratios: of four treatments that are otherwise alike, in the blocks that all
four have. It is one ratio of two products, so `estimate/paired.py` tells it with its interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import PairedRatio, fewest_blocks, paired_ratio, combine_ratios
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.model import FactorLevels, Level


@dataclass(frozen=True)
class Interaction:
    """What a change of one factor multiplies a metric by after a change of another, over before it."""

    factors: tuple[str, str]
    bases: tuple[Level, Level]
    levels: tuple[Level, Level]
    ratio: Ratio
    """Geometric mean over the sets of four treatments; 1: neither factor matters to the other."""
    sets: int
    """How many sets of four treatments it rests on."""


def interactions(summary: CampaignSummary, metric: str) -> tuple[Interaction, ...]:
    """Of each two factors, from their first levels to each other one; p values are not adjusted.

    One for which no four treatments have blocks enough in common is absent: where only one thing was
    changed at a time there are none.
    """
    by_levels = {frozenset(each.factors.items()): each for each in summary.treatments}
    values = {each.index: values_by_block(each, metric) for each in summary.treatments}
    fewest = fewest_blocks(summary.precision.confidence)
    found = []
    for one, other in itertools.combinations(summary.factors, 2):
        for levels in itertools.product(one.levels[1:], other.levels[1:]):
            pairs = [
                pair
                for four in _fours(summary, by_levels, (one, other), levels)
                if (pair := _pair(*(values[each.index] for each in four))) is not None
                and pair.block_count >= fewest
            ]
            if pairs:
                bases = (one.levels[0], other.levels[0])
                ratio = combine_ratios(pairs, summary.precision.confidence)
                found.append(Interaction((one.name, other.name), bases, levels, ratio, len(pairs)))
    return tuple(found)


def _fours(
    summary: CampaignSummary,
    by_levels: Mapping[frozenset[tuple[str, Level]], TreatmentSummary],
    factors: tuple[FactorLevels, FactorLevels],
    levels: tuple[Level, Level],
) -> Iterator[tuple[TreatmentSummary, ...]]:
    """Treatments with the first levels, the one changed, the other changed, and both."""
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


def _pair(
    base: Mapping[int, float], one: Mapping[int, float], other: Mapping[int, float], both: Mapping[int, float]
) -> PairedRatio | None:
    """(both / other) / (one / base) in the blocks in which all four are alive."""
    blocks = [b for b in base if all(each.get(b, 0.0) > 0 for each in (base, one, other, both))]
    apart = {block: one[block] * other[block] for block in blocks}
    return paired_ratio(apart, {block: base[block] * both[block] for block in blocks})
