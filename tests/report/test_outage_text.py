"""The first sentences about outages: their length, their interval and the floor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice

import pytest

from tests.report.campaigns import campaign, estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.report.text.narrative import build_narrative
from vnetbench.report.text.outage_text import outage_sentences
from vnetbench.study.model import FactorLevels

pytestmark = pytest.mark.pure


def treatment(
    index: int, event: str, outages_s: Sequence[float], *background_s: float, rate: float = 10_000
) -> TreatmentSummary:
    """Return a treatment with these outages; its trials have the background gaps in turn."""
    gaps_s = list(islice(cycle(background_s), len(outages_s)))
    metrics = {"outage_s": estimate(outages_s), "background_gap_s": estimate(gaps_s)}
    points = tuple(
        TrialPoint(trial, trial, 0.0, 1.5, 0.0, True, {"outage_s": outage_s, "background_gap_s": gap_s})
        for trial, (outage_s, gap_s) in enumerate(zip(outages_s, gaps_s, strict=True))
    )
    return TreatmentSummary(index, {"event": event, "rate": rate}, {}, "precision", metrics, points)


def disruption_campaign(*treatments: TreatmentSummary) -> CampaignSummary:
    events = tuple(each.factors["event"] for each in treatments)
    rates = tuple(each.factors["rate"] for each in treatments)
    factors = [FactorLevels("event", events), FactorLevels("rate", rates)]
    summary = campaign("Disruption", "How long?", factors, treatments)
    return replace(summary, workload="disruption", deciding_metric="outage_s")


SPREAD = (-0.002, -0.001, 0.0, 0.0, 0.001, 0.002)


def test_each_event_has_its_outage_with_an_interval_and_the_floor_follows() -> None:
    summary = disruption_campaign(
        treatment(0, "none", [0.0007] * 6, 0.0006),
        treatment(1, "link-flap", [0.104 + each for each in SPREAD], 0.0009),
        treatment(2, "bridge-port-stp", [4.13 + each for each in SPREAD], 0.0008),
    )
    assert outage_sentences(summary) == (
        "The outage was 104.0 ms (95 % interval [102.0, 106.0]) with event link-flap and 4.1300 s (95 % "
        "interval [4.1280, 4.1320]) with event bridge-port-stp.",
        "Outside of the events, the longest gap in 18 trials was 900 µs; at the time of an event that did "
        "not happen, it was typically 700 µs (95 % interval [700, 700]).",
    )
    assert build_narrative(summary).answer[0].startswith("The outage was 104.0 ms")


def test_treatments_of_several_factors_are_named_with_semicolons_between_them() -> None:
    policies = ("active-backup", "balance-tcp")
    treatments = [
        replace(each, factors={"team_policy": policy, **each.factors})
        for index, policy in enumerate(policies)
        for each in (
            treatment(2 * index, "team-link-down", [0.02] * 6, 0.001),
            treatment(2 * index + 1, "team-link-silent", [2.5] * 6, 0.001),
        )
    ]
    summary = disruption_campaign(*treatments)
    factors = (FactorLevels("team_policy", policies), *summary.factors)
    first = outage_sentences(replace(summary, factors=factors))[0]
    assert re.sub(r"[0-9.]+ m?s \(95 % interval \[.*?\]\)", "N", first) == (
        "The outage was N with active-backup and event team-link-down; N with active-backup and event "
        "team-link-silent; N with balance-tcp and event team-link-down; N with balance-tcp and event "
        "team-link-silent."
    )


def test_an_outage_within_the_floor_is_not_shown_to_be_one() -> None:
    hidden = treatment(0, "link-flap", [0.003 + each for each in SPREAD], 0.0011)
    seen = treatment(1, "silent-drop", [0.1 + each for each in SPREAD], 0.0011)
    sentences = outage_sentences(disruption_campaign(hidden, seen))
    assert sentences[-1] == ("Not longer than that, and so not shown to be an outage: event link-flap.")
    assert len(outage_sentences(disruption_campaign(seen, replace(seen, index=0)))) == 2


def test_the_floor_is_the_longest_gap_of_any_trial() -> None:
    # An outage of 20 ms is shown by most trials, but one trial had a gap of 50 ms without an event.
    hidden = treatment(
        1, "link-flap", [0.02 + each for each in SPREAD], 0.002, 0.003, 0.004, 0.03, 0.04, 0.05
    )
    sentences = outage_sentences(disruption_campaign(treatment(0, "none", [0.001] * 6, 0.001), hidden))
    assert sentences[1].startswith("Outside of the events, the longest gap in 12 trials was 50.0 ms;")
    assert sentences[2].endswith("not shown to be an outage: event link-flap.")


def test_an_outage_is_compared_with_the_gaps_at_its_own_levels() -> None:
    slow = treatment(0, "link-flap", [0.05] * 6, 0.1, rate=10)
    fast = treatment(1, "link-flap", [0.05] * 6, 0.001)
    controls = (treatment(2, "none", [0.09] * 6, 0.1, rate=10), treatment(3, "none", [0.002] * 6, 0.001))
    sentences = outage_sentences(disruption_campaign(slow, fast, *controls))
    assert sentences[1:] == (
        "Outside of the events, the longest gap in 24 trials was 2.00 ms to 100 ms, depending on the levels; "
        "at the time of an event that did not happen, it was typically 90.0 ms (95 % interval "
        "[90.0, 90.0]) with event none, rate 10 /s.",
        "Not longer than such a gap at the same levels, and so not shown to be an outage: event link-flap, "
        "rate 10 /s.",
    )


def test_a_single_outage_of_few_trials_has_no_interval_and_no_name() -> None:
    only = disruption_campaign(treatment(0, "silent-drop", [0.1, 0.101], 0.0004))
    first, floor = outage_sentences(only)
    assert first.startswith("The outage was 10") and "(no interval: 2 trials)" in first
    assert floor == "Outside of the events, the longest gap in 2 trials was 400 µs."
    assert outage_sentences(campaign("x", "y", [], [])) == ()
