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
    floor_s = _floor_s(measured)
    sentences = []
    if events:
        sentences.append(_outage_sentence([_outage_phrase(summary, each) for each in events]))
    if measured:
        sentences.append(_floor_sentence(summary, measured, floor_s))
    hidden = [treatment_name(summary, each) for each in events if _lowest_s(each) <= floor_s]
    if hidden:
        sentences.append(f"Not longer than that, and so not shown to be an outage: {'; '.join(hidden)}.")
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


def _floor_sentence(summary: CampaignSummary, measured: Sequence[TreatmentSummary], floor_s: float) -> str:
    controls = [each for each in measured if EVENT.is_at(each.factors, NO_EVENT)]
    at_control = "".join(
        f"; at the time of an event that did not happen, the longest was "
        f"{_estimate_phrase(summary, each.metrics[OUTAGE])}"
        for each in controls[:1]
    )
    return f"Without an event, this machine makes gaps of up to {format_value(floor_s, 's')}{at_control}."


def _floor_s(measured: Sequence[TreatmentSummary]) -> float:
    """Return the largest median of the gaps without an event, of all treatments."""
    background = [each.metrics[BACKGROUND].value for each in measured if BACKGROUND in each.metrics]
    controls = [each.metrics[OUTAGE].value for each in measured if EVENT.is_at(each.factors, NO_EVENT)]
    return max((*background, *controls), default=0.0)


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
