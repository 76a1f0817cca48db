"""Plans of series: their study, the treatments of each intervention, and their session in a campaign."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import fixtures
from tests.campaign.simulated_instrument import SimulatedInstrument
from tests.explain.campaigns import SENDER_SATURATED, SimulatedTreatment, campaign
from tests.report.explanations import QUOTA, RECEIVER
from vnetbench.campaign import progress
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.estimate.experiments import INTERVENTION_FACTS_SUBJECT, estimate_experiments
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.interventions.planner import BASE_TREATMENT_INDEX, InterventionSeries
from vnetbench.explain.interventions.series import MAX_SERIES_DURATION_S, SeriesPlan, plan_series
from vnetbench.explain.model import CandidateCause, Finding
from vnetbench.results.file import ResultsFile
from vnetbench.study.model import Level, Plan, Treatment

pytestmark = pytest.mark.pure

STUDY = 'title = "t"\n[factors]\nstreams = 1\nmtu = [1500, 9000]\n'
CPU_BOUND = {
    **SENDER_SATURATED,
    "time_sender_running_percent": 80.0,
    "time_receiver_running_percent": 20.0,
}


def measured(study: str = STUDY, evidence: Mapping[str, float] = CPU_BOUND) -> CampaignSummary:
    values = {"sender_cpu_percent": 99.0, "receiver_cpu_percent": 40.0}
    treatment = SimulatedTreatment(evidence, values=values)
    count = 2 if "mtu = [" in study else 1
    return campaign(study, *[treatment] * count)


def finding(*settings: Mapping[str, Level], representative: int = 0) -> Finding:
    candidates = [
        CandidateCause(replace(cause, experiment_levels=setting), 0.9, "likely", ())
        for cause, setting in zip((RECEIVER, QUOTA), settings, strict=False)
    ]
    return Finding("limit", "", (0, 1), tuple(candidates), details={"representative": representative})


def plan(
    summary: CampaignSummary, *findings: Finding, chosen: tuple[int, ...] = (), has_root: bool = True
) -> SeriesPlan:
    planned = plan_series(summary, findings, chosen, has_root)
    assert planned is not None
    return planned


def changed_levels(planned: SeriesPlan) -> list[dict[str, Level]]:
    base, *changed = (each.factors for each in planned.plan.treatments)
    return [{name: level for name, level in each.items() if base[name] != level} for each in changed]


def test_each_treatment_changes_one_thing_of_the_unchanged_one() -> None:
    planned = plan(measured(), finding({"streams": 4}))
    assert (
        planned.plan.treatments[BASE_TREATMENT_INDEX].factors.items() >= {"streams": 1, "mtu": 1500}.items()
    )
    changes = changed_levels(planned)
    assert all(len(each) == 1 for each in changes)
    assert {"streams": 4} in changes and {"streams": 2} in changes and {"mtu": 9000} in changes
    assert {"cpu_quota": "85 %/none"} in changes


def test_the_advice_of_the_candidates_comes_first() -> None:
    planned = plan(measured(), finding({"streams": 4}, {"tso": "on", "gso": "on"}))
    assert changed_levels(planned)[:2] == [{"streams": 4}, {"tso": "on", "gso": "on"}]
    assert [each.is_advice for each in planned.series.interventions][:3] == [True, True, False]


def test_an_advice_with_an_invalid_level_marks_no_other_change_as_advice() -> None:
    planned = plan(measured(), finding({"mtu": 10}, {"streams": 4}))
    assert changed_levels(planned)[0] == {"streams": 4}
    assert [each.is_advice for each in planned.series.interventions][:2] == [True, False]


def test_the_study_is_the_same_with_short_trials_and_a_time_limit() -> None:
    planned = plan(measured(), finding())
    assert planned.study.text == STUDY
    assert planned.study.precision.campaign_time_limit_s is not None
    assert planned.study.precision.campaign_time_limit_s < MAX_SERIES_DURATION_S
    assert planned.study.timing.duration_s is not None and planned.study.timing.duration_s <= 1
    assert planned.study.precision.confidence == pytest.approx(0.975)


def test_a_resource_without_a_share_of_the_time_is_not_tested() -> None:
    evidence = {**CPU_BOUND, "time_sender_running_percent": 100.0, "time_receiver_running_percent": 0.0}
    resources = {each.resource for each in plan(measured(evidence=evidence), finding()).series.interventions}
    assert "sender_cpu_time" in resources and "receiver_cpu_time" not in resources


def test_a_chosen_treatment_is_planned_although_another_represents_the_finding() -> None:
    assert plan(measured(), finding({"streams": 4}), chosen=(1,)).treatment.index == 1
    assert plan(measured(), finding({"streams": 4})).treatment.index == 0
    assert plan(measured(), chosen=(1,)).treatment.index == 1


def test_frames_and_logs_of_other_tools_have_no_series() -> None:
    frames = 'title = "t"\nworkload = "frames"\n[factors]\nframe_size = 64\nframe_load = "1 kframe/s"\n'
    assert plan_series(campaign(frames, SimulatedTreatment()), [finding()], (0,), has_root=True) is None
    imported = replace(measured(), testbed_backend="imported")
    assert plan_series(imported, [finding()], (0,), has_root=True) is None


class Clock:
    """A clock that each trial advances, so that a session of a minute takes no time."""

    def __init__(self, trial_s: float) -> None:
        self.now_s, self.trial_s = 0.0, trial_s

    def advance(self, *_: object) -> None:
        self.now_s += self.trial_s


def run_series(path: Path, planned: SeriesPlan, interrupt_at: int | None = None, trial_s: float = 0.8) -> str:
    """Run or resume a series with a simulated instrument whose goodput is proportional to the streams."""
    clock = Clock(trial_s)

    def before(number: int, factors: Mapping[str, Level]) -> None:
        clock.advance()
        if number == interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)

    instrument = SimulatedInstrument(before=before)
    if path.exists():
        file = ResultsFile.open_to_write(path)
        series = InterventionSeries.from_facts(file.facts()[INTERVENTION_FACTS_SUBJECT])
        run_plan = Plan(tuple(Treatment(t.index, t.factors) for t in file.treatments()), planned.plan.seed)
        for trial in file.trials():
            factors = run_plan.treatments[trial.treatment].factors
            instrument.trial_counts[int(factors["streams"]), int(factors["mtu"])] += 1
    else:
        file, series, run_plan = (
            ResultsFile.create(path, planned.study, planned.plan),
            planned.series,
            planned.plan,
        )
        file.add_facts(INTERVENTION_FACTS_SUBJECT, series.to_facts())
    with pytest.MonkeyPatch.context() as patch, SignalHandler() as signal_handler:
        patch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
        session = CampaignSession(
            file,
            planned.study,
            run_plan,
            instrument,
            lambda *_: None,
            lambda: None,
            series.choose_treatments,
        )
        # The simulated clock starts at 0 in each session, and the session's own start must do so too.
        session.progress.session_start_monotonic_s = 0.0
        status = session.run(signal_handler)
    file.close(status)
    return status


def test_a_session_runs_only_what_the_series_chooses_and_names_the_resource(tmp_path: Path) -> None:
    planned = plan(measured(), finding(), has_root=False)
    assert run_series(tmp_path / "s.vnb", planned) == "finished"
    summary = fixtures.read_summary(tmp_path / "s.vnb")
    by_resource = {each.resource: each for each in estimate_experiments(summary)}
    assert by_resource["streams"].ratio.value == pytest.approx(2, rel=0.05)
    assert by_resource["streams"].resource_ratio == 2.0
    assert all(each.trial_count <= 11 for each in summary.treatments[1:])
    assert {each.stop_reason for each in summary.treatments} <= {"trial limit", "not needed"}


def test_a_session_ends_at_its_time_limit(tmp_path: Path) -> None:
    planned = plan(measured(), finding(), has_root=False)
    assert run_series(tmp_path / "s.vnb", planned, trial_s=5.0) == "finished"
    summary = fixtures.read_summary(tmp_path / "s.vnb")
    assert sum(each.trial_count for each in summary.treatments) <= MAX_SERIES_DURATION_S / 5
    assert {each.stop_reason for each in summary.treatments} == {"time limit"}


def test_a_resumed_series_runs_the_same_trials_as_an_uninterrupted_one(tmp_path: Path) -> None:
    planned = plan(measured(), finding(), has_root=False)
    assert run_series(tmp_path / "whole.vnb", planned) == "finished"
    assert run_series(tmp_path / "parts.vnb", planned, interrupt_at=9) == "interrupted"
    assert run_series(tmp_path / "parts.vnb", planned) == "finished"
    whole, parts = (
        [[point.block for point in each.points] for each in fixtures.read_summary(tmp_path / name).treatments]
        for name in ("whole.vnb", "parts.vnb")
    )
    assert whole == parts
