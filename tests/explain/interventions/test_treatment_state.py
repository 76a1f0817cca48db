"""The state of a treatment as its results file describes it, whichever machine reads the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.explain.campaigns import SENDER_SATURATED, SimulatedTreatment, campaign
from vnetbench.explain.interventions.treatment_state import read_treatment_state

pytestmark = pytest.mark.pure

STUDY = 'title = "t"\n[factors]\nstreams = 8\n'


def sender_capacity(
    facts: Mapping[str, object], evidence: Mapping[str, float], study: str = STUDY
) -> float | None:
    """Return the CPU time that a sender can use whose eight threads are always runnable."""
    all_evidence = {**SENDER_SATURATED, "sender_thread_runnable_percent": 100.0, **evidence}
    values = {"sender_cpu_percent": 800.0, "receiver_cpu_percent": 40.0}
    summary = replace(
        campaign(study, SimulatedTreatment(all_evidence, values=values)), facts={"bench": facts}
    )
    capacity = read_treatment_state(summary, summary.treatments[0]).cpu_capacity_by_vm
    return None if capacity is None else capacity[0]


@pytest.mark.parametrize("reading_cpus", [{0}, set(range(64))])
def test_the_cpus_are_those_of_the_measurement_and_not_of_the_reading_process(
    monkeypatch: pytest.MonkeyPatch, reading_cpus: set[int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: reading_cpus)
    assert sender_capacity({"cpus_allowed": 4}, {"load_cpus": 2.0}) == 4
    assert sender_capacity({}, {"load_cpus": 2.0}) == 2
    # Without both, each thread has at most one CPU.
    assert sender_capacity({}, {}) == 8


def test_the_cpus_of_a_vm_limit_it_more_than_those_of_the_machine() -> None:
    assert sender_capacity({"cpus_allowed": 4}, {}, STUDY + 'cpus = "0-1/2-3"\n') == 2
