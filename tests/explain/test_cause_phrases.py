"""Descriptions of causes with figures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.explain.campaigns import SENDER_SATURATED, SimulatedTreatment, campaign
from vnetbench.explain.cause_phrases import describe_cause
from vnetbench.explain.rules import get_cause

pytestmark = pytest.mark.pure

STREAMS = 'title = "t"\n[factors]\nstreams = [2, 4]\n'


def full_phrase(cause: str, *evidence: Mapping[str, float]) -> str:
    """Return the phrase for two treatments; one evidence counts for both."""
    both = evidence if len(evidence) == 2 else evidence * 2
    summary = campaign(STREAMS, *(SimulatedTreatment({**SENDER_SATURATED, **each}) for each in both))
    return describe_cause(get_cause(cause), summary.treatments).full


def cpus(count: float, threads: float, elsewhere: float = 0.0) -> dict[str, float]:
    return {"load_cpus": count, "threads_per_load_cpu": threads / count, "idle_cpus_elsewhere": elsewhere}


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (cpus(2, 8), "both CPUs are full, shared by 8 threads; more streams cannot help"),
        (cpus(1, 1), "the only CPU is full"),
        (cpus(4, 32), "all 4 CPUs are full, shared by 32 threads; more streams cannot help"),
        (cpus(2, 2, elsewhere=1.9), "both CPUs that the load may use are full"),
        ({}, "the load itself fills all CPUs that it may use"),
    ],
)
def test_full_cpus_are_counted_with_their_threads(evidence: Mapping[str, float], expected: str) -> None:
    assert full_phrase("cpus_full", evidence) == expected


def test_a_phrase_about_several_treatments_holds_for_all_of_them() -> None:
    assert "shared by 4 to 32 threads" in full_phrase("cpus_full", cpus(2, 4), cpus(2, 32))
    assert full_phrase("cpus_full", cpus(1, 4), cpus(2, 4)) == get_cause("cpus_full").description


def test_the_cpu_time_of_other_programs_is_a_number_of_cpus() -> None:
    taken = {"load_cpus_programs_percent": 45.0}
    assert full_phrase("other_programs", {**cpus(2, 2), **taken}) == (
        "other programs take 0.9 of the 2 CPUs that the load may use"
    )
    assert full_phrase("other_programs", {**cpus(1, 2), **taken}) == (
        "other programs take 45 % of the only CPU that the load may use"
    )


def test_a_full_link_has_the_delay_of_its_queue() -> None:
    assert full_phrase("link_full", {"backlog_delay_us": 1200.0}) == (
        "a link or shaper on the path is full: packets wait 1.20 ms in its queue"
    )
