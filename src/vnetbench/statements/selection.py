"""What a campaign has to say to a statement: its treatments under conditions, and pairs of them compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.ratios import adjust_p_values, rank_ratio
from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import paired_ratio, combine_ratios
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.model import Level


@dataclass(frozen=True)
class Condition:
    """What a treatment must have to be looked at."""

    factor: str
    holds: Callable[[Level], bool]
    words: str
    """`MTU 1500`, `9 streams or more`."""


@dataclass(frozen=True)
class MeasuredTreatment:
    """A treatment that was measured, with all levels that are known of it."""

    treatment: TreatmentSummary
    levels: Mapping[str, Level]

    def without(self, *factors: str) -> dict[str, Level]:
        """Its levels but those of these factors."""
        return {name: level for name, level in self.levels.items() if name not in factors}


@dataclass(frozen=True)
class TreatmentSelection:
    """Treatments of a campaign, all of them or those that meet conditions."""

    summary: CampaignSummary
    tested: tuple[MeasuredTreatment, ...]
    lacks: str = ""
    """What none of the campaign's treatments has, where none is left."""

    @property
    def varying(self) -> tuple[str, ...]:
        """The factors that tell these treatments apart, in their own order."""
        names = dict.fromkeys(name for each in self.tested for name in each.levels)
        return tuple(n for n in names if len({each.levels.get(n) for each in self.tested}) > 1)

    def having(self, *metrics: str) -> TreatmentSelection:
        """Those that have all of these metrics."""
        left = tuple(each for each in self.tested if set(metrics) <= each.treatment.metrics.keys())
        words = " and ".join(metrics)
        return self._left(left, f"treatments with the metric {words}" if self.tested else self.lacks)

    def where(self, *conditions: Condition) -> TreatmentSelection:
        """Those that meet all conditions."""
        left = self.tested
        for condition in conditions:
            before = left
            left = tuple(each for each in left if _meets(each, condition))
            if before and not left:
                words = [each.words for each in conditions[: conditions.index(condition) + 1]]
                return self._left((), f"treatments with {', '.join(words)}")
        return self._left(left, self.lacks)

    def over(self, *factors: str) -> list[list[MeasuredTreatment]]:
        """Treatments that differ in these factors alone, in groups of two or more."""
        groups: dict[frozenset[tuple[str, Level]], list[MeasuredTreatment]] = {}
        for each in self.tested:
            if any(factor in each.levels for factor in factors):
                groups.setdefault(frozenset(each.without(*factors).items()), []).append(each)
        return [group for group in groups.values() if len(group) > 1]

    def by_level(self, factor: str) -> list[dict[Level, MeasuredTreatment]]:
        """The same of one factor, each group by its levels."""
        return [{each.levels[factor]: each for each in group} for group in self.over(factor)]

    def _left(self, tested: tuple[MeasuredTreatment, ...], lacks: str) -> TreatmentSelection:
        return TreatmentSelection(self.summary, tested, "" if tested else lacks)


@dataclass(frozen=True)
class TreatmentComparison:
    """Two treatments of one campaign that differ in a factor or two."""

    base: MeasuredTreatment
    level: MeasuredTreatment
    ratio: Ratio
    """level / base; its p value is adjusted over all that were compared for the same part."""


def seen(summary: CampaignSummary) -> TreatmentSelection:
    """All treatments of a campaign that were measured or published."""
    tested = tuple(
        MeasuredTreatment(
            treatment,
            {name: level for name, level in all_levels(summary, treatment).items() if level != UNSPECIFIED},
        )
        for treatment in summary.treatments
        if treatment.metrics
    )
    return TreatmentSelection(summary, tested, "" if tested else "a treatment that was measured")


def compared(summary: CampaignSummary, pairs: Sequence[tuple[MeasuredTreatment, MeasuredTreatment]], metric: str) -> list[TreatmentComparison]:
    """level / base of each pair of (base, level): in the blocks that both have, or of imports by ranks.

    An import's trials were not taken in blocks, so a pair of them has nothing in common.
    """
    found = [
        TreatmentComparison(base, level, own)
        for base, level in pairs
        if (own := _ratio(summary, base.treatment, level.treatment, metric)) is not None
    ]
    adjusted = adjust_p_values([each.ratio for each in found])
    return [TreatmentComparison(each.base, each.level, own) for each, own in zip(found, adjusted, strict=True)]


def numbers(levels: Mapping[Level, MeasuredTreatment]) -> Iterator[tuple[float, MeasuredTreatment]]:
    """The levels that are numbers, ascending, with their treatments."""
    yield from sorted(
        ((level, each) for level, each in levels.items() if not isinstance(level, str)),
        key=lambda pair: pair[0],
    )


def is_level(factor: str, *levels: Level, words: str) -> Condition:
    """That the factor has one of these levels."""
    return Condition(factor, lambda level: level in levels, words)


def is_number(factor: str, least: float, most: float, words: str) -> Condition:
    """That the factor's level is a number from `least` to `most`."""
    return Condition(factor, lambda level: not isinstance(level, str) and least <= level <= most, words)


def _meets(tested: MeasuredTreatment, condition: Condition) -> bool:
    return condition.factor in tested.levels and condition.holds(tested.levels[condition.factor])


def _ratio(
    summary: CampaignSummary, base: TreatmentSummary, level: TreatmentSummary, metric: str
) -> Ratio | None:
    confidence = summary.precision.confidence
    sides = [values_by_block(treatment, metric) for treatment in (base, level)]
    if any(value < 0 for side in sides for value in side.values()) or not all(sides):
        return None
    if summary.is_imported:
        return rank_ratio(list(sides[0].values()), list(sides[1].values()), confidence)
    pair = paired_ratio(*sides)
    return None if pair is None else combine_ratios([pair], confidence)
