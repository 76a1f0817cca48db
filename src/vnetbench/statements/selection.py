"""Select treatments of a campaign by metrics and levels, and compare pairs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import combine_paired_ratios, estimate_paired_ratio
from vnetbench.estimate.ratios import adjust_p_values, estimate_rank_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.model import Level


@dataclass(frozen=True)
class LevelCondition:
    """A condition on a treatment's level of one factor."""

    factor: str
    is_met: Callable[[Level], bool]
    phrase: str
    """`MTU 1500`, `9 streams or more`."""


@dataclass(frozen=True)
class MeasuredTreatment:
    """A treatment with values, and all its known levels."""

    treatment: TreatmentSummary
    levels: Mapping[str, Level]

    def levels_without(self, *factors: str) -> dict[str, Level]:
        """Return the levels of all other factors."""
        return {name: level for name, level in self.levels.items() if name not in factors}


@dataclass(frozen=True)
class TreatmentSelection:
    """Treatments of a campaign: all of them, or those that meet conditions."""

    summary: CampaignSummary
    treatments: tuple[MeasuredTreatment, ...]
    missing: str = ""
    """What the campaign lacks if the selection is empty, as a noun phrase."""

    @property
    def varying_factors(self) -> tuple[str, ...]:
        """Factors with different levels, in the treatments' order."""
        names = dict.fromkeys(name for each in self.treatments for name in each.levels)
        return tuple(n for n in names if len({each.levels.get(n) for each in self.treatments}) > 1)

    def keep_treatments_with_metrics(self, *metrics: str) -> TreatmentSelection:
        """Select the treatments that have all of these metrics."""
        selected = tuple(each for each in self.treatments if set(metrics) <= each.treatment.metrics.keys())
        names = " and ".join(metrics)
        return self._select(
            selected, f"treatments with the metric {names}" if self.treatments else self.missing
        )

    def keep_treatments_meeting(self, *conditions: LevelCondition) -> TreatmentSelection:
        """Select the treatments that meet all conditions."""
        selected = self.treatments
        for condition in conditions:
            before = selected
            selected = tuple(each for each in before if _meets_condition(each, condition))
            if before and not selected:
                phrases = [each.phrase for each in conditions[: conditions.index(condition) + 1]]
                return self._select((), f"treatments with {', '.join(phrases)}")
        return self._select(selected, self.missing)

    def groups_equal_in_other_factors(self, *factors: str) -> list[list[MeasuredTreatment]]:
        """Group treatments that differ in these factors only; groups have two or more treatments."""
        groups: dict[frozenset[tuple[str, Level]], list[MeasuredTreatment]] = {}
        for each in self.treatments:
            if any(factor in each.levels for factor in factors):
                groups.setdefault(frozenset(each.levels_without(*factors).items()), []).append(each)
        return [group for group in groups.values() if len(group) > 1]

    def groups_by_level_of_factor(self, factor: str) -> list[dict[Level, MeasuredTreatment]]:
        """Group treatments that differ in one factor only, each group by its levels."""
        return [
            {each.levels[factor]: each for each in group}
            for group in self.groups_equal_in_other_factors(factor)
        ]

    def _select(self, treatments: tuple[MeasuredTreatment, ...], missing: str) -> TreatmentSelection:
        return TreatmentSelection(self.summary, treatments, "" if treatments else missing)


@dataclass(frozen=True)
class TreatmentComparison:
    """Two treatments of one campaign and the ratio of their values."""

    base_treatment: MeasuredTreatment
    compared_treatment: MeasuredTreatment
    ratio: Ratio
    """Compared / base. Its p value is adjusted over all comparisons of the same part."""


def select_treatments(summary: CampaignSummary) -> TreatmentSelection:
    """Select all treatments of a campaign that have values."""
    treatments = tuple(
        MeasuredTreatment(
            treatment,
            {name: level for name, level in all_levels(summary, treatment).items() if level != UNSPECIFIED},
        )
        for treatment in summary.treatments
        if treatment.metrics
    )
    return TreatmentSelection(summary, treatments, "" if treatments else "a measured treatment")


def compare_pairs(
    summary: CampaignSummary,
    base_and_compared_pairs: Sequence[tuple[MeasuredTreatment, MeasuredTreatment]],
    metric: str,
) -> list[TreatmentComparison]:
    """Return compared / base for each pair of (base, compared).

    Ratios are over common blocks, or by ranks for imported trials, which have no blocks.
    """
    comparisons = [
        TreatmentComparison(base, compared, own)
        for base, compared in base_and_compared_pairs
        if (own := _pair_ratio(summary, base.treatment, compared.treatment, metric)) is not None
    ]
    adjusted = adjust_p_values([each.ratio for each in comparisons])
    return [
        TreatmentComparison(each.base_treatment, each.compared_treatment, own)
        for each, own in zip(comparisons, adjusted, strict=True)
    ]


def numeric_levels_with_treatments(
    levels: Mapping[Level, MeasuredTreatment],
) -> Iterator[tuple[float, MeasuredTreatment]]:
    """Yield the numeric levels in ascending order, with their treatments."""
    yield from sorted(
        ((level, each) for level, each in levels.items() if not isinstance(level, str)),
        key=lambda pair: pair[0],
    )


def level_is_one_of(factor: str, *levels: Level, phrase: str) -> LevelCondition:
    """Return the condition that the factor has one of these levels."""
    return LevelCondition(factor, lambda level: level in levels, phrase)


def level_is_between(factor: str, minimum: float, maximum: float, phrase: str) -> LevelCondition:
    """Return the condition that the factor's level is a number from `minimum` to `maximum`."""
    return LevelCondition(
        factor, lambda level: not isinstance(level, str) and minimum <= level <= maximum, phrase
    )


def _meets_condition(tested: MeasuredTreatment, condition: LevelCondition) -> bool:
    return condition.factor in tested.levels and condition.is_met(tested.levels[condition.factor])


def _pair_ratio(
    summary: CampaignSummary, base: TreatmentSummary, compared: TreatmentSummary, metric: str
) -> Ratio | None:
    confidence = summary.required_precision.confidence
    values = [values_by_block(treatment, metric) for treatment in (base, compared)]
    if any(value < 0 for own in values for value in own.values()) or not all(values):
        return None
    if summary.is_imported:
        return estimate_rank_ratio(list(values[0].values()), list(values[1].values()), confidence)
    pair = estimate_paired_ratio(*values)
    return None if pair is None else combine_paired_ratios([pair], confidence)
