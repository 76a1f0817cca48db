"""Which factors matter and how much: effects and interactions over the whole matrix, judged together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.effects import estimate_effects
from vnetbench.estimate.model import Effect, Ratio
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.cell_means import cells_of
from vnetbench.explain.comparisons.interactions import Interaction, interactions
from vnetbench.explain.comparisons.variance_shares import Share, Shares, shares_of
from vnetbench.explain.comparisons.words import ends_of, percent, times
from vnetbench.explain.model import Finding, EvidenceChart
from vnetbench.study.model import ONE_AT_A_TIME
from vnetbench.wording.estimate_text import finite_or_none, noun_of
from vnetbench.wording.factor_text import capitalised, counted, factor_noun, level_phrase

_MOST_DRAWN = 12
_SMALL_SHARE = 0.005
"""An interaction that accounts for less is not spoken of."""


@dataclass(frozen=True)
class Matter:
    """All that is known of what factors do; p values are adjusted over effects and interactions together."""

    effects: tuple[Effect, ...]
    interactions: tuple[Interaction, ...]
    shares: Shares | None


def what_matters(summary: CampaignSummary) -> Matter:
    """Effects, interactions and shares of the deciding metric, of treatments with blocks enough in common."""
    metric = summary.main_metric
    mains = estimate_effects(summary, metric, adjusts_p_values=False)
    pairs = interactions(summary, metric)
    ratios = adjust_p_values([*(each.ratio for each in mains), *(each.ratio for each in pairs)])
    one_change = summary.combine == ONE_AT_A_TIME
    cells = () if one_change else cells_of(summary, metric)
    names = [factor.name for factor in summary.factors]
    return Matter(
        effects=tuple(replace(e, ratio=r) for e, r in zip(mains, ratios[: len(mains)], strict=True)),
        interactions=tuple(replace(i, ratio=r) for i, r in zip(pairs, ratios[len(mains) :], strict=True)),
        shares=shares_of(cells, names, summary.precision.confidence) if len(cells) > 2 else None,
    )


def findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """One finding on the factors; none where nothing was varied or nothing has an interval."""
    found = what_matters(summary)
    judged = [effect for effect in found.effects if effect.ratio.p_value is not None]
    if not judged:
        return ()
    says = " ".join(capitalised(each) for each in _sentences(summary, found, judged))
    return (Finding("factors", says, chart=_picture(summary, found), details=_details(summary, found)),)


def _sentences(summary: CampaignSummary, found: Matter, judged: Sequence[Effect]) -> Iterator[str]:
    shown = [effect for effect in judged if _is_shown(effect.ratio)]
    strongest = {
        name: max((e for e in shown if e.factor == name), key=lambda e: abs(_log(e.ratio)))
        for name in dict.fromkeys(effect.factor for effect in shown)
    }
    noun = noun_of(summary.main_metric)
    for place, effect in enumerate(_ranked(strongest, found.shares)):
        change = f"{level_phrase(effect.factor, effect.level)} instead of"
        of_all = _share_text(found.shares, (effect.factor,))
        matters = "matters most" if place == 0 and len(strongest) > 1 else "matters"
        yield (
            f"{factor_noun(effect.factor)} {matters}{of_all}: {change} "
            f"{level_phrase(effect.factor, effect.base_level)} multiplies {noun} by {times(effect.ratio)}"
            f"{_at_others(effect)}."
        )
    quiet = [name for name in dict.fromkeys(e.factor for e in judged) if name not in strongest]
    if quiet:
        yield f"no effect is shown of {_and([factor_noun(name) for name in quiet])}."
    yield from _on_each_other(found)
    yield from _doubts(summary, found)


def _ranked(strongest: Mapping[str, Effect], shares: Shares | None) -> list[Effect]:
    def weight(effect: Effect) -> tuple[float, float]:
        share = shares.terms.get((effect.factor,)) if shares else None
        return (share.value if share else 0.0, abs(_log(effect.ratio)))

    return sorted(strongest.values(), key=weight, reverse=True)


def _share_text(shares: Shares | None, term: tuple[str, ...]) -> str:
    share = shares.terms.get(term) if shares else None
    if share is None:
        return ""
    return f", {percent(share.value, share.low, share.high)} of the differences between treatments"


def _at_others(effect: Effect) -> str:
    """How far the effect depends on the other factors' levels, as the pairs have it."""
    if effect.pair_count == 1:
        return ""
    return f" ({effect.smallest_ratio:.3g} to {effect.largest_ratio:.3g} in {effect.pair_count} pairs otherwise alike)"


def _on_each_other(found: Matter) -> Iterator[str]:
    """The strongest interaction that is shown of each two factors."""
    shown = [each for each in found.interactions if _is_shown(each.ratio)]
    for factors in dict.fromkeys(each.factors for each in shown):
        share = found.shares.terms.get(factors) if found.shares else None
        if share is not None and share.value < _SMALL_SHARE:
            continue
        most = max((e for e in shown if e.factors == factors), key=lambda e: abs(_log(e.ratio)))
        (one, other), (base, other_base), (level, other_level) = most.factors, most.bases, most.levels
        yield (
            f"{factor_noun(one)} and {factor_noun(other)} act on each other"
            f"{_share_text(found.shares, factors)}: with {level_phrase(other, other_level)} instead of "
            f"{level_phrase(other, other_base)}, {level_phrase(one, level)} instead of "
            f"{level_phrase(one, base)} does {times(most.ratio)} times as much."
        )


def _doubts(summary: CampaignSummary, found: Matter) -> Iterator[str]:
    if summary.combine == ONE_AT_A_TIME:
        yield "One thing was changed at a time, so each effect holds beside the first levels of the others."
    left_out = max((effect.excluded_pairs for effect in found.effects), default=0)
    if left_out:
        yield (
            f"Up to {counted(left_out, 'pair')} of treatments that an effect might rest on are missing from "
            "it: refused, failed, without any traffic or in too few blocks."
        )
    unknown = [name for name, e in _by_factor(found).items() if all(each.ratio.p_value is None for each in e)]
    if unknown:
        yield f"Too few trials to tell what {_and([factor_noun(name) for name in unknown])} does."


def _by_factor(found: Matter) -> dict[str, list[Effect]]:
    by_factor: dict[str, list[Effect]] = {}
    for effect in found.effects:
        by_factor.setdefault(effect.factor, []).append(effect)
    return by_factor


def _picture(summary: CampaignSummary, found: Matter) -> EvidenceChart:
    drawn: list[tuple[str, Ratio, str]] = [
        (f"{level_phrase(e.factor, e.level)} / {level_phrase(e.factor, e.base_level)}", e.ratio, "effect")
        for e in found.effects
    ]
    drawn += [
        (
            f"{level_phrase(i.factors[0], i.levels[0])} × {level_phrase(i.factors[1], i.levels[1])}",
            i.ratio,
            "interaction",
        )
        for i in found.interactions
        if _is_shown(i.ratio)
    ]
    drawn.sort(key=lambda each: -abs(_log(each[1])))
    return EvidenceChart(
        chart_type="effects",
        title="What each change does",
        x_label="",
        y_label=f"{noun_of(summary.main_metric)}, times",
        rows=tuple(
            {"x": label, "y": ratio.value, "series": series, **ends_of(ratio)}
            for label, ratio, series in drawn[:_MOST_DRAWN]
            if finite_or_none(ratio.value) is not None
        ),
    )


def _details(summary: CampaignSummary, found: Matter) -> dict[str, object]:
    return {
        "metric": summary.main_metric,
        "effects": [
            {"factor": e.factor, "base": e.base_level, "level": e.level, "pairs": e.pair_count, **_of_ratio(e.ratio)}
            for e in found.effects
        ],
        "interactions": [
            {
                "factors": list(i.factors),
                "bases": list(i.bases),
                "levels": list(i.levels),
                "sets": i.sets,
                **_of_ratio(i.ratio),
            }
            for i in found.interactions
        ],
        "shares": [
            {"factors": list(term), **_of_share(share)}
            for term, share in (found.shares.terms.items() if found.shares else ())
        ],
        "chance": found.shares.chance if found.shares else None,
    }


def _of_ratio(ratio: Ratio) -> dict[str, object]:
    return {"ratio": finite_or_none(ratio.value), "low": ratio.low, "high": ratio.high, "p": ratio.p_value}


def _of_share(share: Share) -> dict[str, object]:
    return {"share": share.value, "low": share.low, "high": share.high}


def _is_shown(ratio: Ratio) -> bool:
    return ratio.p_value is not None and ratio.p_value <= 1 - ratio.confidence + 1e-12


def _log(ratio: Ratio) -> float:
    return math.log(ratio.value) if 0 < ratio.value < math.inf else math.inf


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
