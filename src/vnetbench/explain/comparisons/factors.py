"""Find the factors that matter: effects, interactions and shares over all treatments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.effects import estimate_effects
from vnetbench.estimate.model import Effect, Ratio
from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.cell_means import estimate_cell_means
from vnetbench.explain.comparisons.interactions import Interaction, estimate_interactions
from vnetbench.explain.comparisons.variance_shares import VarianceShares, estimate_variance_shares
from vnetbench.explain.model import EvidenceChart, Finding
from vnetbench.explain.phrases import (
    format_ratio_with_interval,
    format_share_with_interval,
    ratio_interval_fields,
)
from vnetbench.quantity import format_count_with_noun
from vnetbench.study.model import ONE_AT_A_TIME
from vnetbench.wording.estimate_text import finite_or_none, metric_noun
from vnetbench.wording.factor_text import capitalize_sentence, factor_noun, level_phrase

_MAX_CHART_ROWS = 12
_MIN_INTERACTION_SHARE_TO_MENTION = 0.005
"""Smallest share of the variance at which the finding mentions an interaction."""


@dataclass(frozen=True)
class FactorAnalysis:
    """Effects of all factors. P values are adjusted over effects and interactions together."""

    effects: tuple[Effect, ...]
    interactions: tuple[Interaction, ...]
    variance_shares: VarianceShares | None


def analyze_factors(summary: CampaignSummary) -> FactorAnalysis:
    """Estimate effects, interactions and shares of the deciding metric from treatments with common blocks."""
    metric = summary.deciding_metric
    effects = estimate_effects(summary, metric, adjusts_p_values=False)
    interactions = estimate_interactions(summary, metric)
    ratios = adjust_p_values([*(each.ratio for each in effects), *(each.ratio for each in interactions)])
    effect_ratios, interaction_ratios = ratios[: len(effects)], ratios[len(effects) :]
    cells = () if summary.level_combination_method == ONE_AT_A_TIME else estimate_cell_means(summary, metric)
    names = [factor.name for factor in summary.factors]
    return FactorAnalysis(
        effects=tuple(replace(e, ratio=r) for e, r in zip(effects, effect_ratios, strict=True)),
        interactions=tuple(
            replace(i, ratio=r) for i, r in zip(interactions, interaction_ratios, strict=True)
        ),
        variance_shares=estimate_variance_shares(cells, names, summary.required_precision.confidence)
        if len(cells) > 2
        else None,
    )


def factor_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return one finding about the factors; none if no effect has a p value."""
    analysis = analyze_factors(summary)
    tested = [effect for effect in analysis.effects if effect.ratio.p_value is not None]
    if not tested:
        return ()
    text = " ".join(capitalize_sentence(each) for each in _effect_sentences(summary, analysis, tested))
    return (
        Finding(
            "factors",
            text,
            chart=_effect_ratio_chart(summary, analysis),
            details=_finding_details(summary, analysis),
        ),
    )


def _effect_sentences(
    summary: CampaignSummary, analysis: FactorAnalysis, tested: Sequence[Effect]
) -> Iterator[str]:
    significant = [effect for effect in tested if effect.ratio.has_significant_p_value]
    strongest = {
        name: max(
            (e for e in significant if e.factor == name), key=lambda e: abs(_log_ratio_or_infinity(e.ratio))
        )
        for name in dict.fromkeys(effect.factor for effect in significant)
    }
    noun = metric_noun(summary.deciding_metric)
    for rank, effect in enumerate(_sort_effects_by_importance(strongest, analysis.variance_shares)):
        if rank > 0:
            subject = "Another factor with an effect"
        else:
            subject = "The most important factor" if len(strongest) > 1 else "The only factor with an effect"
        yield f"{subject} is {factor_noun(effect.factor)}."
        yield from _variance_share_sentence(analysis.variance_shares, (effect.factor,), "It explains")
        levels = f"{level_phrase(effect.factor, effect.level)} instead of "
        levels += level_phrase(effect.factor, effect.base_level)
        ratio = format_ratio_with_interval(effect.ratio)
        yield f"{levels} multiplies {noun} by {ratio}{_pair_ratio_range_clause(effect)}."
    without_effect = [name for name in dict.fromkeys(e.factor for e in tested) if name not in strongest]
    if without_effect:
        names = _join_with_and([factor_noun(name) for name in without_effect])
        yield f"There is no significant effect of {names}."
    yield from _interaction_sentences(analysis)
    yield from _caveat_sentences(summary, analysis)


def _sort_effects_by_importance(
    strongest_by_factor: Mapping[str, Effect], shares: VarianceShares | None
) -> list[Effect]:
    """Order effects by their factors' share of the variance, then by size."""

    def importance(effect: Effect) -> tuple[float, float]:
        share = shares.terms.get((effect.factor,)) if shares else None
        return (share.value if share else 0.0, abs(_log_ratio_or_infinity(effect.ratio)))

    return sorted(strongest_by_factor.values(), key=importance, reverse=True)


def _variance_share_sentence(
    shares: VarianceShares | None, term: tuple[str, ...], subject_and_verb: str
) -> Iterator[str]:
    share = shares.terms.get(term) if shares else None
    if share is not None:
        percent = format_share_with_interval(share.value, share.low, share.high)
        yield f"{subject_and_verb} {percent} of the variance between treatments."


def _pair_ratio_range_clause(effect: Effect) -> str:
    """Return the effect's range over all pairs, which shows its dependence on other factors."""
    if effect.pair_count == 1:
        return ""
    return (
        f" ({effect.min_pair_ratio:.3g} to {effect.max_pair_ratio:.3g} "
        f"over {effect.pair_count} pairs of treatments)"
    )


def _interaction_sentences(analysis: FactorAnalysis) -> Iterator[str]:
    """Describe the strongest significant interaction of each two factors."""
    significant = [each for each in analysis.interactions if each.ratio.has_significant_p_value]
    for factors in dict.fromkeys(each.factors for each in significant):
        share = analysis.variance_shares.terms.get(factors) if analysis.variance_shares else None
        if share is not None and share.value < _MIN_INTERACTION_SHARE_TO_MENTION:
            continue
        candidates = (each for each in significant if each.factors == factors)
        strongest = max(candidates, key=lambda each: abs(_log_ratio_or_infinity(each.ratio)))
        (one, other), (base, other_base) = strongest.factors, strongest.bases
        level, other_level = strongest.levels
        yield f"{factor_noun(one)} and {factor_noun(other)} interact."
        yield from _variance_share_sentence(analysis.variance_shares, factors, "Their interaction explains")
        yield (
            f"With {level_phrase(other, other_level)} instead of {level_phrase(other, other_base)}, "
            f"the effect of {level_phrase(one, level)} instead of {level_phrase(one, base)} is multiplied by "
            f"{format_ratio_with_interval(strongest.ratio)}."
        )


def _caveat_sentences(summary: CampaignSummary, analysis: FactorAnalysis) -> Iterator[str]:
    if summary.level_combination_method == ONE_AT_A_TIME:
        yield (
            "The study changes one factor at a time, so each effect applies to the first levels of all other "
            "factors."
        )
    excluded = max((effect.excluded_pair_count for effect in analysis.effects), default=0)
    if excluded:
        yield (
            f"An effect excludes up to {format_count_with_noun(excluded, 'pair')} of treatments in which a "
            "treatment was "
            "refused, failed, had no traffic or ran in too few blocks."
        )
    by_factor: dict[str, list[Effect]] = {}
    for effect in analysis.effects:
        by_factor.setdefault(effect.factor, []).append(effect)
    untested = [name for name, own in by_factor.items() if all(each.ratio.p_value is None for each in own)]
    if untested:
        yield f"Too few trials to test {_join_with_and([factor_noun(name) for name in untested])}."


def _effect_ratio_chart(summary: CampaignSummary, analysis: FactorAnalysis) -> EvidenceChart:
    rows: list[tuple[str, Ratio, str]] = [
        (f"{level_phrase(e.factor, e.level)} / {level_phrase(e.factor, e.base_level)}", e.ratio, "effect")
        for e in analysis.effects
    ]
    rows += [
        (
            f"{level_phrase(i.factors[0], i.levels[0])} × {level_phrase(i.factors[1], i.levels[1])}",
            i.ratio,
            "interaction",
        )
        for i in analysis.interactions
        if i.ratio.has_significant_p_value
    ]
    rows.sort(key=lambda row: -abs(_log_ratio_or_infinity(row[1])))
    return EvidenceChart(
        chart_type="effects",
        title="Effect of each change",
        x_label="",
        y_label=f"{metric_noun(summary.deciding_metric)}, times",
        rows=tuple(
            {"x": label, "y": ratio.value, "series": series, **ratio_interval_fields(ratio)}
            for label, ratio, series in rows[:_MAX_CHART_ROWS]
            if finite_or_none(ratio.value) is not None
        ),
    )


def _finding_details(summary: CampaignSummary, analysis: FactorAnalysis) -> dict[str, object]:
    return {
        "metric": summary.deciding_metric,
        "effects": [
            {
                "factor": e.factor,
                "base": e.base_level,
                "level": e.level,
                "pairs": e.pair_count,
                **_ratio_fields(e.ratio),
            }
            for e in analysis.effects
        ],
        "interactions": [
            {
                "factors": list(i.factors),
                "bases": list(i.bases),
                "levels": list(i.levels),
                "sets": i.treatment_set_count,
                **_ratio_fields(i.ratio),
            }
            for i in analysis.interactions
        ],
        "shares": [
            {"factors": list(term), "share": share.value, "low": share.low, "high": share.high}
            for term, share in (analysis.variance_shares.terms.items() if analysis.variance_shares else ())
        ],
        "error_share": analysis.variance_shares.error_share if analysis.variance_shares else None,
    }


def _ratio_fields(ratio: Ratio) -> dict[str, object]:
    return {"ratio": finite_or_none(ratio.value), "low": ratio.low, "high": ratio.high, "p": ratio.p_value}


def _log_ratio_or_infinity(ratio: Ratio) -> float:
    return math.log(ratio.value) if 0 < ratio.value < math.inf else math.inf


def _join_with_and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
