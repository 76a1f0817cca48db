"""The third set of red-team causes: declarations, order, and helpers that work without a testbed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.redteam import campaign
from bench.redteam.causes_third import CAUSES
from bench.redteam.causes_third.order import interleave
from bench.redteam.model import NOTHING, STREAM_COUNTS, THIRD, WORKLOADS, Run, Shape, tcp
from bench.redteam.plan import make_ordered_rounds
from bench.redteam.runner import is_documented
from bench.redteam.target import Target

CAUSES_PAGE = Path(__file__).parents[2] / "docs" / "causes.md"
FAULTS = [cause for cause in CAUSES if not cause.is_without_fault]
CONTROLS = [cause for cause in CAUSES if cause.is_control]


def make_target() -> Target:
    return Target({}, {}, 0, (0, 1), tcp(1), "bridge")


def test_every_fault_of_the_third_set_has_two_intensities_and_a_documented_name() -> None:
    page = CAUSES_PAGE.read_text()
    assert len(FAULTS) >= 30
    assert {cause.part for cause in CAUSES} == {THIRD}
    assert all(len(set(cause.intensities)) == 2 for cause in FAULTS)
    assert [name for cause in FAULTS for name in cause.accepted if not is_documented(name, page)] == []
    assert not any(NOTHING in cause.accepted for cause in FAULTS)


def test_controls_of_the_third_set_run_every_workload_and_count() -> None:
    loads = {(cause.loads[0].workload, cause.loads[0].count) for cause in CONTROLS}
    assert loads == {(workload, count) for workload in WORKLOADS for count in STREAM_COUNTS}
    assert len(CONTROLS) >= 24


def test_faults_of_the_third_set_use_every_workload_and_count() -> None:
    loads = {load for cause in FAULTS for load in cause.loads}
    assert {load.workload for load in loads} == set(WORKLOADS)
    assert {load.count for load in loads} == set(STREAM_COUNTS)


def test_rounds_keep_the_declared_order_and_run_everything_once() -> None:
    rounds = make_ordered_rounds(CAUSES, [Shape(2)])
    positions = {cause.id: number for number, cause in enumerate(CAUSES)}
    for runs in rounds:
        numbers = [positions[run.cause.id] for run in runs]
        assert numbers == sorted(numbers)
    counts = Counter((run.cause.id, run.intensity) for runs in rounds for run in runs)
    assert set(counts.values()) == {1}
    assert len(counts) == 2 * len(FAULTS) + len(CONTROLS)
    half = Counter(run.intensity for run in rounds[0] if not run.cause.is_control)
    assert abs(half[0] - half[1]) <= len(FAULTS) // 10


def test_families_take_turns_with_controls_in_between() -> None:
    a, b, c = FAULTS[:3]
    assert interleave(((a, b), (c,)), CONTROLS[:2]) == (a, c, CONTROLS[0], b, CONTROLS[1])


def test_file_names_do_not_show_the_cause() -> None:
    for cause in FAULTS:
        name = campaign.file_name(Run(cause, 1, Shape(2), cause.loads[0], "bridge"))
        assert not any(word in name for word in cause.id.split("-"))
