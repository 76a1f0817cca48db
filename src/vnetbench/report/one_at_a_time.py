"""One-at-a-time studies shown as a campaign with a single factor: the change relative to the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.estimate.effects import estimate_effects
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.tables.columns import Column
from vnetbench.study.model import ALL_COMBINATIONS, ONE_AT_A_TIME, FactorLevels, Level
from vnetbench.wording.estimate_text import format_ratio_with_bracketed_interval
from vnetbench.wording.factor_text import CHANGE_FACTOR, TREATMENT_FACTOR, treatment_phrase

BASELINE_LEVEL = "baseline"
"""The level of the treatment that changes no factor."""
_MIN_FACTORS_OF_SPARSE_DESIGN = 3
"""Two factors fit on a chart even if most of their combinations are missing."""


def merge_sparse_design_into_one_factor(summary: CampaignSummary) -> CampaignSummary:
    """Return a one-at-a-time campaign with the single factor of `merge_varying_factors`.

    The first warning describes the baseline. Imported runs with a sparse design get a factor with one level
    per treatment. All other campaigns are returned unchanged.
    """
    if summary.is_imported and summary.represented_table is None and _is_sparse_design(summary):
        return _replace_factors_by_treatment_names(summary)
    if summary.level_combination_method != ONE_AT_A_TIME:
        return summary
    treatment_levels = [treatment.factors for treatment in summary.treatments]
    factors, merged_levels = merge_varying_factors(
        summary.level_combination_method, summary.factors, treatment_levels
    )
    baseline = {factor.name: factor.levels[0] for factor in summary.factors}
    note = f"Baseline: {treatment_phrase(baseline, _names_of_varying_factors(summary.factors))}"
    return replace(
        summary,
        level_combination_method=ALL_COMBINATIONS,
        factors=factors,
        treatments=tuple(
            replace(treatment, factors=levels)
            for treatment, levels in zip(summary.treatments, merged_levels, strict=True)
        ),
        warnings=(note, *summary.warnings),
    )


def merge_varying_factors(
    combine_mode: str, factors: Sequence[FactorLevels], treatments: Sequence[Mapping[str, Level]]
) -> tuple[tuple[FactorLevels, ...], list[Mapping[str, Level]]]:
    """Return factors and treatment levels with one factor `changed` in place of all varying factors.

    Effects, tables and charts then compare each treatment with the baseline. The input is returned
    unchanged for a study that combines all levels.
    """
    if combine_mode != ONE_AT_A_TIME:
        return tuple(factors), list(treatments)
    varying = _names_of_varying_factors(factors)
    merged = [_levels_with_change_factor(factors, varying, levels) for levels in treatments]
    changes = dict.fromkeys(levels[CHANGE_FACTOR] for levels in merged)
    changed = FactorLevels(
        CHANGE_FACTOR, (BASELINE_LEVEL, *(change for change in changes if change != BASELINE_LEVEL))
    )
    constant = [factor for factor in factors if factor.name not in varying]
    return (*constant, changed), merged


def baseline_ratio_column(summary: CampaignSummary) -> Column | None:
    """Return the ratios to the baseline; None for a campaign that has no baseline."""
    if all(factor.name != CHANGE_FACTOR for factor in summary.factors):
        return None
    ratios = {effect.level: effect.ratio for effect in estimate_effects(summary, summary.deciding_metric)}
    cells, sort_keys = [], []
    for treatment in summary.treatments:
        ratio = ratios.get(treatment.factors[CHANGE_FACTOR])
        if ratio is not None:
            cells.append((format_ratio_with_bracketed_interval(ratio),))
            sort_keys.append(ratio.value)
        elif treatment.factors[CHANGE_FACTOR] == BASELINE_LEVEL:
            cells.append(("1",))
            sort_keys.append(1.0)
        else:
            cells.append(("–",))
            sort_keys.append(-math.inf)
    return Column("gain", "Ratio to baseline", "", tuple(cells), True, tuple(sort_keys))


def _is_sparse_design(summary: CampaignSummary) -> bool:
    """Return whether most combinations of the levels of several factors are missing."""
    varying = [factor for factor in summary.factors if len(factor.levels) > 1]
    combinations = math.prod(len(factor.levels) for factor in varying)
    return len(varying) >= _MIN_FACTORS_OF_SPARSE_DESIGN and 2 * len(summary.treatments) < combinations


def _replace_factors_by_treatment_names(summary: CampaignSummary) -> CampaignSummary:
    """Return the campaign with one factor whose levels are the names of the treatments."""
    varying = _names_of_varying_factors(summary.factors)
    constant = tuple(factor for factor in summary.factors if factor.name not in varying)
    constant_levels = {factor.name: factor.levels[0] for factor in constant}
    names = [treatment_phrase(treatment.factors, varying) for treatment in summary.treatments]
    return replace(
        summary,
        factors=(*constant, FactorLevels(TREATMENT_FACTOR, tuple(names))),
        treatments=tuple(
            replace(treatment, factors={**constant_levels, TREATMENT_FACTOR: name})
            for treatment, name in zip(summary.treatments, names, strict=True)
        ),
    )


def _names_of_varying_factors(factors: Sequence[FactorLevels]) -> list[str]:
    return [factor.name for factor in factors if len(factor.levels) > 1]


def _levels_with_change_factor(
    factors: Sequence[FactorLevels], varying: Sequence[str], levels: Mapping[str, Level]
) -> Mapping[str, Level]:
    """Return the constant levels and, as the level of `changed`, what differs from the baseline."""
    changed = [
        factor.name
        for factor in factors
        if factor.name in varying and levels[factor.name] != factor.levels[0]
    ]
    constant = {name: level for name, level in levels.items() if name not in varying}
    return {**constant, CHANGE_FACTOR: treatment_phrase(levels, changed) if changed else BASELINE_LEVEL}
