"""The first sentences about outages: their length, their interval and the floor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.report.campaigns import campaign, estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.report.text.narrative import build_narrative
from vnetbench.report.text.outage_text import outage_sentences
from vnetbench.study.model import FactorLevels

pytestmark = pytest.mark.pure


def treatment(index: int, event: str, outages_s: Sequence[float], background_s: float) -> TreatmentSummary:
    metrics = {"outage_s": estimate(outages_s), "background_gap_s": estimate([background_s] * len(outages_s))}
    return TreatmentSummary(index, {"event": event}, {}, "precision", metrics, ())


def disruption_campaign(*treatments: TreatmentSummary) -> CampaignSummary:
    events = tuple(each.factors["event"] for each in treatments)
    summary = campaign("Disruption", "How long?", [FactorLevels("event", events)], treatments)
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
        "Without an event, this machine makes gaps of up to 900 µs; at the time of an event that did not "
        "happen, the longest was 700 µs (95 % interval [700, 700]).",
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


def test_a_single_outage_of_few_trials_has_no_interval_and_no_name() -> None:
    only = disruption_campaign(treatment(0, "silent-drop", [0.1, 0.101], 0.0004))
    first, floor = outage_sentences(only)
    assert first.startswith("The outage was 10") and "(no interval: 2 trials)" in first
    assert floor == "Without an event, this machine makes gaps of up to 400 µs."
    assert outage_sentences(campaign("x", "y", [], [])) == ()
