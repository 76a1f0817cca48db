"""The answer to a study's question in words: what is best, what each factor does and where, how surely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.effects import best, effects
from vnetbench.estimate.metrics import is_better_low
from vnetbench.estimate.model import Effect, Ratio
from vnetbench.estimate.ratios import adjust
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_interval, format_share, format_value, scale_for, spell_share
from vnetbench.report.charts.factor_layout import lay_out
from vnetbench.report.tables.columns import UNMEASURED
from vnetbench.results.records import FINISHED
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import figure, metric_of, noun_of, ratio_text, scale_of
from vnetbench.wording.factor_text import (
    CHANGED,
    NAMED,
    capitalised,
    counted,
    factor_label,
    factor_noun,
    level_phrase,
    level_text,
)
from vnetbench.wording.treatment_names import name_of

_COSTS = {
    "cycles_per_byte": "A byte",
    "cycles_per_transaction": "A transaction",
    "cycles_per_datagram": "A datagram",
}
"""What of the load costs the host that many cycles."""
_IDLE, _LOADED, _INCREASE = "latency_idle_p50_us", "latency_p50_us", "latency_increase_p50_us"
_NO_DIFFERENCE = "no difference shown"
_MOST_NAMED = 4
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


def answer(summary: CampaignSummary) -> Answer:
    """What the estimates say; where they say nothing, that."""
    return Answer(
        question=summary.question or summary.title,
        best=_sentences(_best(summary)),
        effects=_sentences((*_effects(summary), *_where(summary))),
        doubts=_sentences(_doubts(summary)),
    )


def _sentences(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(capitalised, found))


def _verdict(ratio: Ratio) -> str:
    """`higher`, `lower`, `no difference shown` or `too few trials to tell`, by the adjusted p value."""
    if ratio.p is None:
        return "too few trials to tell"
    if ratio.p > 1 - ratio.confidence + 1e-12:
        return _NO_DIFFERENCE
    return "higher" if ratio.value > 1 else "lower"


def _growth(summary: CampaignSummary) -> Iterator[str]:
    """Where a load costs the requests beside it least and most, from what to what."""
    measured = [t for t in summary.treatments if {_INCREASE, _IDLE, _LOADED} <= t.metrics.keys()]
    ordered = sorted(measured, key=lambda treatment: treatment.metrics[_INCREASE].value)
    for treatment, which in zip(ordered[:1] + ordered[1:][-1:], ("least", "most"), strict=False):
        name = f" {which} with {name_of(summary, treatment)}" if len(ordered) > 1 else ""
        idle, loaded, added = (_figure(summary, treatment, each) for each in (_IDLE, _LOADED, _INCREASE))
        yield f"under load the median latency grows{name}: by {added}, from {idle} to {loaded}."


def _best(summary: CampaignSummary) -> Iterator[str]:
    main = summary.main_metric
    found = best(summary, main)
    if found is None:
        trials = [point for treatment in summary.treatments for point in treatment.points]
        what = f"{noun_of(main)} is known of no trial" if trials else "No treatment was measured"
        yield f"{what}, so there is no answer."
        return
    by_index = {treatment.index: treatment for treatment in summary.treatments}
    first = by_index[found.index]
    measured = [treatment for treatment in summary.treatments if main in treatment.metrics]
    noun = noun_of(main)
    if len(measured) == 1:
        alone = "" if len(summary.treatments) == 1 else ", with the only treatment that was measured"
        verb = "falls into" if first.metrics[main].modes else "is"
        yield f"{noun} {verb} {_figure(summary, first, main)}{alone}."
        yield from _growth(summary)
        return
    is_sure = first.metrics[main].low is not None
    top, rest = ("lowest", "higher") if is_better_low(main) else ("highest", "lower")
    highest = (
        f"{noun} is {top} with" if is_sure else f"The {top} median of {noun}, of too few trials, is with"
    )
    yield f"{highest} {name_of(summary, first)}: {_figure(summary, first, main)}."
    level_with = [index for index in found.level_with if _p(found.ratios.get(index)) is not None]
    unknown = [index for index in found.level_with if index not in level_with]
    if level_with:
        yield f"The best can't be told from {_named(summary, [by_index[index] for index in level_with])}."
    if unknown:
        named = _named(summary, [by_index[index] for index in unknown])
        yield f"Too few trials in common to compare the best with {named}."
    if not found.level_with:
        yield f"Every other treatment that was measured is {rest}, beyond chance."
    yield from _growth(summary)
    for metric, what in _COSTS.items():
        cheapest = best(summary, metric)
        if cheapest is None or by_index[cheapest.index].metrics[metric].low is None:
            continue
        treatment = by_index[cheapest.index]
        equals = (
            "" if not cheapest.level_with else f" ({len(cheapest.level_with)} more can't be told from it)"
        )
        yield (
            f"{what} costs the host least with {name_of(summary, treatment)}: "
            f"{_figure(summary, treatment, metric)}{equals}."
        )


def _effects(summary: CampaignSummary) -> Iterator[str]:
    found = effects(summary, summary.main_metric)
    for factor in summary.factors:
        of_factor = [effect for effect in found if effect.factor == factor.name]
        if factor.name == NAMED:
            continue  # between runs that differ in many ways no difference is that of a factor
        if factor.name == CHANGED:
            yield from (_change_sentence(effect, noun_of(summary.main_metric)) for effect in of_factor)
        elif of_factor:
            yield _effect_sentence(of_factor, noun_of(summary.main_metric))


def _p(ratio: Ratio | None) -> float | None:
    return None if ratio is None else ratio.p


def _effect_sentence(found: Sequence[Effect], noun: str) -> str:
    name, pairs = found[0].factor, max(effect.pairs for effect in found)
    alike = f", in {pairs} pairs of treatments that are otherwise alike" if pairs > 1 else ""
    base = level_phrase(name, found[0].base)
    if len(found) == 1:
        (effect,) = found
        times = ratio_text(effect.ratio)
        instead = f"{level_phrase(name, effect.level)} instead of {base}"
        each = f" (one by one: {_range(effect.least, effect.most)})" if pairs > 1 else ""
        if _verdict(effect.ratio) == _NO_DIFFERENCE:
            return f"{instead} makes no difference that is shown: {times} times{alike}{each}."
        if effect.ratio.p is None:
            return f"{instead}: {noun} times {times}{alike}{each}."
        return f"{instead} multiplies {noun} by {times}{alike}{each}."
    levels = "; ".join(
        f"{ratio_text(effect.ratio)} with {level_text(name, effect.level)}"
        + (f" ({_NO_DIFFERENCE})" if _verdict(effect.ratio) == _NO_DIFFERENCE else "")
        for effect in found
    )
    return f"{factor_label(name)}: compared with {base}, {noun} is multiplied by {levels}{alike}."


def _change_sentence(effect: Effect, noun: str) -> str:
    change = level_phrase(effect.factor, effect.level)
    if _verdict(effect.ratio) == _NO_DIFFERENCE:
        return f"{change}: no difference is shown, {noun} times {ratio_text(effect.ratio)}."
    return f"{change}: {noun} times {ratio_text(effect.ratio)}."


def _where(summary: CampaignSummary) -> Iterator[str]:
    """Where a factor of two levels matters, that of the chart's lines before others: its effect by theirs."""
    layout = lay_out(summary)
    drawn = [factor for factor in (layout.colour, layout.x, *layout.others) if factor is not None]
    factor = next((factor for factor in drawn if len(factor.levels) == 2), None)
    if factor is None or layout.heat is not None:
        return
    for other in (other for other in drawn if other is not factor):
        sliced = _sliced(summary, factor, other)
        if any(ratio.p is not None for _, ratio in sliced):
            yield _where_sentence(factor, other, sliced)


def _sliced(summary: CampaignSummary, factor: FactorLevels, other: FactorLevels) -> list[tuple[str, Ratio]]:
    """The effect of a factor of two levels at each level of another one, adjusted for being many."""
    found = []
    for level in other.levels:
        treatments = tuple(t for t in summary.treatments if t.factors.get(other.name) == level)
        part = replace(summary, factors=(factor,), treatments=treatments)
        found += [
            (level_phrase(other.name, level), effect.ratio) for effect in effects(part, summary.main_metric)
        ]
    ratios = adjust([ratio for _, ratio in found])
    return [(phrase, ratio) for (phrase, _), ratio in zip(found, ratios, strict=True)]


def _where_sentence(factor: FactorLevels, other: FactorLevels, sliced: Sequence[tuple[str, Ratio]]) -> str:
    base, level = (level_phrase(factor.name, level) for level in factor.levels)
    verdicts: dict[str, list[str]] = {}
    for phrase, ratio in sliced:
        verdicts.setdefault(_verdict(ratio), []).append(f"{phrase} {ratio_text(ratio)}")
    said = "; ".join(f"{verdict} with {', '.join(listed)}" for verdict, listed in verdicts.items())
    return f"{level} instead of {base}, by {factor_noun(other.name)}: {said}."


def _doubts(summary: CampaignSummary) -> Iterator[str]:
    if summary.status != FINISHED:
        yield f"The campaign is {summary.status}: this is the answer so far."
    main = summary.main_metric
    measured = [treatment for treatment in summary.treatments if main in treatment.metrics]
    if measured:
        yield from _precision(summary, measured)
    for treatment in measured:
        if treatment.metrics[main].modes:
            yield (
                f"Two modes with {name_of(summary, treatment)}, "
                f"{_figure(summary, treatment, main).removeprefix('two modes: ')}: "
                "something that the study does not set switches between them."
            )
    for reason in UNMEASURED:
        if without := [t for t in summary.treatments if t.stopped_by == reason]:
            yield f"Nothing is known of {_named(summary, without)}: {reason}."


def _precision(summary: CampaignSummary, measured: Sequence[TreatmentSummary]) -> Iterator[str]:
    yield (
        f"Brackets hold {spell_share(summary.precision.confidence)} intervals. Whether a difference is shown "
        "is judged after adjusting for the number of comparisons."
    )
    if summary.kind == IMPORTED:
        yield "The trials are another tool's, as its logs have them: their number was not decided here."
    else:
        yield _as_asked(summary, measured)
    main = summary.main_metric
    if bare := [treatment for treatment in measured if treatment.metrics[main].low is None]:
        which = "every treatment" if len(bare) == len(measured) else _named(summary, bare)
        yield f"Too few trials for an interval: {which}."


def _as_asked(summary: CampaignSummary, measured: Sequence[TreatmentSummary]) -> str:
    loose = [treatment for treatment in measured if treatment.stopped_by != "precision"]
    wanted = spell_share(summary.precision.half_width)
    precise = f"{len(measured) - len(loose)} of {counted(len(summary.treatments), 'treatment')}"
    rest = f"; not so: {_widths(loose, summary.main_metric)}" if loose else ""
    return f"As precise as asked (± {wanted}): {precise}{rest}."


def _widths(loose: Sequence[TreatmentSummary], metric: str) -> str:
    reasons = Counter(treatment.stopped_by for treatment in loose)
    listed = ", ".join(f"{count} ({reason})" for reason, count in reasons.items())
    widths = [half for each in loose if (half := each.metrics[metric].half_width) is not None]
    return f"{listed}, at most ± {format_share(max(widths))}" if widths else listed


def _figure(summary: CampaignSummary, treatment: TreatmentSummary, metric: str) -> str:
    scale = scale_of(summary.treatments, metric)
    estimate = treatment.metrics[metric]
    if estimate.low is None and not estimate.modes:
        value = format_interval(estimate.value, None, None, metric_of(metric).unit, scale=scale)
        return f"{value.text} (no interval: {counted(estimate.trials, 'trial')}{_ends(treatment, metric)})"
    return f"{figure(estimate, metric, scale)} {scale.unit}"


def _ends(treatment: TreatmentSummary, metric: str) -> str:
    """The least and the most of trials that are too few for an interval, each in its best unit."""
    values = [point.values[metric] for point in treatment.points if metric in point.values]
    if len(values) < 2:
        return ""
    unit = metric_of(metric).unit
    ends = [(scale_for(unit, each), format_value(each, unit)) for each in (min(values), max(values))]
    (of_low, low), (of_high, high) = ends
    if low == high:
        return ""
    return f", {low.removesuffix(f' {of_low.unit}') if of_low == of_high else low} to {high}"


def _range(least: float, most: float) -> str:
    low, high = (format_interval(each, None, None, "1").text for each in (least, most))
    return low if low == high else f"{low} to {high}"


def _named(summary: CampaignSummary, treatments: Sequence[TreatmentSummary]) -> str:
    names = [name_of(summary, treatment) for treatment in treatments[:_MOST_NAMED]]
    more = len(treatments) - len(names)
    return "; ".join(names) + (f"; and {more} more" if more else "")
