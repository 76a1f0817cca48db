"""Sentences about the outages or stalls of a campaign with events: how long they were, and the floor."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import choose_scale, format_count_with_noun, format_interval, format_value
from vnetbench.study.factors.disruption_factors import EVENT, EVENT_DURATION, NO_EVENT
from vnetbench.study.workloads import OUTAGE_METRIC, STALL_METRIC, WORKLOADS
from vnetbench.wording.treatment_names import treatment_name

KINDS_OF_COMPARISONS = ("best", "factors", "difference", "not explained")
"""Kinds of findings that say nothing about outages: events are different things, and a flow has no limit."""
_PART_SEPARATOR = " and "
_BACKGROUND, _EVENT_LENGTH = "background_gap_s", "event_s"
_NOUN_BY_METRIC = {OUTAGE_METRIC: "an outage", STALL_METRIC: "a stall"}
_MIN_NAMED_EXCESS_SHARE = 0.05
"""The sentence has the measured length of an event that was longer than its level by more than this share."""


def outage_sentences(summary: CampaignSummary) -> tuple[str, ...]:
    """Return how long the outages were, and the gaps without an event; empty for another workload."""
    if summary.workload not in WORKLOADS or not WORKLOADS[summary.workload].has_network_event:
        return ()
    metric = WORKLOADS[summary.workload].deciding_metrics[0]
    noun = _NOUN_BY_METRIC[metric]
    measured = [each for each in summary.treatments if metric in each.metrics]
    events = [each for each in measured if not EVENT.is_at(each.factors, NO_EVENT)]
    floors_s = [_floor_s(each, measured, metric) for each in measured]
    sentences = []
    if events:
        phrases = [_outage_phrase(summary, each, metric) for each in events]
        sentences.append(_outage_sentence(noun.split()[-1], phrases))
    if measured:
        sentences.append(_floor_sentence(summary, measured, floors_s, metric))
    hidden = [each for each in events if _lowest_s(each, metric) <= _floor_s(each, measured, metric)]
    if hidden:
        names = "; ".join(treatment_name(summary, each) for each in hidden)
        compared = "that" if len(set(floors_s)) == 1 else "such a gap at the same levels"
        sentences.append(f"Not longer than {compared}, and so not shown to be {noun}: {names}.")
    return tuple(sentences)


def _outage_sentence(noun: str, phrases: Sequence[str]) -> str:
    """Return the lengths in one sentence; semicolons separate treatments whose names have several parts."""
    if len(phrases) > 1 and any(_PART_SEPARATOR in phrase for phrase in phrases):
        return f"The {noun} was {'; '.join(phrases)}."
    return f"The {noun} was {_join(phrases)}."


def _outage_phrase(summary: CampaignSummary, treatment: TreatmentSummary, metric: str) -> str:
    text = _estimate_phrase(summary, treatment.metrics[metric])
    if len(summary.treatments) > 1:
        text = f"{text} with {_join(treatment_name(summary, treatment).split(', '))}"
    return f"{text}{_late_end_phrase(treatment)}"


def _late_end_phrase(treatment: TreatmentSummary) -> str:
    """Return the measured length of events that a busy machine ended late; empty if they ended in time."""
    estimate, requested_s = treatment.metrics.get(_EVENT_LENGTH), EVENT_DURATION.read_level(treatment.factors)
    if estimate is None or estimate.value <= (1 + _MIN_NAMED_EXCESS_SHARE) * float(requested_s):
        return ""
    return f" (the event lasted {format_value(estimate.value, 's')})"


def _floor_sentence(
    summary: CampaignSummary, measured: Sequence[TreatmentSummary], floors_s: Sequence[float], metric: str
) -> str:
    trials = format_count_with_noun(sum(each.trial_count for each in measured), "trial")
    lowest, highest = (format_value(each, "s") for each in (min(floors_s), max(floors_s)))
    longest = highest if lowest == highest else f"{lowest} to {highest}, depending on the levels"
    text = f"Outside of the events, the longest gap in {trials} was {longest}"
    controls = [each for each in measured if EVENT.is_at(each.factors, NO_EVENT)]
    if not controls:
        return f"{text}."
    control = max(controls, key=lambda each: each.metrics[metric].value)
    name = f" with {treatment_name(summary, control)}" if len(controls) > 1 else ""
    typical = _estimate_phrase(summary, control.metrics[metric])
    return f"{text}; at the time of an event that did not happen, it was typically {typical}{name}."


def _floor_s(treatment: TreatmentSummary, measured: Sequence[TreatmentSummary], metric: str) -> float:
    """Return the longest gap without an event, of all trials whose levels differ at most in the event."""
    levels = treatment.levels_without(EVENT.name)
    gaps_s: list[float] = []
    for each in measured:
        if each.levels_without(EVENT.name) == levels:
            gaps_s += each.values_of_trials_with_metric(_BACKGROUND)
            if EVENT.is_at(each.factors, NO_EVENT):
                gaps_s += each.values_of_trials_with_metric(metric)
    return max(gaps_s, default=0.0)


def _lowest_s(treatment: TreatmentSummary, metric: str) -> float:
    estimate = treatment.metrics[metric]
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
