"""The second set of red-team causes: declarations, and helpers that work without a testbed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.redteam import campaign
from bench.redteam.causes_second import CAUSES, common
from bench.redteam.corpus import BY_ID
from bench.redteam.corpus import CAUSES as ALL_CAUSES
from bench.redteam.model import NOTHING, SECOND, STREAM_COUNTS, WORKLOADS, Run, Shape, tcp
from bench.redteam.plan import make_rounds
from bench.redteam.runner import is_documented, make_label
from bench.redteam.target import Target

CAUSES_PAGE = Path(__file__).parents[2] / "docs" / "causes.md"
FAULTS = [cause for cause in CAUSES if not cause.is_without_fault]
SHAPES = (Shape(2), Shape(2, is_busy=True))


def make_target() -> Target:
    return Target({}, {}, 0, (0, 1), tcp(1), "bridge")


def test_every_cause_of_the_second_set_is_in_its_part_with_three_intensities() -> None:
    assert len(FAULTS) >= 30
    assert {cause.part for cause in CAUSES} == {SECOND}
    assert {len(cause.intensities) for cause in CAUSES} == {3}
    assert all(len(set(cause.intensities)) == 3 for cause in FAULTS)
    assert len(BY_ID) == len(ALL_CAUSES)


def test_accepted_names_of_the_second_set_are_documented_or_marked() -> None:
    page = CAUSES_PAGE.read_text()
    assert [name for cause in CAUSES for name in cause.accepted if not is_documented(name, page)] == []


def test_controls_of_the_second_set_run_every_workload_and_count() -> None:
    controls = [cause for cause in CAUSES if cause.is_control]
    runs = [run for runs in make_rounds(controls, SHAPES, seed=1) for run in runs]
    assert {(run.load.workload, run.load.count) for run in runs} == {
        (workload, count) for workload in WORKLOADS for count in STREAM_COUNTS
    }
    assert len({run.id for run in runs}) >= 30


def test_a_harmless_injection_is_labelled_as_without_a_fault() -> None:
    cause = BY_ID["slow-results-disk"]
    label = make_label(Run(cause, 0, SHAPES[0], cause.loads[0], "bridge"), cause.is_without_fault)
    assert cause.inject is not None
    assert label.is_control
    assert label.accepted == (NOTHING,)


def test_file_names_do_not_show_the_cause() -> None:
    for cause in FAULTS:
        name = campaign.file_name(Run(cause, 1, SHAPES[0], cause.loads[0], "bridge"))
        assert not any(word in name for word in cause.id.split("-"))


def test_two_faults_split_the_intensity() -> None:
    seen: list[object] = []
    inject = common.two_faults(lambda t, v, s: seen.append(v), lambda t, v, s: seen.append(("other", v)))
    with ExitStack() as stack:
        inject(make_target(), "0.01 30", stack)
    assert seen == ["0.01", ("other", "30")]
