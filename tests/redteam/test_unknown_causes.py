"""Scores as if no rule existed for a run's cause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.redteam import effects
from bench.redteam.model import Label
from bench.redteam.scoring import Named, Verdict
from bench.redteam.unknown_causes import format_scores, judge_runs, named_without_rules
from tests.explain.campaigns import Evidence, SimulatedTreatment, campaign

pytestmark = pytest.mark.pure

STUDY = 'title = "t"\n[factors]\nstreams = 1\n'
DROPPING: Evidence = {
    "programs_time_percent": 40.0,
    "load_cpus_occupied_percent": 99.0,
    "path_loss_percent": 3.0,
}
LABEL = Label(
    run_id="x", cause="netem-loss", family="links", part="development", intensity=0, value="3%",
    accepted=("path_loss",), shape="2", load="tcp_stream-1", workload="tcp_stream", vswitch="bridge",
    effect=effects.EFFECT,
)  # fmt: skip
ACCEPTED = Named("path_loss", "very likely", is_fault=True)
OTHER = Named("other_programs", "very likely", is_fault=True)


def test_a_cause_without_rules_leaves_the_next_name_and_its_confidence() -> None:
    summary = campaign(STUDY, SimulatedTreatment(DROPPING))
    known, unknown = (named_without_rules(summary, causes)[0] for causes in ((), ("path_loss",)))
    assert (known.cause, unknown.cause) == ("path_loss", "other_programs")
    # Lost packets do not follow from other programs.
    assert unknown.confidence == "likely"


def test_nothing_is_named_if_no_other_rule_fits() -> None:
    summary = campaign(STUDY, SimulatedTreatment({"path_loss_percent": 3.0, "overlimits_per_s": 0.0}))
    assert named_without_rules(summary, ())[0].cause == "path_loss"
    assert named_without_rules(summary, ("path_loss",)) == ()


def test_a_file_that_cannot_be_read_is_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "broken.vnb").write_bytes(b"no database")
    broken = replace(LABEL, results="broken.vnb")
    (verdict,) = judge_runs(tmp_path, [broken])
    assert verdict.read_error and not verdict.is_scored_fault
    lines = list(format_scores([verdict], with_details=False))
    assert lines[0] == "1 runs: 1 not explained because of an error"
    assert "broken.vnb" in lines[1]


def test_disturbed_runs_are_scored_only_on_request(tmp_path: Path) -> None:
    busy = replace(LABEL, other_share=0.9, error="no results file")
    assert judge_runs(tmp_path, [busy])[0].disturbed
    assert not judge_runs(tmp_path, [busy], with_disturbed=True)[0].disturbed


def test_an_accepted_name_without_its_rules_does_not_mislead() -> None:
    verdicts = [Verdict(LABEL, (named,), disturbed=False) for named in (ACCEPTED, OTHER, OTHER)]
    lines = list(format_scores(verdicts, with_details=True))
    assert [line.split()[0] for line in lines[:3]] == ["right", "WRONG", "WRONG"]
    (misleading,) = (line for line in lines if "of runs with an effect" in line)
    assert "(2 of 3)" in misleading
    assert any(line.endswith("other_programs 2") for line in lines)
