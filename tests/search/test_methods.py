"""Every method: what it finds of devices that any of them must get right, and what it says of the others."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.search.search_parameters import PARAMETERS, ScriptedDevice, sharp_limit
from vnetbench.errors import BenchError
from vnetbench.search.interface import SearchParameters, total_time_with_settling_s
from vnetbench.search.methods import SEARCH_BY_METHOD, run_search

EACH = pytest.mark.parametrize("method", SEARCH_BY_METHOD)


@EACH
@pytest.mark.parametrize("limit_fps", [3_141.0, 271_828.0, 9_876_543.0])
def test_every_method_finds_a_sharp_limit_within_the_width_for_each_goal(
    method: str, limit_fps: float
) -> None:
    result = run_search(method, ScriptedDevice(sharp_limit(limit_fps)), PARAMETERS, seed=1)

    for goal_result, goal in zip(result.goal_results, PARAMETERS.goals, strict=True):
        assert goal_result.goal == goal
        assert goal_result.throughput_fps == pytest.approx(
            limit_fps / (1 - goal), rel=PARAMETERS.relative_width
        )
        assert goal_result.low_fps <= goal_result.throughput_fps <= goal_result.high_fps
        assert goal_result.high_fps <= goal_result.low_fps * (1 + PARAMETERS.relative_width) * 1.001
        assert goal_result.limited_by == "device"


@EACH
def test_a_device_without_loss_is_limited_by_the_generator(method: str) -> None:
    result = run_search(method, ScriptedDevice(lambda *_: 0.0), PARAMETERS, seed=1)

    assert {goal_result.limited_by for goal_result in result.goal_results} == {"generator"}
    assert {goal_result.throughput_fps for goal_result in result.goal_results} == {PARAMETERS.max_load_fps}


@EACH
def test_a_device_that_loses_every_frame_passes_nothing(method: str) -> None:
    result = run_search(method, ScriptedDevice(lambda load, duration, _: load * duration), PARAMETERS, seed=1)

    assert {goal_result.limited_by for goal_result in result.goal_results} == {"nothing passes"}
    assert {goal_result.throughput_fps for goal_result in result.goal_results} == {0.0}


@EACH
def test_no_step_starts_that_would_end_after_the_time_limit(method: str) -> None:
    parameters = replace(PARAMETERS, time_limit_s=4.0)

    result = run_search(method, ScriptedDevice(sharp_limit(1e6)), parameters, seed=1)

    assert total_time_with_settling_s(result.steps, parameters.settle_s) <= 4.0
    assert "time" in {goal_result.limited_by for goal_result in result.goal_results}


@EACH
def test_steps_are_those_of_the_device_and_within_the_load_range(method: str) -> None:
    device = ScriptedDevice(sharp_limit(1e5))

    result = run_search(method, device, PARAMETERS, seed=1)

    assert list(result.steps) == device.steps
    assert all(
        PARAMETERS.min_load_fps * 0.999 <= step.load_fps <= PARAMETERS.max_load_fps * 1.001
        for step in result.steps
    )


@EACH
def test_a_search_works_with_one_goal_and_longer_steps(method: str) -> None:
    parameters = SearchParameters((0.001,), 0.02, 1e4, 1e6, step_s=60.0, time_limit_s=1e5)

    (goal_result,) = run_search(method, ScriptedDevice(sharp_limit(2e5)), parameters, seed=1).goal_results

    assert goal_result.throughput_fps == pytest.approx(2e5 / 0.999, rel=0.02)


def test_a_missing_library_is_an_error_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MLRsearch", None)

    with pytest.raises(BenchError, match=r"pip install 'vnetbench\[mlrsearch\]'"):
        run_search("mlrsearch", ScriptedDevice(sharp_limit(1e5)), PARAMETERS, seed=1)


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
        replace(PARAMETERS, **wrong)
