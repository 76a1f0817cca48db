"""Explanations of campaigns: groups of limits, the answer, unscored causes, too few trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.explain.campaigns import IDLE, QUOTA, SENDER_SATURATED, SimulatedTreatment, campaign
from tests.report.campaigns import jumbo_campaign
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.model import Finding
from vnetbench.explain.rules import get_cause

pytestmark = pytest.mark.pure

ONE = 'title = "t"\n[factors]\nstreams = 1\n'
FOUR = 'title = "t"\n[factors]\nstreams = "1..4"\n'


def findings_of_kind(findings: tuple[Finding, ...], kind: str) -> list[Finding]:
    return [finding for finding in findings if finding.kind == kind]


def test_one_treatment_is_explained_with_its_evidence() -> None:
    explanation = explain(campaign(ONE, SimulatedTreatment(QUOTA)))
    finding = explanation.findings[0]
    assert finding.kind == "limit" and finding.treatment_indices == (0,)
    assert finding.text == (
        "Time in which the CPU quota stopped the sending endpoint 60.0 % of time (very likely)."
    )
    assert finding.candidates[0].cause.name == "cpu_quota"
    assert (
        explanation.answer[0]
        == "The network is limited: a CPU quota stops the load's threads for part of the time."
    )
    assert len(explanation.answer) == 1
    assert finding.candidates[0].cause.advice.startswith("Raise or remove the quota")


def test_a_natural_limit_is_reported_as_normal() -> None:
    explanation = explain(campaign(ONE, SimulatedTreatment(SENDER_SATURATED)))
    assert "This is normal for an unpaced load." in explanation.findings[0].text


def test_a_natural_limit_with_low_confidence_is_not_reported_as_normal() -> None:
    hardly = {**SENDER_SATURATED, "time_sender_running_percent": 58.0}
    explanation = explain(campaign(ONE, SimulatedTreatment(hardly)))
    assert explanation.findings[0].candidates[0].confidence == "possible"
    assert explanation.answer == ("The network is possibly limited: the sending thread saturates its CPU.",)
    assert "This is normal" not in explanation.findings[0].text


def test_treatments_with_the_same_limit_share_a_finding_largest_group_first() -> None:
    explanation = explain(
        campaign(
            FOUR,
            SimulatedTreatment(QUOTA),
            SimulatedTreatment(SENDER_SATURATED),
            SimulatedTreatment(SENDER_SATURATED),
            SimulatedTreatment(SENDER_SATURATED),
        )
    )
    most, fewer = findings_of_kind(explanation.findings, "limit")
    assert most.text.startswith("3 of 4 treatments: sender runs 97.0 % of time, sending thread's CPU 98.0 %")
    assert "saturates" not in most.text
    assert most.treatment_indices == (1, 2, 3)
    assert fewer.text.startswith("1 stream: a CPU quota stops the load's threads for part of the time (very")
    assert " Evidence: time in which the CPU quota stopped the sending endpoint 60.0 %" in fewer.text
    assert fewer.treatment_indices == (0,)
    assert explanation.answer[0].startswith("The network is limited in 3 of 4 treatments:")


def test_the_treatment_with_the_median_score_represents_its_group() -> None:
    made = [
        SimulatedTreatment({**QUOTA, "sender_throttled_percent": explanation})
        for explanation in (9.0, 7.0, 8.0, 10.0)
    ]
    finding = explain(campaign(FOUR, *made)).findings[0]
    assert finding.details["representative"] == 2


def test_a_group_of_all_treatments_is_named_all() -> None:
    explanation = explain(campaign(FOUR, *[SimulatedTreatment(SENDER_SATURATED)] * 4))
    assert explanation.findings[0].text.startswith("All 4 treatments: ")


def test_without_a_matching_cause_the_finding_names_the_closest_one() -> None:
    explanation = explain(campaign(ONE, SimulatedTreatment({**IDLE, "sender_throttled_percent": 3.0})))
    finding = explanation.findings[0]
    assert finding.kind == "not explained" and finding.candidates == ()
    assert finding.details["cause"] == "not explained"
    assert finding.text == (
        "No cause fits the evidence well enough. The closest cause is \"a CPU quota stops the load's threads "
        'for part of the time" (score 0.10).'
    )
    assert explanation.answer == ("The counters do not explain what limits the network.",)


def test_trials_without_counters_are_reported() -> None:
    explanation = explain(campaign(ONE, SimulatedTreatment({})))
    assert "The trials recorded none of the counters that the causes need." in explanation.findings[0].text
    unjudged = explanation.findings[0].details["unscored"]
    assert isinstance(unjudged, dict) and unjudged["cpu_quota"][0] == "busiest_cpu_percent"


def test_the_chart_shows_the_supporting_metric_by_treatment_or_trial() -> None:
    alone, several = (
        explain(campaign(study, *[SimulatedTreatment(QUOTA)] * count)).findings[0].chart
        for study, count in ((ONE, 1), (FOUR, 4))
    )
    assert alone is not None and several is not None
    assert [row["x"] for row in alone.rows] == [f"trial {number}" for number in range(1, 7)]
    assert [row["x"] for row in several.rows] == ["1 stream", "2 streams", "3 streams", "4 streams"]
    assert {row["y"] for row in several.rows} == {60.0} and several.threshold == 2
    assert (
        several.chart_type == "bars"
        and several.y_label == "time in which the CPU quota stopped the sending endpoint (% of time)"
    )


def test_the_chart_prefers_measured_metrics_to_item_counts() -> None:
    counted = {**IDLE, "receive_queues": 4.0, "switch_drops_per_s": 12_800.0, "other_cpus_idle_percent": 30.0}
    finding = explain(campaign(ONE, SimulatedTreatment(counted))).findings[0]
    assert finding.details["cause"] == "one_queue" and finding.chart is not None
    assert finding.chart.title == "Packets dropped at the switch" and finding.chart.y_label.endswith("(k/s)")


def test_a_bar_is_the_median_of_the_trials_with_their_range() -> None:
    summary = campaign(FOUR, *[SimulatedTreatment(QUOTA)] * 4)
    first, *others = summary.treatments
    points = tuple(
        replace(point, evidence={**QUOTA, "sender_throttled_percent": 40.0 + 10 * number})
        for number, point in enumerate(first.points)
    )
    picture = explain(replace(summary, treatments=(replace(first, points=points), *others))).findings[0].chart
    assert picture is not None
    assert [picture.rows[0][end] for end in ("low", "y", "high")] == [40, 65, 90]


def test_too_few_trials_are_reported_and_enough_trials_are_not() -> None:
    few = findings_of_kind(explain(campaign(ONE, SimulatedTreatment(trials=3))).findings, "instrument")
    enough = findings_of_kind(explain(campaign(ONE, SimulatedTreatment(trials=6))).findings, "instrument")
    assert [finding.details["cause"] for finding in few] == ["too_few_trials"] and enough == []
    assert few[0].text == (
        "The treatment has too few trials for an interval (3 trials). A 95 % interval of the median needs "
        "at least 6."
    )


def test_two_trials_with_different_limits_give_an_ambiguous_answer_first() -> None:
    explanation = explain(_two_trials(3e9, {**SENDER_SATURATED, **QUOTA}))
    assert explanation.findings[0].details["cause"] == "too_few_trials"
    assert explanation.findings[0].text.endswith(
        "The two trials have different values and limits, and either trial may be typical."
    )
    (answer,) = explanation.answer
    assert answer == "The two trials have different values and limits, so the limit is unknown."
    assert explanation.findings[0].candidates[0].cause == get_cause("too_few_trials")


def test_two_trials_with_equal_values_or_limits_give_the_limit_first() -> None:
    for explanation in (
        explain(_two_trials(1e10, {**SENDER_SATURATED, **QUOTA})),
        explain(_two_trials(3e9, SENDER_SATURATED)),
    ):
        assert explanation.findings[0].kind == "limit"
        assert explanation.answer[0].startswith("The network is")
        assert "too_few_trials" in [finding.details.get("cause") for finding in explanation.findings]


def _two_trials(second: float, evidence: Mapping[str, float]) -> CampaignSummary:
    """Return a campaign with a trial of 10 Gbit/s and a saturated sender, and a second trial."""
    summary = campaign(ONE, SimulatedTreatment(SENDER_SATURATED, trials=2))
    (treatment,) = summary.treatments
    first, other = (replace(point, values={"goodput_bps": 1e10}) for point in treatment.points)
    points = (first, replace(other, values={"goodput_bps": second}, evidence=evidence))
    return replace(summary, treatments=(replace(treatment, points=points),))


def test_a_campaign_without_trials_has_no_findings() -> None:
    explanation = explain(campaign(ONE, SimulatedTreatment(trials=0)))
    assert (
        explanation.answer == ("No treatment has been measured yet, so there is nothing to explain.",)
        and explanation.findings == ()
    )


def test_a_generator_at_its_limit_is_an_instrument_finding() -> None:
    explanation = explain(
        campaign(
            ONE,
            SimulatedTreatment({**SENDER_SATURATED, "generator_limited": 1.0, "sampler_cpu_percent": 1.0}),
        )
    )
    assert explanation.findings[0].kind == "instrument"
    assert explanation.findings[0].details["cause"] == "instrument_limit"


def test_results_without_evidence_can_be_explained() -> None:
    explanation = explain(jumbo_campaign())
    assert findings_of_kind(explanation.findings, "not explained")


def test_explaining_twice_gives_the_same_result() -> None:
    summary = campaign(FOUR, *[SimulatedTreatment(SENDER_SATURATED)] * 4)
    assert explain(summary) == explain(replace(summary))


def test_a_limit_of_the_bench_is_not_reported_for_the_network() -> None:
    study = 'title = "t"\nworkload = "tcp_rr"\n[factors]\nrate = "400 k/s"\n'
    explanation = explain(campaign(study, SimulatedTreatment({**IDLE, "rate_achieved_percent": 36.0})))
    assert (
        explanation.answer[0]
        == "The bench, not the network, limits the results: the bench reaches its own limit."
    )


def test_a_chart_scales_its_unit_and_names_omitted_bars() -> None:
    shaped = {**IDLE, "overlimits_per_s": 6280.0}
    picture = explain(campaign(ONE, SimulatedTreatment(shaped, trials=14))).findings[0].chart
    assert picture is not None and picture.y_label == "packets delayed by shapers (k/s)"
    assert {row["y"] for row in picture.rows} == {6.28} and picture.threshold == 0.02
    assert picture.title == "Packets delayed by shapers (first 12 of 14 trials)"
