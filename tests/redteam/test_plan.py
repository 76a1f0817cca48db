"""The plan of the red-team corpus: parts, balance and blocks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.redteam.causes import BY_ID, CAUSES
from bench.redteam.model import DEVELOPMENT, HELD_OUT, MISSING, STREAM_COUNTS, WORKLOADS, Shape
from bench.redteam.plan import BLOCK_SIZE, group_by_setting, make_ordered_rounds, make_rounds
from bench.redteam.runner import is_documented

CAUSES_PAGE = Path(__file__).parents[2] / "docs" / "causes.md"
CAUSES_THAT_WOULD_FIT = {
    "missing:thread_migration": ("migrat", "affinity"),
    "missing:softirq_budget": ("budget", "softirq"),
    "missing:routing_rules": ("rout",),
    "missing:ack_loss": ("ack_loss", "acks_lost"),
    "missing:path_delay": ("delay", "latency", "round_trip"),
}
"""Parts of the names of causes that would fit an injection whose best name does not exist yet."""


def test_there_are_at_least_sixty_causes_with_three_intensities() -> None:
    faults = [cause for cause in CAUSES if not cause.is_control]
    assert len(faults) >= 60
    assert all(len(cause.intensities) == 3 for cause in CAUSES)
    assert len(BY_ID) == len(CAUSES)


def test_controls_cover_every_workload_and_stream_count() -> None:
    loads = {(cause.loads[0].workload, cause.loads[0].count) for cause in CAUSES if cause.is_control}
    assert loads == {(workload, count) for workload in WORKLOADS for count in STREAM_COUNTS}


def test_the_split_is_by_whole_causes_and_about_even() -> None:
    parts = Counter(cause.part for cause in CAUSES if not cause.is_control)
    assert set(parts) == {DEVELOPMENT, HELD_OUT}
    assert 0.35 < parts[HELD_OUT] / sum(parts.values()) < 0.65


def test_accepted_names_are_documented_or_marked() -> None:
    page = CAUSES_PAGE.read_text()
    names = {name for cause in CAUSES for name in cause.accepted}
    assert [name for name in names if not is_documented(name, page)] == []


def test_a_missing_name_has_no_cause_that_fits() -> None:
    missing = {name for cause in CAUSES for name in cause.accepted if name.startswith(MISSING)}
    assert missing == set(CAUSES_THAT_WOULD_FIT)
    documented = re.findall(r"^### (\w+)$", CAUSES_PAGE.read_text(), flags=re.MULTILINE)
    assert len(documented) > len(missing)
    stale = {
        name: [cause for cause in documented if any(part in cause for part in parts)]
        for name, parts in CAUSES_THAT_WOULD_FIT.items()
    }
    assert {name: found for name, found in stale.items() if found} == {}


def test_every_cause_has_every_intensity_on_every_shape_once() -> None:
    shapes = [Shape(1), Shape(2, is_busy=True)]
    causes = [BY_ID["hog-unpinned"], BY_ID["tbf-sender"], BY_ID["one-packet-cpu"]]
    rounds = make_rounds(causes, shapes, seed=7)
    cells = Counter((run.cause.id, run.intensity, run.shape.id) for runs in rounds for run in runs)
    assert set(cells.values()) == {1}
    assert len(cells) == 2 * 3 * 2 + 3  # one-packet-cpu needs two CPUs
    assert all(len({run.cause.id for run in runs}) == len(runs) for runs in rounds)
    assert make_rounds(causes, shapes, seed=7) == rounds


def test_causes_with_different_numbers_of_intensities_run_each_of_them_once() -> None:
    hog = BY_ID["hog-unpinned"]
    causes = [replace(hog, id=f"with-{count}", intensities=(1, 2, 3)[:count]) for count in (3, 2, 1, 1)]
    expected = {(f"with-{count}", number): 1 + (count == 1) for count in (1, 2, 3) for number in range(count)}
    for rounds in (make_rounds(causes, [Shape(1)], seed=7), make_ordered_rounds(causes, [Shape(1)])):
        runs = [run for runs in rounds for run in runs]
        assert Counter((run.cause.id, run.intensity) for run in runs) == expected


def test_causes_with_one_intensity_all_run_if_no_others_are_selected() -> None:
    control = BY_ID["control-mixed-8"]
    causes = [replace(control, id=name, intensities=(0,)) for name in ("one", "two")]
    (runs,) = make_ordered_rounds(causes, [Shape(1)])
    assert [run.cause.id for run in runs] == ["one", "two"]


def test_a_block_shares_one_setting() -> None:
    runs = make_rounds(CAUSES, [Shape(2)], seed=1)[0]
    blocks = group_by_setting(runs)
    assert sorted(run.id for block in blocks for run in block) == sorted(run.id for run in runs)
    for block in blocks:
        assert len({run.setting for run in block}) == 1
        assert len(block) <= BLOCK_SIZE


@pytest.mark.parametrize(("text", "shape"), [("1", Shape(1)), ("4-busy", Shape(4, is_busy=True))])
def test_a_shape_has_a_name(text: str, shape: Shape) -> None:
    assert Shape.parse(text) == shape
    assert shape.id == text


def test_an_unknown_shape_is_an_error() -> None:
    with pytest.raises(ValueError, match="2-hot"):
        Shape.parse("2-hot")
