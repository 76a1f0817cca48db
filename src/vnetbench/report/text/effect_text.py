"""Sentences about effects: the ratio between two levels of a factor, with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from vnetbench.estimate.effects import estimate_effects
from vnetbench.estimate.model import Effect, Ratio
from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.quantity import format_exact_share, format_interval
from vnetbench.report.charts.factor_layout import lay_out_factors
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import format_ratio_with_bracketed_interval, metric_noun
from vnetbench.wording.factor_text import (
    CHANGE_FACTOR,
    TREATMENT_FACTOR,
    factor_noun,
    factor_title,
    level_phrase,
)

_NO_DIFFERENCE_TEXT = "no significant difference"


def choose_headline_effect(summary: CampaignSummary) -> Effect | None:
    """Return the effect that answers the study's question; None for a study without effects.

    A factor with two levels comes first, in the order of the charts: lines, x axis, panels. Otherwise it is
    the largest effect, significant ones first.
    """
    effects = [
        each
        for each in _effects_of_all_factors(summary)
        if math.isfinite(each.ratio.value) and each.ratio.value
    ]
    for factor in _factors_in_chart_order(summary):
        if len(factor.levels) == 2 and factor.name != CHANGE_FACTOR:
            for effect in effects:
                if effect.factor == factor.name:
                    return effect
    return max(
        effects,
        key=lambda each: (
            _higher_or_lower_verdict(each.ratio) in ("higher", "lower"),
            abs(math.log(each.ratio.value)),
        ),
        default=None,
    )


def effect_sentence(effect: Effect, metric: str) -> str:
    """Return what a change of level does to the metric, with the interval of the ratio."""
    noun, note = metric_noun(metric), _interval_note(effect.ratio)
    level, base = level_phrase(effect.factor, effect.level), level_phrase(effect.factor, effect.base_level)
    pairs = ""
    if effect.pair_count > 1:
        pair_range = _pair_ratio_range_text(effect)
        pairs = f" The ratio is the mean of {effect.pair_count} pairs of treatments{pair_range}."
    if effect.factor == CHANGE_FACTOR:
        base = "the baseline"
    value = _ratio_number_text(effect.ratio)
    if _higher_or_lower_verdict(effect.ratio) == _NO_DIFFERENCE_TEXT:
        return f"No significant difference in {noun} between {level} and {base} (×{value}, {note}).{pairs}"
    return f"{noun} is {value} times as high with {level} as with {base} ({note}).{pairs}"


def effect_sentences(summary: CampaignSummary, excluded: Effect | None = None) -> Iterator[str]:
    """Yield the effects of each factor, without those of a two-level factor that `excluded` already covers.

    Imported runs that differ in several factors at once have no effects: no difference between them is
    the effect of one factor.
    """
    effects = _effects_of_all_factors(summary)
    for factor in summary.factors:
        factor_effects = [each for each in effects if each.factor == factor.name]
        if factor.name == CHANGE_FACTOR or len(factor_effects) == 1:
            for effect in factor_effects:
                if effect != excluded:
                    yield effect_sentence(effect, summary.deciding_metric)
        elif factor_effects:
            yield _multi_level_sentence(factor_effects, metric_noun(summary.deciding_metric))


def conditional_effect_sentences(summary: CampaignSummary) -> Iterator[str]:
    """Yield the effect of one two-level factor at each level of every other plotted factor."""
    factors = _factors_in_chart_order(summary)
    factor = next((factor for factor in factors if len(factor.levels) == 2), None)
    if factor is None or lay_out_factors(summary).heat_map_y_factor is not None:
        return
    for other in factors:
        if other is factor:
            continue
        ratios = _effect_ratios_by_level_of_other_factor(summary, factor, other)
        if any(ratio.p_value is not None for _, ratio in ratios):
            yield _conditional_effect_sentence(factor, other, ratios)


def _effects_of_all_factors(summary: CampaignSummary) -> list[Effect]:
    effects = estimate_effects(summary, summary.deciding_metric)
    return [each for each in effects if each.factor != TREATMENT_FACTOR]


def _factors_in_chart_order(summary: CampaignSummary) -> list[FactorLevels]:
    """Return the varying factors in the order lines, x axis, panels."""
    layout = lay_out_factors(summary)
    candidates = (layout.colour_factor, layout.x_factor, *layout.panel_factors)
    return [factor for factor in candidates if factor is not None]


def is_adjusted_p_value_significant(ratio: Ratio) -> bool:
    """Return whether the adjusted p value shows a difference."""
    return _higher_or_lower_verdict(ratio) in ("higher", "lower")


def _higher_or_lower_verdict(ratio: Ratio) -> str:
    """Return the verdict from the adjusted p value."""
    if ratio.p_value is None:
        return "too few trials to decide"
    if not ratio.has_significant_p_value:
        return _NO_DIFFERENCE_TEXT
    return "higher" if ratio.value > 1 else "lower"


def _ratio_number_text(ratio: Ratio) -> str:
    return format_interval(ratio.value, ratio.low, ratio.high, "1").value


def _interval_note(ratio: Ratio) -> str:
    """Return `95 % interval 1.38 to 1.46`, or why there is no interval."""
    interval = format_interval(ratio.value, ratio.low, ratio.high, "1").interval
    if interval:
        low, high = interval.strip("[]").split(", ")
        return f"{format_exact_share(ratio.confidence)} interval {low} to {high}"
    if ratio.value in (0, math.inf):
        return "no interval, because a value is 0"
    return "no interval, because there are too few trials"


def _pair_ratio_range_text(effect: Effect) -> str:
    ratios = (effect.min_pair_ratio, effect.max_pair_ratio)
    low, high = (format_interval(each, None, None, "1").text for each in ratios)
    return f", each ×{low}" if low == high else f", which range from ×{low} to ×{high}"


def _multi_level_sentence(effects: Sequence[Effect], noun: str) -> str:
    name = effects[0].factor
    levels = []
    for effect in effects:
        note = (
            f" ({_NO_DIFFERENCE_TEXT})"
            if _higher_or_lower_verdict(effect.ratio) == _NO_DIFFERENCE_TEXT
            else ""
        )
        ratio = format_ratio_with_bracketed_interval(effect.ratio)
        levels.append(f"×{ratio} with {level_phrase(name, effect.level)}{note}")
    base = level_phrase(name, effects[0].base_level)
    pair_count = max(effect.pair_count for effect in effects)
    pairs = (
        f" Each ratio is the mean over up to {pair_count} pairs of treatments that differ only in "
        f"{factor_noun(name)}."
        if pair_count > 1
        else ""
    )
    return f"{factor_title(name)}: {noun} relative to {base} is {'; '.join(levels)}.{pairs}"


def _effect_ratios_by_level_of_other_factor(
    summary: CampaignSummary, factor: FactorLevels, other: FactorLevels
) -> list[tuple[str, Ratio]]:
    """Return the effect of `factor` at each level of `other`, with p values adjusted over these levels."""
    phrases, ratios = [], []
    for level in other.levels:
        treatments = tuple(t for t in summary.treatments if t.factors.get(other.name) == level)
        part = replace(summary, factors=(factor,), treatments=treatments)
        for effect in estimate_effects(part, summary.deciding_metric):
            phrases.append(level_phrase(other.name, level))
            ratios.append(effect.ratio)
    return list(zip(phrases, adjust_p_values(ratios), strict=True))


def _conditional_effect_sentence(
    factor: FactorLevels, other: FactorLevels, ratios: Sequence[tuple[str, Ratio]]
) -> str:
    base, level = (level_phrase(factor.name, level) for level in factor.levels)
    by_verdict: dict[str, list[str]] = {}
    for phrase, ratio in ratios:
        by_verdict.setdefault(_higher_or_lower_verdict(ratio), []).append(
            f"{phrase} ×{format_ratio_with_bracketed_interval(ratio)}"
        )
    verdicts = "; ".join(f"{verdict} with {', '.join(levels)}" for verdict, levels in by_verdict.items())
    return f"{level} compared with {base}, by {factor_noun(other.name)}: {verdicts}."
