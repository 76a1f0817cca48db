"""Plans of experiments: the original treatment and a variant per candidate cause."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests import fixtures
from tests.explain.campaigns import SimulatedTreatment, campaign
from tests.report.explanations import QUOTA, RECEIVER
from vnetbench.commands import proof
from vnetbench.estimate.experiments import estimate_experiments, has_same_study
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.experiment_plan import plan_first_possible_experiment
from vnetbench.explain.model import CandidateCause, Explanation, Finding
from vnetbench.study.model import Level, Plan, Study

pytestmark = pytest.mark.pure


@pytest.fixture
def measured(tmp_path_factory: pytest.TempPathFactory) -> CampaignSummary:
    """Campaign of one stream, twice as fast with an MTU of 9000 as with 1500."""
    file, _ = fixtures.create_results_file(tmp_path_factory.mktemp("proof") / "r.vnb")
    for block in range(6):
        for treatment in range(2):
            rates = [1e9 * (1 + treatment) * (1 + 0.01 * block)] * 20
            file.add_trial(fixtures.make_trial(treatment, block, rates=rates), block)
    return summarize(file)


def finding(*settings: dict[str, Level], typical: int = 0) -> Finding:
    candidates = [
        CandidateCause(replace(cause, experiment_levels=setting), 0.9, "likely", ())
        for cause, setting in zip((RECEIVER, QUOTA, RECEIVER), settings, strict=False)
    ]
    return Finding("limit", "", (0, 1), tuple(candidates), details={"representative": typical})


def test_the_plan_has_the_treatment_and_a_variant_per_candidate(measured: CampaignSummary) -> None:
    plan = plan_first_possible_experiment(
        measured, [finding({"streams": 4}, {"socket_buffer": 1048576}, {"streams": 8})]
    )
    assert plan is not None
    base, first, second = (dict(each.factors) for each in plan.plan.treatments)
    assert {**base, "streams": 4} == first and {**base, "socket_buffer": 1048576} == second
    assert base["mtu"] == measured.treatments[0].factors["mtu"]
    assert base["streams"] == 1 and base["socket_buffer"] == "auto"


def test_the_plan_has_at_least_six_short_trials_of_the_same_study(measured: CampaignSummary) -> None:
    plan = plan_first_possible_experiment(measured, [finding({"streams": 4})])
    assert plan is not None
    assert plan.study.precision.min_trials == plan.study.precision.max_trials >= 6
    assert plan.study.timing.duration_s is not None and plan.study.timing.duration_s <= 5
    assert plan.study.text == measured.study_text


def test_a_cpu_list_can_be_compared_with_a_word() -> None:
    study = 'title = "t"\n[factors]\ncpus = "0,2-3/1"\nirq_cpus = "1"\n'
    plan = plan_first_possible_experiment(
        campaign(study, SimulatedTreatment()), [finding({"irq_cpus": "apart"})]
    )
    assert plan is not None
    assert [each.factors["irq_cpus"] for each in plan.plan.treatments] == ["1", "apart"]


@pytest.mark.parametrize(("of_study", "own"), [(3.0, 3.0), (60.0, 5.0), (None, 1.0)])
def test_trials_last_as_long_as_in_the_campaign_up_to_a_maximum(
    measured: CampaignSummary, of_study: float | None, own: float
) -> None:
    timed = replace(measured, timing=replace(measured.timing, duration_s=of_study))
    plan = plan_first_possible_experiment(timed, [finding({"streams": 4})])
    assert plan is not None and plan.study.timing.duration_s == own


def test_more_streams_get_a_thread_each_in_both_treatments() -> None:
    study = 'title = "t"\n[factors]\nstreams = 1\nthreads = 1\n'
    plan = plan_first_possible_experiment(
        campaign(study, SimulatedTreatment()), [finding({"streams": 2, "threads": "auto"})]
    )
    assert plan is not None
    levels = [(each.factors["streams"], each.factors["threads"]) for each in plan.plan.treatments]
    assert levels == [(1, 1), (2, "auto")]


def test_the_baseline_of_a_switch_is_its_opposite(measured: CampaignSummary) -> None:
    plan = plan_first_possible_experiment(measured, [finding({"tso": "on"})])
    assert plan is not None
    assert [each.factors["tso"] for each in plan.plan.treatments] == ["off", "on"]


def test_a_candidate_without_a_setting_is_skipped(measured: CampaignSummary) -> None:
    plan = plan_first_possible_experiment(measured, [finding({}), finding({}, {"streams": 4}, typical=1)])
    assert plan is not None
    assert plan.treatment.index == 1 and [each.cause.name for each in plan.candidates] == ["cpu_quota"]
    assert plan_first_possible_experiment(measured, [finding({})]) is None
    assert plan_first_possible_experiment(measured, [finding({"streams": 1})]) is None  # it has that already


def test_the_first_of_two_contradictory_settings_is_tested(measured: CampaignSummary) -> None:
    plan = plan_first_possible_experiment(measured, [finding({"streams": 4}, {"transport": "vsock"})])
    assert plan is not None and len(plan.candidates) == 1


def test_a_setting_shared_by_two_candidates_runs_once(measured: CampaignSummary) -> None:
    plan = plan_first_possible_experiment(
        measured, [finding({"streams": 4}, {"streams": 4}, {"socket_buffer": 1048576})]
    )
    assert plan is not None
    assert [each.cause.experiment_levels for each in plan.candidates] == [
        {"streams": 4},
        {"socket_buffer": 1048576},
    ]
    assert len(plan.plan.treatments) == 3


def test_the_treatments_of_the_proof_file_become_experiments(measured: CampaignSummary) -> None:
    (found,) = estimate_experiments(measured)
    assert found.changed_levels == {"mtu": 9000} and found.base_levels["mtu"] == 1500
    assert found.shared_block_count == 6 and found.ratio.value == pytest.approx(2.0, rel=0.05)


def test_a_negative_metric_has_no_ratio_and_gives_no_experiment(measured: CampaignSummary) -> None:
    metric = "latency_increase_p99_us"
    below = tuple(
        replace(each, points=tuple(replace(point, values={metric: -1.0}) for point in each.points))
        for each in measured.treatments
    )
    assert estimate_experiments(replace(measured, deciding_metric=metric, treatments=below)) == ()


def test_a_proof_file_belongs_to_the_campaign_of_the_same_study(measured: CampaignSummary) -> None:
    assert has_same_study(replace(measured, overrides=("streams=1,4",)), measured)
    assert not has_same_study(replace(measured, study_text=f"{measured.study_text}\n"), measured)


def test_the_plan_is_announced_once_when_the_experiment_starts(
    measured: CampaignSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(proof, "explain", lambda _: Explanation((), (finding({"streams": 4}),)))

    def begin(study: Study, plan: Plan, output: Callable[[], Path], console: Console, *_: object) -> str:
        assert out.getvalue() == ""
        assert output() == tmp_path / "r.proof.vnb"
        return "finished"

    monkeypatch.setattr(proof, "run_plan", begin)
    assert proof.run_proof(tmp_path / "r.vnb", measured, (), Console(file=out, width=300)) == "finished"
    assert out.getvalue().startswith("Comparing 4 streams, ")
    assert "with the original treatment (1 stream, MTU 1500)" in out.getvalue()


def test_only_findings_about_the_chosen_treatments_are_tested(
    measured: CampaignSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_first = replace(finding({"streams": 4}), treatment_indices=(0,))
    of_second = replace(finding({"streams": 8}, typical=1), treatment_indices=(1,))
    monkeypatch.setattr(proof, "explain", lambda _: Explanation((), (of_first, of_second)))
    plans: list[Plan] = []

    def begin(study: Study, plan: Plan, *_: object) -> str:
        plans.append(plan)
        return "finished"

    monkeypatch.setattr(proof, "run_plan", begin)
    for chosen in ((), (1,)):
        proof.run_proof(tmp_path / "r.vnb", measured, chosen, Console(file=io.StringIO()))
    assert [plan.treatments[1].factors["streams"] for plan in plans] == [4, 8]
