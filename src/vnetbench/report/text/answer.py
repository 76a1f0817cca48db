"""The answer to a study's question in words: what is best, what each factor does and where, how surely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.effects import find_best_treatment, estimate_effects
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import Effect, Ratio
from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_interval, format_share, format_value, choose_scale, format_exact_share
from vnetbench.report.charts.factor_layout import lay_out_factors
from vnetbench.report.tables.columns import UNMEASURED_STATES
from vnetbench.results.records import FINISHED
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import format_estimate, find_metric, metric_noun, format_ratio, metric_scale
from vnetbench.wording.factor_text import (
    CHANGE_FACTOR,
    TREATMENT_FACTOR,
    capitalize_sentence,
    pluralize,
    factor_label,
    factor_noun,
    level_phrase,
    level_text,
)
from vnetbench.wording.treatment_names import treatment_name

_CYCLE_COST_UNITS = {
    "cycles_per_byte": "A byte",
    "cycles_per_transaction": "A transaction",
    "cycles_per_datagram": "A datagram",
}
"""What of the load costs the host that many cycles."""
_IDLE, _LOADED, _INCREASE = "latency_idle_p50_us", "latency_p50_us", "latency_increase_p50_us"
_NO_DIFFERENCE = "no difference shown"
_MAX_NAMED_TREATMENTS = 4
"""So many treatments are named in a sentence; of more the number is given."""


@dataclass(frozen=True)
class Answer:
    """The question and what the campaign says to it, one sentence or two a string."""

    question: str
    best: tuple[str, ...]
    effects: tuple[str, ...]
    doubts: tuple[str, ...]
    """How sure it is, and what is not known."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it in reading order."""
        return (*self.best, *self.effects, *self.doubts)


def answer_question(summary: CampaignSummary) -> Answer:
    """What the estimates say; where they say nothing, that."""
    return Answer(
        question=summary.question or summary.title,
        best=_capitalise_all(_best_sentences(summary)),
        effects=_capitalise_all((*_effect_sentences(summary), *_conditional_effect_sentences(summary))),
        doubts=_capitalise_all(_caveat_sentences(summary)),
    )


def _capitalise_all(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(capitalize_sentence, found))


def _effect_verdict(ratio: Ratio) -> str:
    """`higher`, `lower`, `no difference shown` or `too few trials to tell`, by the adjusted p value."""
    if ratio.p_value is None:
        return "too few trials to tell"
    if ratio.p_value > 1 - ratio.confidence + 1e-12:
        return _NO_DIFFERENCE
    return "higher" if ratio.value > 1 else "lower"


def _latency_under_load_sentences(summary: CampaignSummary) -> Iterator[str]:
    """Where a load costs the requests beside it least and most, from what to what."""
    measured = [t for t in summary.treatments if {_INCREASE, _IDLE, _LOADED} <= t.metrics.keys()]
    ordered = sorted(measured, key=lambda treatment: treatment.metrics[_INCREASE].value)
    for treatment, which in zip(ordered[:1] + ordered[1:][-1:], ("least", "most"), strict=False):
        name = f" {which} with {treatment_name(summary, treatment)}" if len(ordered) > 1 else ""
        idle, loaded, added = (_estimate_text(summary, treatment, each) for each in (_IDLE, _LOADED, _INCREASE))
        yield f"under load the median latency grows{name}: by {added}, from {idle} to {loaded}."


def _best_sentences(summary: CampaignSummary) -> Iterator[str]:
    main = summary.main_metric
    found = find_best_treatment(summary, main)
    if found is None:
        trials = [point for treatment in summary.treatments for point in treatment.points]
        what = f"{metric_noun(main)} is known of no trial" if trials else "No treatment was measured"
        yield f"{what}, so there is no answer."
        return
    by_index = {treatment.index: treatment for treatment in summary.treatments}
    first = by_index[found.index]
    measured = [treatment for treatment in summary.treatments if main in treatment.metrics]
    noun = metric_noun(main)
    if len(measured) == 1:
        alone = "" if len(summary.treatments) == 1 else ", with the only treatment that was measured"
        verb = "falls into" if first.metrics[main].modes else "is"
        yield f"{noun} {verb} {_estimate_text(summary, first, main)}{alone}."
        yield from _latency_under_load_sentences(summary)
        return
    is_sure = first.metrics[main].low is not None
    top, rest = ("lowest", "higher") if is_lower_better(main) else ("highest", "lower")
    highest = (
        f"{noun} is {top} with" if is_sure else f"The {top} median of {noun}, of too few trials, is with"
    )
    yield f"{highest} {treatment_name(summary, first)}: {_estimate_text(summary, first, main)}."
    level_with = [index for index in found.tied_with if _p_value(found.ratios.get(index)) is not None]
    unknown = [index for index in found.tied_with if index not in level_with]
    if level_with:
        yield f"The best can't be told from {_list_treatments(summary, [by_index[index] for index in level_with])}."
    if unknown:
        named = _list_treatments(summary, [by_index[index] for index in unknown])
        yield f"Too few trials in common to compare the best with {named}."
    if not found.tied_with:
        yield f"Every other treatment that was measured is {rest}, beyond chance."
    yield from _latency_under_load_sentences(summary)
    for metric, what in _CYCLE_COST_UNITS.items():
        cheapest = find_best_treatment(summary, metric)
        if cheapest is None or by_index[cheapest.index].metrics[metric].low is None:
            continue
        treatment = by_index[cheapest.index]
        equals = (
            "" if not cheapest.tied_with else f" ({len(cheapest.tied_with)} more can't be told from it)"
        )
        yield (
            f"{what} costs the host least with {treatment_name(summary, treatment)}: "
            f"{_estimate_text(summary, treatment, metric)}{equals}."
        )


def _effect_sentences(summary: CampaignSummary) -> Iterator[str]:
    found = estimate_effects(summary, summary.main_metric)
    for factor in summary.factors:
        of_factor = [effect for effect in found if effect.factor == factor.name]
        if factor.name == TREATMENT_FACTOR:
            continue  # between runs that differ in many ways no difference is that of a factor
        if factor.name == CHANGE_FACTOR:
            yield from (_change_sentence(effect, metric_noun(summary.main_metric)) for effect in of_factor)
        elif of_factor:
            yield _effect_sentence(of_factor, metric_noun(summary.main_metric))


def _p_value(ratio: Ratio | None) -> float | None:
    return None if ratio is None else ratio.p_value


def _effect_sentence(found: Sequence[Effect], noun: str) -> str:
    name, pairs = found[0].factor, max(effect.pair_count for effect in found)
    alike = f", in {pairs} pairs of treatments that are otherwise alike" if pairs > 1 else ""
    base = level_phrase(name, found[0].base_level)
    if len(found) == 1:
        (effect,) = found
        times = format_ratio(effect.ratio)
        instead = f"{level_phrase(name, effect.level)} instead of {base}"
        each = f" (one by one: {_ratio_range_text(effect.smallest_ratio, effect.largest_ratio)})" if pairs > 1 else ""
        if _effect_verdict(effect.ratio) == _NO_DIFFERENCE:
            return f"{instead} makes no difference that is shown: {times} times{alike}{each}."
        if effect.ratio.p_value is None:
            return f"{instead}: {noun} times {times}{alike}{each}."
        return f"{instead} multiplies {noun} by {times}{alike}{each}."
    levels = "; ".join(
        f"{format_ratio(effect.ratio)} with {level_text(name, effect.level)}"
        + (f" ({_NO_DIFFERENCE})" if _effect_verdict(effect.ratio) == _NO_DIFFERENCE else "")
        for effect in found
    )
    return f"{factor_label(name)}: compared with {base}, {noun} is multiplied by {levels}{alike}."


def _change_sentence(effect: Effect, noun: str) -> str:
    change = level_phrase(effect.factor, effect.level)
    if _effect_verdict(effect.ratio) == _NO_DIFFERENCE:
        return f"{change}: no difference is shown, {noun} times {format_ratio(effect.ratio)}."
    return f"{change}: {noun} times {format_ratio(effect.ratio)}."


def _conditional_effect_sentences(summary: CampaignSummary) -> Iterator[str]:
    """Where a factor of two levels matters, that of the chart's lines before others: its effect by theirs."""
    layout = lay_out_factors(summary)
    drawn = [factor for factor in (layout.colour_factor, layout.x_factor, *layout.panel_factors) if factor is not None]
    factor = next((factor for factor in drawn if len(factor.levels) == 2), None)
    if factor is None or layout.heat_factor is not None:
        return
    for other in (other for other in drawn if other is not factor):
        sliced = _effects_by_level(summary, factor, other)
        if any(ratio.p_value is not None for _, ratio in sliced):
            yield _conditional_effect_sentence(factor, other, sliced)


def _effects_by_level(summary: CampaignSummary, factor: FactorLevels, other: FactorLevels) -> list[tuple[str, Ratio]]:
    """The effect of a factor of two levels at each level of another one, adjusted for being many."""
    found = []
    for level in other.levels:
        treatments = tuple(t for t in summary.treatments if t.factors.get(other.name) == level)
        part = replace(summary, factors=(factor,), treatments=treatments)
        found += [
            (level_phrase(other.name, level), effect.ratio) for effect in estimate_effects(part, summary.main_metric)
        ]
    ratios = adjust_p_values([ratio for _, ratio in found])
    return [(phrase, ratio) for (phrase, _), ratio in zip(found, ratios, strict=True)]


def _conditional_effect_sentence(factor: FactorLevels, other: FactorLevels, sliced: Sequence[tuple[str, Ratio]]) -> str:
    base, level = (level_phrase(factor.name, level) for level in factor.levels)
    verdicts: dict[str, list[str]] = {}
    for phrase, ratio in sliced:
        verdicts.setdefault(_effect_verdict(ratio), []).append(f"{phrase} {format_ratio(ratio)}")
    said = "; ".join(f"{verdict} with {', '.join(listed)}" for verdict, listed in verdicts.items())
    return f"{level} instead of {base}, by {factor_noun(other.name)}: {said}."


def _caveat_sentences(summary: CampaignSummary) -> Iterator[str]:
    if summary.status != FINISHED:
        yield f"The campaign is {summary.status}: this is the answer so far."
    main = summary.main_metric
    measured = [treatment for treatment in summary.treatments if main in treatment.metrics]
    if measured:
        yield from _precision_sentences(summary, measured)
    for treatment in measured:
        if treatment.metrics[main].modes:
            yield (
                f"Two modes with {treatment_name(summary, treatment)}, "
                f"{_estimate_text(summary, treatment, main).removeprefix('two modes: ')}: "
                "something that the study does not set switches between them."
            )
    for reason in UNMEASURED_STATES:
        if without := [t for t in summary.treatments if t.stopped_by == reason]:
            yield f"Nothing is known of {_list_treatments(summary, without)}: {reason}."


def _precision_sentences(summary: CampaignSummary, measured: Sequence[TreatmentSummary]) -> Iterator[str]:
    yield (
        f"Brackets hold {format_exact_share(summary.precision.confidence)} intervals. Whether a difference is shown "
        "is judged after adjusting for the number of comparisons."
    )
    if summary.kind == IMPORTED:
        yield "The trials are another tool's, as its logs have them: their number was not decided here."
    else:
        yield _precision_target_sentence(summary, measured)
    main = summary.main_metric
    if bare := [treatment for treatment in measured if treatment.metrics[main].low is None]:
        which = "every treatment" if len(bare) == len(measured) else _list_treatments(summary, bare)
        yield f"Too few trials for an interval: {which}."


def _precision_target_sentence(summary: CampaignSummary, measured: Sequence[TreatmentSummary]) -> str:
    loose = [treatment for treatment in measured if treatment.stopped_by != "precision"]
    wanted = format_exact_share(summary.precision.half_width)
    precise = f"{len(measured) - len(loose)} of {pluralize(len(summary.treatments), 'treatment')}"
    rest = f"; not so: {_widths(loose, summary.main_metric)}" if loose else ""
    return f"As precise as asked (± {wanted}): {precise}{rest}."


def _widths(loose: Sequence[TreatmentSummary], metric: str) -> str:
    reasons = Counter(treatment.stopped_by for treatment in loose)
    listed = ", ".join(f"{count} ({reason})" for reason, count in reasons.items())
    widths = [half for each in loose if (half := each.metrics[metric].half_width) is not None]
    return f"{listed}, at most ± {format_share(max(widths))}" if widths else listed


def _estimate_text(summary: CampaignSummary, treatment: TreatmentSummary, metric: str) -> str:
    scale = metric_scale(summary.treatments, metric)
    estimate = treatment.metrics[metric]
    if estimate.low is None and not estimate.modes:
        value = format_interval(estimate.value, None, None, find_metric(metric).unit, scale=scale)
        return f"{value.text} (no interval: {pluralize(estimate.trials, 'trial')}{_trial_range_text(treatment, metric)})"
    return f"{format_estimate(estimate, metric, scale)} {scale.unit}"


def _trial_range_text(treatment: TreatmentSummary, metric: str) -> str:
    """The least and the most of trials that are too few for an interval, each in its best unit."""
    values = [point.values[metric] for point in treatment.points if metric in point.values]
    if len(values) < 2:
        return ""
    unit = find_metric(metric).unit
    ends = [(choose_scale(unit, each), format_value(each, unit)) for each in (min(values), max(values))]
    (of_low, low), (of_high, high) = ends
    if low == high:
        return ""
    return f", {low.removesuffix(f' {of_low.unit}') if of_low == of_high else low} to {high}"


def _ratio_range_text(least: float, most: float) -> str:
    low, high = (format_interval(each, None, None, "1").text for each in (least, most))
    return low if low == high else f"{low} to {high}"


def _list_treatments(summary: CampaignSummary, treatments: Sequence[TreatmentSummary]) -> str:
    names = [treatment_name(summary, treatment) for treatment in treatments[:_MAX_NAMED_TREATMENTS]]
    more = len(treatments) - len(names)
    return "; ".join(names) + (f"; and {more} more" if more else "")
