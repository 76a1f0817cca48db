"""What interventions say about causes, and the finding with its chart, text and JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from tests.explain.campaigns import SENDER_SATURATED, SimulatedTreatment, campaign
from tests.report.explanations import QUOTA, RECEIVER, TRIED
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.interventions.findings import INTERVENTIONS_DETAIL_KEY, intervention_findings
from vnetbench.explain.interventions.measured_cpu_ratios import replace_cpu_ratios_with_measured
from vnetbench.explain.interventions.verdicts import apply_resource_verdicts
from vnetbench.explain.model import CONFIRMED, REFUTED, CandidateCause, ExperimentResult
from vnetbench.explain.rules import get_cause
from vnetbench.report.charts.evidence_charts import evidence_chart
from vnetbench.report.export.explanation_fields import explanation_fields
from vnetbench.report.text.explanation_text import ExplanationText
from vnetbench.report.text.intervention_text import advice_with_outcome, setting_verdict_label
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

STUDY = 'title = "t"\n[factors]\nstreams = 1\n'
LEVELS: dict[str, Level] = {"streams": 1, "direction": "forward", "mtu": 1500}
FALLS, FLAT = Ratio(0.71, 0.67, 0.75, 0.975, 0.0), Ratio(1.0, 0.97, 1.03, 0.975, 0.8)


def intervention(
    resource: str, ratio: Ratio, resource_ratio: float | None = 0.7, **changed: Level
) -> Experiment:
    return replace(
        TRIED,
        ratio=ratio,
        resource=resource,
        resource_ratio=resource_ratio,
        changed_levels=changed or {"cpu_quota": "70 %/none"},
    )


def candidate(name: str, confidence: str = "likely") -> CandidateCause:
    cause = replace(RECEIVER, name=name, experiment_levels={}, is_fault=get_cause(name).is_fault)
    return CandidateCause(cause, 0.9, confidence, ())


def judge(*experiments: Experiment, names: tuple[str, ...]) -> dict[str, str]:
    candidates = [candidate(name) for name in names]
    judged = apply_resource_verdicts(candidates, candidates, LEVELS, experiments)
    return {each.cause.name: each.confidence for each in judged}


def test_a_resource_with_an_elasticity_near_one_confirms_its_cause() -> None:
    experiments = (intervention("sender_cpu_time", FALLS), intervention("link_rate", FLAT, 0.9))
    judged = judge(*experiments, names=("link_full", "sender_cpu"))
    assert judged == {"sender_cpu": CONFIRMED, "link_full": REFUTED}
    assert list(judged) == ["sender_cpu", "link_full"]


def test_a_cause_of_two_resources_is_refuted_only_if_both_do_not_limit() -> None:
    sender, receiver = (intervention(f"{role}_cpu_time", FLAT) for role in ("sender", "receiver"))
    assert judge(sender, names=("cpus_full",)) == {"cpus_full": "likely"}
    assert judge(sender, receiver, names=("cpus_full",)) == {"cpus_full": REFUTED}


def test_a_resource_confirms_only_the_cause_that_the_counters_rank_first() -> None:
    judged = judge(intervention("sender_cpu_time", FALLS), names=("other_programs", "sender_cpu"))
    assert judged == {"other_programs": CONFIRMED, "sender_cpu": "likely"}


def test_a_cause_that_explains_the_limit_stays_before_it() -> None:
    """More CPU time helps, but the firewall rules use it up."""
    taken = intervention("sender_cpu_time", FALLS)
    judged = judge(taken, names=("packet_filtering", "cpus_full"))
    assert list(judged.items()) == [("packet_filtering", "likely"), ("cpus_full", CONFIRMED)]
    # Counters show the loss, and no intervention on it says otherwise.
    assert list(judge(taken, names=("path_loss", "cpus_full"))) == ["path_loss", "cpus_full"]
    # A fault that fits the counters less well than the limit goes behind it.
    weak = replace(candidate("packet_filtering", "possible"), score=0.3)
    candidates = [weak, candidate("cpus_full")]
    ranked = apply_resource_verdicts(candidates, candidates, LEVELS, [taken])
    assert [each.cause.name for each in ranked] == ["cpus_full", "packet_filtering"]


def test_a_confirmed_natural_limit_overtakes_no_fault() -> None:
    """Recorded with streams of neighbours: two connections got 1.94 times the transactions of one."""
    by_counters = [candidate("other_programs", "very likely"), candidate("request_response", "possible")]
    tested = [replace(by_counters[1], confidence=CONFIRMED), by_counters[0]]
    judged = apply_resource_verdicts(by_counters, tested, LEVELS, [])
    assert [each.cause.name for each in judged] == ["other_programs", "request_response"]
    # Neither does a limit that only the interventions find.
    added = judge(intervention("sender_cpu_time", FALLS), names=("path_loss",))
    assert list(added.items()) == [("path_loss", "likely"), ("sender_cpu", CONFIRMED)]


def test_a_limit_that_only_the_interventions_find_overtakes_a_fault_that_is_not_likely() -> None:
    weak = [candidate("duplicates", "possible")]
    taken = intervention("sender_cpu_time", FALLS)
    judged = apply_resource_verdicts(weak, weak, LEVELS, [taken])
    assert [(each.cause.name, each.confidence) for each in judged] == [
        ("sender_cpu", CONFIRMED),
        ("duplicates", "possible"),
    ]


def test_an_open_fault_stays_behind_a_confirmed_fault() -> None:
    limit, weak = candidate("request_response"), candidate("receive_window", "possible")
    open_fault = candidate("path_loss", "very likely")
    tested = [replace(limit, confidence=CONFIRMED), replace(weak, confidence=CONFIRMED), open_fault]
    judged = apply_resource_verdicts([open_fault, limit, weak], tested, LEVELS, [])
    assert [each.cause.name for each in judged] == ["request_response", "receive_window", "path_loss"]


def test_a_cause_is_not_refuted_by_its_advice_if_its_resource_limits() -> None:
    by_counters = [candidate("cpus_full"), candidate("other_programs", "possible")]
    tested = [by_counters[0], candidate("other_programs", REFUTED)]
    judged = apply_resource_verdicts(by_counters, tested, LEVELS, [intervention("sender_cpu_time", FALLS)])
    assert [each.confidence for each in judged] == [CONFIRMED, "possible"]


def test_the_series_itself_shows_how_much_cpu_time_a_quota_left() -> None:
    values = {"sender_cpu_percent": 100.0, "receiver_cpu_percent": 40.0}
    evidence = {**SENDER_SATURATED, "sender_thread_runnable_percent": 100.0}
    proof = campaign(STUDY, SimulatedTreatment(evidence, values=values))
    taken = intervention("sender_cpu_time", FALLS, 0.9)
    (measured_one,) = replace_cpu_ratios_with_measured([taken], proof)
    assert measured_one.resource_ratio == pytest.approx(0.7)
    without_effect = intervention("sender_cpu_time", FLAT, 0.9, cpu_quota="none/100 %")
    (unused,) = replace_cpu_ratios_with_measured([without_effect], proof)
    assert unused.resource == "" and unused.resource_ratio is None


def test_a_resource_confirms_the_first_cause_that_its_own_setting_does_not_refute() -> None:
    by_counters = [candidate("other_programs"), candidate("sender_cpu")]
    tested = [by_counters[1], candidate("other_programs", REFUTED)]
    judged = apply_resource_verdicts(by_counters, tested, LEVELS, [intervention("sender_cpu_time", FALLS)])
    assert {each.cause.name: each.confidence for each in judged} == {
        "sender_cpu": CONFIRMED,
        "other_programs": "likely",
    }


@pytest.mark.parametrize(("ratio", "resource_ratio"), [(FALLS, 0.7), (Ratio(8, 7, 9, 0.975, 0.0), None)])
def test_a_cause_whose_own_setting_refutes_it_is_not_confirmed_by_its_resource(
    ratio: Ratio, resource_ratio: float | None
) -> None:
    limiting = intervention("link_rate", ratio, resource_ratio)
    (judged,) = apply_resource_verdicts(
        [candidate("link_full")], [candidate("link_full", REFUTED)], LEVELS, [limiting]
    )
    assert judged.confidence == "likely"


def test_an_undecided_resource_and_another_treatment_change_nothing() -> None:
    wide = Ratio(0.9, 0.5, 1.6, 0.975, 0.5)
    assert judge(intervention("sender_cpu_time", wide), names=("sender_cpu",)) == {"sender_cpu": "likely"}
    other = replace(intervention("sender_cpu_time", FALLS), base_levels={**TRIED.base_levels, "mtu": 9000})
    assert judge(other, names=("sender_cpu",)) == {"sender_cpu": "likely"}


def test_a_resource_that_limits_adds_its_cause_if_no_rule_found_it() -> None:
    assert judge(intervention("link_rate", Ratio(0.9, 0.89, 0.91, 0.975, 0.0), 0.9), names=("overflow",)) == {
        "link_full": CONFIRMED,
        "overflow": "likely",
    }


def measured() -> CampaignSummary:
    summary = campaign(STUDY, SimulatedTreatment(SENDER_SATURATED))
    base = all_levels(summary, summary.treatments[0])
    experiments = (
        intervention("sender_cpu_time", FALLS),
        intervention("streams", Ratio(1.9, 1.8, 2.0, 0.975, 0.0), 2.0, streams=2),
        intervention("mtu", FLAT, 6.0, mtu=9000),
        intervention("aggregation", Ratio(1.3, None, None, 0.975, None), None, gro="on"),
    )
    return replace(summary, experiments=tuple(replace(each, base_levels=base) for each in experiments))


def test_the_finding_names_the_limit_the_best_change_and_what_does_not_limit() -> None:
    (finding,) = intervention_findings(measured())
    assert "CPU time of the sender limits: 1 % more of it improves goodput by 0.96 %" in finding.text
    assert "The best change is 2 streams: goodput ×1.90 (1.80 to 2.00)." in finding.text
    assert "The MTU does not limit." in finding.text
    assert finding in explain(measured()).findings


def test_the_best_change_is_the_best_decided_one() -> None:
    base = measured()
    wide = replace(base.experiments[-1], ratio=Ratio(2.5, 0.8, 7.8, 0.975, 0.1))
    (finding,) = intervention_findings(replace(base, experiments=(*base.experiments[:-1], wide)))
    assert "The best change is 2 streams: goodput ×1.90 (1.80 to 2.00)." in finding.text


@pytest.mark.parametrize("resource_ratio", [2.0, 0.5])
def test_the_best_change_may_contribute_or_take_something_away(resource_ratio: float) -> None:
    base = measured()
    gain = replace(
        base.experiments[1], ratio=Ratio(1.4, 1.3, 1.45, 0.975, 0.0), resource_ratio=resource_ratio
    )
    (finding,) = intervention_findings(replace(base, experiments=(gain,)))
    assert "The best change is 2 streams: goodput ×1.40 (1.30 to 1.45)." in finding.text


def test_without_a_significant_gain_there_is_no_best_change() -> None:
    base = measured()
    flat = tuple(replace(each, ratio=FLAT) for each in base.experiments)
    (finding,) = intervention_findings(replace(base, experiments=flat))
    assert "best change" not in finding.text


def test_a_limit_whose_removal_gains_is_named_without_an_elasticity() -> None:
    base = measured()
    removal = replace(
        base.experiments[0],
        resource="link_rate",
        resource_ratio=None,
        changed_levels={"link_rate": "none"},
        ratio=Ratio(8.0, 7.0, 9.0, 0.975, 0.0),
    )
    (finding,) = intervention_findings(replace(base, experiments=(removal,)))
    best = "The best change is link rate none: goodput ×8.00 (7.00 to 9.00)."
    assert finding.text == f"The link rate limits. {best}"


def test_the_chart_shows_each_change_with_an_interval_best_first() -> None:
    (finding,) = intervention_findings(measured())
    assert finding.chart is not None
    assert [row["x"] for row in finding.chart.rows] == [
        "2 streams",
        "MTU 9000",
        "CPU time of the sender ×0.70",
    ]
    chart = evidence_chart(finding, 1)
    assert chart is not None and chart.title == "What each change would bring"


def test_the_terminal_has_a_line_for_each_change() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(ExplanationText(explain(measured())))
    (line,) = [line for line in out.getvalue().splitlines() if line.strip().startswith("CPU time of the")]
    assert "×0.71" in line and "limits" in line and "(0.8" in line
    assert "too few trials" in out.getvalue()


def test_the_json_has_the_elasticities() -> None:
    fields = json.loads(json.dumps(explanation_fields(explain(measured()))))
    (finding,) = [each for each in fields["findings"] if each["kind"] == "interventions"]
    first = finding["details"][INTERVENTIONS_DETAIL_KEY][0]
    assert first["changed_levels"] == {"streams": 2} and first["verdict"] == "limits"
    assert first["elasticity"] == pytest.approx(0.926, abs=0.001)
    assert finding["details"][INTERVENTIONS_DETAIL_KEY][1]["elasticity"] is None


def test_an_advice_says_whether_it_was_tried() -> None:
    untried = CandidateCause(RECEIVER, 0.9, "likely", ())
    assert advice_with_outcome(untried).endswith("(Not tried.)")
    tried = replace(untried, experiment_result=ExperimentResult("inconclusive", TRIED))
    assert advice_with_outcome(tried).endswith("Tried: ×1.02 (0.97 to 1.08).")
    assert setting_verdict_label(tried) == "inconclusive"
    assert setting_verdict_label(replace(tried, confidence=CONFIRMED)) == "tried"
    # Without a setting that this testbed has, nothing can be tried.
    assert advice_with_outcome(replace(untried, cause=QUOTA)) == QUOTA.advice
