"""RFC 2544's own search: from the most load, by halving, one step a load."""

from __future__ import annotations

from dataclasses import replace

from tests.search.search_parameters import PARAMETERS, ScriptedDevice, sharp_limit
from vnetbench.search.methods import run_search


def test_each_goal_starts_at_the_maximum_load_and_uses_full_steps_only() -> None:
    result = run_search("rfc2544", ScriptedDevice(sharp_limit(1e6)), PARAMETERS, seed=1)

    assert result.steps[0].load_fps == PARAMETERS.max_load_fps
    assert sum(step.load_fps == PARAMETERS.max_load_fps for step in result.steps) == len(PARAMETERS.goals)
    assert {step.duration_s for step in result.steps} == {PARAMETERS.step_s}


def test_every_step_halves_the_remaining_interval() -> None:
    one_goal = replace(PARAMETERS, goals=(0.0,), min_load_fps=100.0, max_load_fps=1700.0)

    result = run_search("rfc2544", ScriptedDevice(sharp_limit(1000.0)), one_goal, seed=1)

    assert [step.load_fps for step in result.steps[:4]] == [1700.0, 900.0, 1300.0, 1100.0]


def test_one_unlucky_step_gives_a_wrong_result() -> None:
    first_low_step = ScriptedDevice(
        lambda load, duration, before: load if before == 1 else sharp_limit(1e7)(load, duration, 0)
    )

    goal_result = run_search(
        "rfc2544", first_low_step, replace(PARAMETERS, goals=(0.0,)), seed=1
    ).goal_results[0]

    assert goal_result.throughput_fps < 0.99e7
