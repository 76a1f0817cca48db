"""The answer to a study's question in sentences: the effect, the best treatment, and the caveats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vnetbench.estimate.effects import find_best_treatment
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import BestTreatment
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import (
    choose_scale,
    format_count_with_noun,
    format_exact_share,
    format_interval,
    format_share,
    format_value,
)
from vnetbench.report.tables.columns import STATES_WITHOUT_MEASUREMENT
from vnetbench.report.text.effect_text import (
    choose_headline_effect,
    conditional_effect_sentences,
    effect_sentence,
    effect_sentences,
)
from vnetbench.results.records import FINISHED, INTERRUPTED, RUNNING
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.wording.estimate_text import choose_metric_scale, find_metric, format_estimate, metric_noun
from vnetbench.wording.factor_text import capitalize_sentence
from vnetbench.wording.treatment_names import treatment_name

_UNIT_BY_CYCLE_COST_METRIC = {
    "cycles_per_byte": "byte",
    "cycles_per_transaction": "transaction",
    "cycles_per_datagram": "datagram",
}
_IDLE_LATENCY, _LOADED_LATENCY = "latency_idle_p50_us", "latency_p50_us"
_LATENCY_INCREASE_METRIC = "latency_increase_p50_us"
_MAX_NAMED_TREATMENTS = 4
"""Sentences name at most this many treatments and count the rest."""
_STOP_PHRASE_BY_REASON = {
    "trial limit": "stopped at the maximum number of trials",
    "time limit": "stopped at the time limit",
    "not needed": "were not needed",
}


@dataclass(frozen=True)
class Answer:
    """The study's question and the sentences that answer it, one or two sentences per string."""

    question: str
    headline_effect_sentences: tuple[str, ...]
    """The effect that the study asks about; empty for a study without effects."""
    best_treatment_sentences: tuple[str, ...]
    """The best treatment and how it compares with the others."""
    other_effect_sentences: tuple[str, ...]
    """The effects that `headline_effect_sentences` does not contain."""
    caveat_sentences: tuple[str, ...]
    """Precision reached, two modes, and treatments that were not measured."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences in reading order."""
        return (
            *self.headline_effect_sentences,
            *self.best_treatment_sentences,
            *self.other_effect_sentences,
            *self.caveat_sentences,
        )


def answer_question(summary: CampaignSummary) -> Answer:
    """Answer the study's question from the estimates alone."""
    effect = choose_headline_effect(summary)
    effects = (*effect_sentences(summary, excluded=effect), *conditional_effect_sentences(summary))
    return Answer(
        question=summary.question or summary.title,
        headline_effect_sentences=_capitalize_all(
            [effect_sentence(effect, summary.deciding_metric)] if effect else []
        ),
        best_treatment_sentences=_capitalize_all(_best_treatment_sentences(summary)),
        other_effect_sentences=_capitalize_all(effects),
        caveat_sentences=_capitalize_all(_caveat_sentences(summary)),
    )


def _capitalize_all(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(capitalize_sentence, sentences))


def _best_treatment_sentences(summary: CampaignSummary) -> Iterator[str]:
    metric = summary.deciding_metric
    best = find_best_treatment(summary, metric)
    if best is None:
        has_trials = any(treatment.points for treatment in summary.treatments)
        reason = f"No trial measured {metric_noun(metric)}" if has_trials else "No treatment was measured"
        yield f"{reason}, so there is no answer."
        return
    treatment = next(each for each in summary.treatments if each.index == best.index)
    measured_count = sum(metric in each.metrics for each in summary.treatments)
    if measured_count == 1:
        yield _single_treatment_sentence(summary, treatment)
        yield from _latency_under_load_sentences(summary)
        return
    adjective = "lowest" if is_lower_better(metric) else "highest"
    median = "" if treatment.metrics[metric].low is not None else "median "
    tied = format_count_with_noun(len(best.tied_with), "other treatment")
    yield (
        f"{median}{metric_noun(metric)} is {adjective} with {treatment_name(summary, treatment)}: "
        f"{_estimate_text(summary, treatment, metric)}{f'; {tied} may be as good' if best.tied_with else ''}."
    )
    yield from _tied_treatments_sentences(summary, best)
    yield from _latency_under_load_sentences(summary)
    yield from _cycle_cost_sentences(summary)


def _single_treatment_sentence(summary: CampaignSummary, treatment: TreatmentSummary) -> str:
    metric = summary.deciding_metric
    verb = "falls into" if treatment.metrics[metric].modes else "is"
    sentence = f"{metric_noun(metric)} {verb} {_estimate_text(summary, treatment, metric)}."
    return sentence if len(summary.treatments) == 1 else f"{sentence} Only one treatment was measured."


def _tied_treatments_sentences(summary: CampaignSummary, best: BestTreatment) -> Iterator[str]:
    """Yield which treatments do not differ significantly from the best, and which cannot be compared."""
    by_index = {treatment.index: treatment for treatment in summary.treatments}
    tied: list[TreatmentSummary] = []
    uncompared: list[TreatmentSummary] = []
    for index in best.tied_with:
        ratio = best.ratios.get(index)
        is_compared = ratio is not None and ratio.p_value is not None
        (tied if is_compared else uncompared).append(by_index[index])
    if tied:
        yield (f"These treatments may be the best as well: {_list_treatments(summary, tied)}.")
    if uncompared:
        yield (
            "These treatments have too few trials in common with the best: "
            f"{_list_treatments(summary, uncompared)}."
        )
    if not best.tied_with:
        direction = "higher" if is_lower_better(best.metric) else "lower"
        yield f"{metric_noun(best.metric)} is significantly {direction} with every other measured treatment."


def _latency_under_load_sentences(summary: CampaignSummary) -> Iterator[str]:
    """Yield by how much the load raises the latency, for the least and the most affected treatment."""
    needed = {_LATENCY_INCREASE_METRIC, _IDLE_LATENCY, _LOADED_LATENCY}
    measured = [each for each in summary.treatments if needed <= each.metrics.keys()]
    ordered = sorted(measured, key=lambda treatment: treatment.metrics[_LATENCY_INCREASE_METRIC].value)
    for treatment, rank in zip(ordered[:1] + ordered[1:][-1:], ("least", "most"), strict=False):
        name = f" {rank} with {treatment_name(summary, treatment)}" if len(ordered) > 1 else ""
        increase = _estimate_text(summary, treatment, _LATENCY_INCREASE_METRIC)
        idle = _estimate_text(summary, treatment, _IDLE_LATENCY)
        loaded = _estimate_text(summary, treatment, _LOADED_LATENCY)
        yield f"Under load, median latency rises{name}: by {increase}, from {idle} to {loaded}."


def _cycle_cost_sentences(summary: CampaignSummary) -> Iterator[str]:
    for metric, unit in _UNIT_BY_CYCLE_COST_METRIC.items():
        cheapest = find_best_treatment(summary, metric)
        if cheapest is None:
            continue
        treatment = next(each for each in summary.treatments if each.index == cheapest.index)
        if treatment.metrics[metric].low is None:
            continue
        name, cost = treatment_name(summary, treatment), _estimate_text(summary, treatment, metric)
        sentence = f"The host spends the fewest cycles per {unit} with {name}: {cost}."
        if cheapest.tied_with:
            tied = format_count_with_noun(len(cheapest.tied_with), "other treatment")
            sentence += f" The cost with {tied} does not differ significantly."
        yield sentence


def _caveat_sentences(summary: CampaignSummary) -> Iterator[str]:
    if summary.status != FINISHED:
        yield f"The campaign is {summary.status}, so this answer is preliminary."
    metric = summary.deciding_metric
    measured = [treatment for treatment in summary.treatments if metric in treatment.metrics]
    if measured:
        yield from _precision_sentences(summary, measured)
    for treatment in measured:
        if treatment.metrics[metric].modes:
            modes = _estimate_text(summary, treatment, metric).removeprefix("two modes: ")
            yield (
                f"The trials of {treatment_name(summary, treatment)} fall into two modes: {modes}. "
                "Something that the study does not control switches between the modes."
            )
    for state in STATES_WITHOUT_MEASUREMENT:
        if unmeasured := [each for each in summary.treatments if each.stop_reason == state]:
            yield f"Not measured ({state}): {_list_treatments(summary, unmeasured)}."


def _precision_sentences(summary: CampaignSummary, measured: Sequence[TreatmentSummary]) -> Iterator[str]:
    yield (
        f"Brackets show {format_exact_share(summary.required_precision.confidence)} confidence intervals. "
        "Significance is adjusted for the number of comparisons."
    )
    if summary.testbed_backend == IMPORTED_LAB:
        yield "Another tool ran the trials, so vnetbench did not choose their number."
    else:
        yield from _target_precision_sentences(summary, measured)
    without_interval = [each for each in measured if each.metrics[summary.deciding_metric].low is None]
    if without_interval:
        if len(without_interval) == len(measured):
            yield "Every treatment has too few trials for an interval."
        else:
            names = _list_treatments(summary, without_interval)
            yield f"These treatments have too few trials for an interval: {names}."


def _target_precision_sentences(
    summary: CampaignSummary, measured: Sequence[TreatmentSummary]
) -> Iterator[str]:
    """Yield how many treatments reached the requested precision, and why the others stopped before it."""
    target = f"± {format_exact_share(summary.required_precision.half_width)}"
    imprecise = [each for each in measured if each.stop_reason != "precision"]
    reached, total = len(measured) - len(imprecise), len(summary.treatments)
    if reached == total:
        count = "The treatment" if total == 1 else f"All {total} treatments"
        yield f"{count} reached the requested precision of {target}."
    elif total > 1:
        yield f"{reached} of {total} treatments reached the requested precision of {target}."
    for reason, count_stopped in Counter(each.stop_reason for each in imprecise).items():
        subject, verb = (
            format_count_with_noun(count_stopped, "treatment"),
            _stop_phrase(reason, count_stopped),
        )
        yield f"{subject} {verb} before reaching {target}."
    widths = [
        half_width
        for each in imprecise
        if (half_width := each.metrics[summary.deciding_metric].relative_half_width) is not None
    ]
    if widths:
        yield f"The widest interval is ± {format_share(max(widths))}."


def _stop_phrase(reason: str, count: int) -> str:
    if reason in (RUNNING, INTERRUPTED):
        be = ("is", "was") if count == 1 else ("are", "were")
        return f"{be[0]} still running" if reason == RUNNING else f"{be[1]} interrupted"
    return _STOP_PHRASE_BY_REASON.get(reason, f"stopped ({reason})")


def _estimate_text(summary: CampaignSummary, treatment: TreatmentSummary, metric: str) -> str:
    scale = choose_metric_scale(summary.treatments, metric)
    estimate = treatment.metrics[metric]
    if estimate.low is None and not estimate.modes:
        value = format_interval(estimate.value, None, None, find_metric(metric).unit, scale=scale).text
        trials = format_count_with_noun(estimate.trial_count, "trial")
        return f"{value} (no interval: {trials}{_trial_range_text(treatment, metric)})"
    return f"{format_estimate(estimate, metric, scale)} {scale.unit}"


def _trial_range_text(treatment: TreatmentSummary, metric: str) -> str:
    """Return `, 30.0 to 36.4 Gbit/s`, the range of the trials; empty if they are equal."""
    values = treatment.values_of_trials_with_metric(metric)
    if len(values) < 2:
        return ""
    unit = find_metric(metric).unit
    low, high = format_value(min(values), unit), format_value(max(values), unit)
    if low == high:
        return ""
    low_scale, high_scale = choose_scale(unit, min(values)), choose_scale(unit, max(values))
    if low_scale == high_scale:
        low = low.removesuffix(f" {low_scale.unit}")
    return f", {low} to {high}"


def _list_treatments(summary: CampaignSummary, treatments: Sequence[TreatmentSummary]) -> str:
    names = [treatment_name(summary, each) for each in treatments[:_MAX_NAMED_TREATMENTS]]
    more = len(treatments) - len(names)
    return "; ".join(names) + (f"; and {more} more" if more else "")
