"""The first sentence about a campaign: the effect that the study asks about, the knee, and the limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.model import Effect
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import ADVERB_BY_CONFIDENCE, INSTRUMENT_FAMILY
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME
from vnetbench.explain.model import (
    DELIVERED_LOAD_CLAUSE,
    DELIVERED_LOAD_KEY,
    REFUTED,
    SHORT_CAUSE_PHRASE_KEY,
    Explanation,
    Finding,
)
from vnetbench.quantity import format_interval
from vnetbench.report.text.effect_text import is_adjusted_p_value_significant
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.model import Level
from vnetbench.wording.estimate_text import metric_noun
from vnetbench.wording.factor_text import CHANGE_FACTOR, capitalize_sentence, level_phrase, level_text


@dataclass(frozen=True)
class FirstSentence:
    """The sentence, and whether it names the limit of most treatments."""

    text: str
    names_main_limit: bool


@dataclass(frozen=True)
class _Knee:
    """The level of a count factor from which on higher levels bring nothing, in all curves."""

    factor: str
    level: Level
    treatment_indices: frozenset[int]
    """Treatments at this level and beyond."""


def build_first_sentence(
    summary: CampaignSummary, effect: Effect | None, explanation: Explanation, value_sentence: str
) -> FirstSentence:
    """Return the sentence that answers the study's question.

    Args:
        summary: The campaign.
        effect: The effect that the study asks about; None for a study without effects.
        explanation: The findings with the knee and the limits.
        value_sentence: The result of a study without effects.
    """
    knee = _find_count_knee(summary, explanation.findings)
    clauses = [effect_clause(summary, effect) if effect else value_sentence.removesuffix(".")]
    if effect and knee:
        clauses.append(f"from {level_phrase(knee.factor, knee.level)} on, more brings nothing")
    text = capitalize_sentence("; ".join(clauses))
    limits = [each for each in explanation.findings if "cause" in each.details and _is_limit_finding(each)]
    if not explanation.is_limit_answered or not limits or ". " in text:
        return FirstSentence(f"{text}.", names_main_limit=False)
    holding = _limit_of_treatments(limits, knee.treatment_indices if effect and knee else None)
    reason = _limit_clause(holding) if holding else ""
    if not reason:
        return FirstSentence(f"{text}.", names_main_limit=False)
    # Only one colon in a sentence: some descriptions of causes have one.
    separator = "; " if ":" in reason or (effect and not knee) else ": "
    return FirstSentence(f"{text}{separator}{reason}.", names_main_limit=holding is limits[0])


def effect_clause(summary: CampaignSummary, effect: Effect) -> str:
    """Return what a change of level does: `MTU 9000 instead of 1500 makes no significant difference: ×…`."""
    level, base = level_phrase(effect.factor, effect.level), _base_level_phrase(effect)
    noun, value = metric_noun(summary.deciding_metric), _ratio_text(effect)
    change = f"{level} instead of {base}"
    if effect.ratio.p_value is None:
        return f"{change} multiplies {noun} by {value}"
    if not is_adjusted_p_value_significant(effect.ratio):
        return f"{change} makes no significant difference in {noun} here: ×{value}"
    if _is_within_precision(summary, effect):
        return f"{change} makes little difference in {noun} here: ×{value}"
    return f"{change} multiplies {noun} by {value}"


def _base_level_phrase(effect: Effect) -> str:
    """Return the level before the change, without a repeated noun: `1500` after `MTU 9000`."""
    if effect.factor == CHANGE_FACTOR:
        return "the baseline"
    before = level_phrase(effect.factor, effect.base_level)
    own_text, base_text = (level_text(effect.factor, each) for each in (effect.level, effect.base_level))
    noun = before.removesuffix(base_text)
    is_repeated = noun and level_phrase(effect.factor, effect.level) == f"{noun}{own_text}"
    return base_text if is_repeated else before


def _ratio_text(effect: Effect) -> str:
    """Return the ratio with its interval in parentheses: `0.98 (0.95 to 1.02)`."""
    ratio = effect.ratio
    text = format_interval(ratio.value, ratio.low, ratio.high, "1")
    if not text.interval:
        reason = "a value is 0" if ratio.value == 0 else "too few trials"
        return f"{text.value} (no interval: {reason})"
    low, high = text.interval.strip("[]").split(", ")
    return f"{text.value} ({low} to {high})"


def _is_within_precision(summary: CampaignSummary, effect: Effect) -> bool:
    """Return whether the whole interval differs from 1 by less than the study's half-width."""
    margin, ratio = summary.required_precision.half_width, effect.ratio
    return (
        ratio.low is not None and ratio.high is not None and 1 - margin < ratio.low <= ratio.high < 1 + margin
    )


def _find_count_knee(summary: CampaignSummary, findings: Sequence[Finding]) -> _Knee | None:
    """Return the knee that holds for all curves of a count factor; None without one."""
    by_index = {each.index: each for each in summary.treatments}
    for finding in findings:
        factor, curves = str(finding.details.get("factor")), finding.details.get("curves")
        is_count = factor in FACTORS and bool(FACTORS[factor].counted_noun)
        if finding.kind != "knee" or not is_count or not isinstance(curves, list):
            continue
        if not all(curve["is_shown"] for curve in curves):
            continue
        knee_level = max(curve["knee"] for curve in curves)
        levels: Mapping[int, Level] = {
            index: by_index[index].factors[factor] for curve in curves for index in curve["treatments"]
        }
        beyond = {index for index, level in levels.items() if float(level) >= knee_level}
        level = next(level for level in levels.values() if float(level) == knee_level)
        return _Knee(factor, level, frozenset(beyond))
    return None


def _is_limit_finding(finding: Finding) -> bool:
    return finding.kind in ("limit", "not explained", "instrument") and "representative" in finding.details


def _limit_of_treatments(limits: Sequence[Finding], indices: Collection[int] | None) -> Finding | None:
    """Return the limit of all these treatments, or of all measured ones; None if they have several."""
    measured = {index for each in limits for index in each.treatment_indices}
    wanted = measured if indices is None else measured & set(indices)
    return next((each for each in limits if wanted and wanted <= set(each.treatment_indices)), None)


def _limit_clause(finding: Finding) -> str:
    """Return the limit as a clause: `probably both CPUs are full`; empty if it is unknown."""
    if finding.details["cause"] == NO_LIMIT_CAUSE_NAME:
        return DELIVERED_LOAD_CLAUSE
    first = next((each for each in finding.candidates if each.confidence != REFUTED), None)
    if first is None:
        return ""
    phrase = finding.details[SHORT_CAUSE_PHRASE_KEY]
    adverb = ADVERB_BY_CONFIDENCE[first.confidence]
    prefix = "the bench, not the network, is the limit: " if first.cause.family == INSTRUMENT_FAMILY else ""
    if finding.details.get(DELIVERED_LOAD_KEY):
        return f"{DELIVERED_LOAD_CLAUSE}, but {adverb}with a fault: {phrase}"
    return f"{adverb}{prefix}{phrase}"
