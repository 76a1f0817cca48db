"""Scores as if no rule existed for a run's cause."""

from __future__ import annotations

import pytest

from bench.redteam.unknown_causes import first_cause_without_rules
from tests.explain.campaigns import Evidence, SimulatedTreatment, campaign

pytestmark = pytest.mark.pure

STUDY = 'title = "t"\n[factors]\nstreams = 1\n'
DROPPING: Evidence = {
    "programs_time_percent": 40.0,
    "load_cpus_occupied_percent": 99.0,
    "path_loss_percent": 3.0,
}


def test_a_cause_without_rules_leaves_the_next_name_and_its_confidence() -> None:
    summary = campaign(STUDY, SimulatedTreatment(DROPPING))
    known, unknown = (first_cause_without_rules(summary, causes) for causes in ((), ("path_loss",)))
    assert known is not None and unknown is not None
    assert (known.cause, unknown.cause) == ("path_loss", "other_programs")
    # Lost packets do not follow from other programs.
    assert unknown.confidence == "likely"


def test_nothing_is_named_if_no_other_rule_fits() -> None:
    summary = campaign(STUDY, SimulatedTreatment({"path_loss_percent": 3.0, "overlimits_per_s": 0.0}))
    known = first_cause_without_rules(summary, ())
    assert known is not None and known.cause == "path_loss"
    assert first_cause_without_rules(summary, ("path_loss",)) is None
