"""Treatments of one change at a time, told by what each changes, and what each gains over nothing changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.estimate.effects import estimate_effects
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.tables.columns import Column
from vnetbench.study.model import ALL_COMBINATIONS, ONE_AT_A_TIME, FactorLevels, Level
from vnetbench.wording.estimate_text import format_short_ratio
from vnetbench.wording.factor_text import CHANGE_FACTOR, TREATMENT_FACTOR, treatment_phrase

BASELINE = "nothing changed"
_MIN_SPARSE_FACTORS = 3
"""Factors; two of them make a chart however few of their combinations there are."""


def to_single_factor(summary: CampaignSummary) -> CampaignSummary:
    """The campaign as `told_by_change`, with the base in its notes; one of another kind as it is.

    Imported runs that differ in many ways at once make no design either: they have one factor, their names.
    """
    if summary.is_imported and summary.reference is None and _is_sparse_design(summary):
        return _to_named_treatments(summary)
    if summary.combine != ONE_AT_A_TIME:
        return summary
    factors, levels = merge_varying_factors(
        summary.combine, summary.factors, [each.factors for each in summary.treatments]
    )
    base = {factor.name: factor.levels[0] for factor in summary.factors}
    note = f"With nothing changed: {treatment_phrase(base, _varying_names(summary.factors))}"
    return replace(
        summary,
        combine=ALL_COMBINATIONS,
        factors=factors,
        treatments=tuple(
            replace(each, factors=of_it) for each, of_it in zip(summary.treatments, levels, strict=True)
        ),
        warnings=(note, *summary.warnings),
    )


def merge_varying_factors(
    combine: str, factors: Sequence[FactorLevels], treatments: Sequence[Mapping[str, Level]]
) -> tuple[tuple[FactorLevels, ...], list[Mapping[str, Level]]]:
    """Factors, and levels of each treatment, with one factor `changed` in place of all that vary.

    Its effects, tables and charts are then those of each treatment against the base. Where all levels are
    combined, what was given.
    """
    if combine != ONE_AT_A_TIME:
        return tuple(factors), list(treatments)
    varying = _varying_names(factors)
    told = [_changed_levels(factors, varying, each) for each in treatments]
    changes = dict.fromkeys(each[CHANGE_FACTOR] for each in told)
    constant = [factor for factor in factors if factor.name not in varying]
    changed = FactorLevels(CHANGE_FACTOR, (BASELINE, *(change for change in changes if change != BASELINE)))
    return (*constant, changed), told


def gain_column(summary: CampaignSummary) -> Column | None:
    """Of a campaign `by_change`: the ratio of the main metric to that of nothing changed; else None."""
    if all(factor.name != CHANGE_FACTOR for factor in summary.factors):
        return None
    gains = {effect.level: effect.ratio for effect in estimate_effects(summary, summary.main_metric)}
    cells, ranks = [], []
    for treatment in summary.treatments:
        ratio = gains.get(treatment.factors[CHANGE_FACTOR])
        is_base = treatment.factors[CHANGE_FACTOR] == BASELINE
        cells.append((format_short_ratio(ratio) if ratio else "1" if is_base else "–",))
        ranks.append(ratio.value if ratio else 1.0 if is_base else -math.inf)
    return Column("gain", "Against nothing changed", "times", tuple(cells), True, tuple(ranks))


def _is_sparse_design(summary: CampaignSummary) -> bool:
    """Whether most combinations of the levels of several factors are missing."""
    factors = [factor for factor in summary.factors if len(factor.levels) > 1]
    combinations = math.prod(len(factor.levels) for factor in factors)
    return len(factors) >= _MIN_SPARSE_FACTORS and 2 * len(summary.treatments) < combinations


def _to_named_treatments(summary: CampaignSummary) -> CampaignSummary:
    varying = _varying_names(summary.factors)
    constant = tuple(factor for factor in summary.factors if factor.name not in varying)
    same = {factor.name: factor.levels[0] for factor in constant}
    names = [treatment_phrase(each.factors, varying) for each in summary.treatments]
    return replace(
        summary,
        factors=(*constant, FactorLevels(TREATMENT_FACTOR, tuple(names))),
        treatments=tuple(
            replace(each, factors={**same, TREATMENT_FACTOR: name})
            for each, name in zip(summary.treatments, names, strict=True)
        ),
    )


def _varying_names(factors: Sequence[FactorLevels]) -> list[str]:
    return [factor.name for factor in factors if len(factor.levels) > 1]


def _changed_levels(
    factors: Sequence[FactorLevels], varying: Sequence[str], levels: Mapping[str, Level]
) -> Mapping[str, Level]:
    changed = [
        factor.name
        for factor in factors
        if factor.name in varying and levels[factor.name] != factor.levels[0]
    ]
    constant = {name: level for name, level in levels.items() if name not in varying}
    return {**constant, CHANGE_FACTOR: treatment_phrase(levels, changed) if changed else BASELINE}
