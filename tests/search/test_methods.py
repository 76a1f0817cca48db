"""Every method: what it finds of devices that any of them must get right, and what it says of the others."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.search.search_parameters import ASKED, Rote, sharp
from vnetbench.errors import BenchError
from vnetbench.search.interface import SearchParameters, total_time_s
from vnetbench.search.methods import METHODS, run_search

EACH = pytest.mark.parametrize("method", METHODS)


@EACH
@pytest.mark.parametrize("limit_fps", [3_141.0, 271_828.0, 9_876_543.0])
def test_every_method_finds_a_sharp_limit_within_the_width_for_each_goal(
    method: str, limit_fps: float
) -> None:
    found = run_search(method, Rote(sharp(limit_fps)), ASKED, seed=1)

    for answer, goal in zip(found.goal_results, ASKED.goals, strict=True):
        assert answer.goal == goal
        assert answer.throughput_fps == pytest.approx(limit_fps / (1 - goal), rel=ASKED.relative_width)
        assert answer.low_fps <= answer.throughput_fps <= answer.high_fps
        assert answer.high_fps <= answer.low_fps * (1 + ASKED.relative_width) * 1.001
        assert answer.limited_by == "device"


@EACH
def test_a_device_without_loss_is_limited_by_the_generator(method: str) -> None:
    found = run_search(method, Rote(lambda *_: 0.0), ASKED, seed=1)

    assert {answer.limited_by for answer in found.goal_results} == {"generator"}
    assert {answer.throughput_fps for answer in found.goal_results} == {ASKED.max_load_fps}


@EACH
def test_a_device_that_loses_every_frame_passes_nothing(method: str) -> None:
    found = run_search(method, Rote(lambda load, duration, _: load * duration), ASKED, seed=1)

    assert {answer.limited_by for answer in found.goal_results} == {"nothing passes"}
    assert {answer.throughput_fps for answer in found.goal_results} == {0.0}


@EACH
def test_no_step_starts_that_would_end_after_the_time_limit(method: str) -> None:
    asked = replace(ASKED, time_limit_s=4.0)

    found = run_search(method, Rote(sharp(1e6)), asked, seed=1)

    assert total_time_s(found.steps, asked.settle_s) <= 4.0
    assert "time" in {answer.limited_by for answer in found.goal_results}


@EACH
def test_steps_are_those_of_the_device_and_within_the_load_range(method: str) -> None:
    device = Rote(sharp(1e5))

    found = run_search(method, device, ASKED, seed=1)

    assert list(found.steps) == device.steps
    assert all(
        ASKED.min_load_fps * 0.999 <= step.load_fps <= ASKED.max_load_fps * 1.001 for step in found.steps
    )


@EACH
def test_a_search_works_with_one_goal_and_longer_steps(method: str) -> None:
    asked = SearchParameters((0.001,), 0.02, 1e4, 1e6, step_s=60.0, time_limit_s=1e5)

    (answer,) = run_search(method, Rote(sharp(2e5)), asked, seed=1).goal_results

    assert answer.throughput_fps == pytest.approx(2e5 / 0.999, rel=0.02)


def test_a_missing_library_is_an_error_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MLRsearch", None)

    with pytest.raises(BenchError, match=r"pip install 'vnetbench\[mlrsearch\]'"):
        run_search("mlrsearch", Rote(sharp(1e5)), ASKED, seed=1)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"goals": ()}, "goals"),
        ({"goals": (0.1, 0.0)}, "goals"),
        ({"goals": (1.0,)}, "goal"),
        ({"min_load_fps": 0.0}, "min 0"),
        ({"max_load_fps": 10.0}, "max 10"),
        ({"relative_width": 0.0}, "width"),
        ({"confidence": 1.0}, "confidence"),
        ({"step_s": 0.0}, "durations"),
    ],
    ids=str,
)
def test_invalid_search_parameters_are_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        replace(ASKED, **wrong)
