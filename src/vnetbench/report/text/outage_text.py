"""Sentences about the outages of a campaign of `disruption`: how long they were, and the floor."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import choose_scale, format_count_with_noun, format_interval, format_value
from vnetbench.study.factors.disruption_factors import EVENT, NO_EVENT
from vnetbench.study.workloads import WORKLOADS
from vnetbench.wording.treatment_names import treatment_name

KINDS_OF_COMPARISONS = ("best", "factors", "difference", "not explained")
"""Kinds of findings that say nothing about outages: events are different things, and a flow has no limit."""
_PART_SEPARATOR = " and "
OUTAGE, BACKGROUND = "outage_s", "background_gap_s"


def outage_sentences(summary: CampaignSummary) -> tuple[str, ...]:
    """Return how long the outages were, and the gaps without an event; empty for another workload."""
    if summary.workload not in WORKLOADS or not WORKLOADS[summary.workload].has_network_event:
        return ()
    measured = [each for each in summary.treatments if OUTAGE in each.metrics]
    events = [each for each in measured if not EVENT.is_at(each.factors, NO_EVENT)]
    floors_s = [_floor_s(each, measured) for each in measured]
    sentences = []
    if events:
        sentences.append(_outage_sentence([_outage_phrase(summary, each) for each in events]))
    if measured:
        sentences.append(_floor_sentence(summary, measured, floors_s))
    hidden = [each for each in events if _lowest_s(each) <= _floor_s(each, measured)]
    if hidden:
        names = "; ".join(treatment_name(summary, each) for each in hidden)
        compared = "that" if len(set(floors_s)) == 1 else "such a gap at the same levels"
        sentences.append(f"Not longer than {compared}, and so not shown to be an outage: {names}.")
    return tuple(sentences)


def _outage_sentence(phrases: Sequence[str]) -> str:
    """Return the outages in one sentence; semicolons separate treatments whose names have several parts."""
    if len(phrases) > 1 and any(_PART_SEPARATOR in phrase for phrase in phrases):
        return f"The outage was {'; '.join(phrases)}."
    return f"The outage was {_join(phrases)}."


def _outage_phrase(summary: CampaignSummary, treatment: TreatmentSummary) -> str:
    text = _estimate_phrase(summary, treatment.metrics[OUTAGE])
    if len(summary.treatments) == 1:
        return text
    return f"{text} with {_join(treatment_name(summary, treatment).split(', '))}"


def _floor_sentence(
    summary: CampaignSummary, measured: Sequence[TreatmentSummary], floors_s: Sequence[float]
) -> str:
    trials = format_count_with_noun(sum(each.trial_count for each in measured), "trial")
    lowest, highest = (format_value(each, "s") for each in (min(floors_s), max(floors_s)))
    longest = highest if lowest == highest else f"{lowest} to {highest}, depending on the levels"
    text = f"Outside of the events, the longest gap in {trials} was {longest}"
    controls = [each for each in measured if EVENT.is_at(each.factors, NO_EVENT)]
    if not controls:
        return f"{text}."
    control = max(controls, key=lambda each: each.metrics[OUTAGE].value)
    name = f" with {treatment_name(summary, control)}" if len(controls) > 1 else ""
    typical = _estimate_phrase(summary, control.metrics[OUTAGE])
    return f"{text}; at the time of an event that did not happen, it was typically {typical}{name}."


def _floor_s(treatment: TreatmentSummary, measured: Sequence[TreatmentSummary]) -> float:
    """Return the longest gap without an event, of all trials whose levels differ at most in the event."""
    levels = treatment.levels_without(EVENT.name)
    gaps_s: list[float] = []
    for each in measured:
        if each.levels_without(EVENT.name) == levels:
            gaps_s += each.values_of_trials_with_metric(BACKGROUND)
            if EVENT.is_at(each.factors, NO_EVENT):
                gaps_s += each.values_of_trials_with_metric(OUTAGE)
    return max(gaps_s, default=0.0)


def _lowest_s(treatment: TreatmentSummary) -> float:
    estimate = treatment.metrics[OUTAGE]
    return estimate.value if estimate.low is None else estimate.low


def _estimate_phrase(summary: CampaignSummary, estimate: Estimate) -> str:
    """Return `104.0 ms (95 % interval [102.0, 106.0])`."""
    scale = choose_scale("s", estimate.value)
    text = format_interval(estimate.value, estimate.low, estimate.high, "s", scale=scale)
    if estimate.low is None or estimate.high is None:
        trials = format_count_with_noun(estimate.trial_count, "trial")
        return f"{text.value} {scale.unit} (no interval: {trials})"
    confidence = f"{100 * summary.required_precision.confidence:g} %"
    return f"{text.value} {scale.unit} ({confidence} interval {text.interval})"


def _join(phrases: Sequence[str]) -> str:
    *first, last = phrases
    return f"{', '.join(first)} and {last}" if first else last
