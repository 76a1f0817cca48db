"""Search method `mlrsearch`: FD.io's Multiple Loss Ratio search by its own library.

The optional library (PyPI MLRsearch, Apache-2.0) implements draft-ietf-bmwg-mlrsearch. A load is a lower
bound for a goal if at least half of its steps keep the goal, else an upper bound. The result is the highest
lower bound below the lowest upper bound. This matches the definition of throughput in docs/search.md, but has
no interval of known confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.search.interface import Device, GoalResult, SearchParameters, SearchResult
from vnetbench.search.step_log import OutOfTimeError, SearchStepLog


@dataclass(frozen=True)
class MlrSearchSettings:
    """Settings of the library. The defaults are the library's own and the draft's examples."""

    full_steps_to_decide_load: float = 21.0
    """Total duration of the steps that decide about a load, in full steps ("duration sum")."""
    max_share_of_failing_steps: float = 0.5
    """Share of these steps that may miss the goal. One half matches the definition of throughput."""
    preceding_targets: int = 2
    """Number of coarser searches before that of the requested width."""


def import_mlrsearch_library() -> Any:
    """Import and return the library; raises BenchError if it is not installed."""
    try:
        import MLRsearch as mlr  # noqa: N813
    except ImportError:
        raise BenchError(
            'method "mlrsearch" needs the library MLRsearch of FD.io, which is not installed',
            where="search.method",
            fix="pip install 'vnetbench[mlrsearch]', or use method \"vnetbench\"",
        ) from None
    return mlr


def search(
    device: Device, parameters: SearchParameters, seed: int, settings: MlrSearchSettings | None = None
) -> SearchResult:
    """Search the throughput for each goal. The library draws no random numbers, so `seed` is not used.

    Raises:
        BenchError: The library is not installed.
    """
    mlr: Any = import_mlrsearch_library()
    settings = settings or MlrSearchSettings()
    log = SearchStepLog(device, parameters)

    class Measurer(mlr.AbstractMeasurer):  # type: ignore[misc]
        def measure(self, intended_duration: float, intended_load: float) -> Any:
            step = log.measure(intended_load, intended_duration)
            return mlr.MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                offered_count=step.sent,
                forwarding_count=min(step.sent, step.received),
            )

    goals = {
        goal: mlr.SearchGoal(
            loss_ratio=goal,
            exceed_ratio=settings.max_share_of_failing_steps,
            relative_width=parameters.relative_width,
            initial_trial_duration=parameters.step_s,
            final_trial_duration=parameters.step_s,
            duration_sum=settings.full_steps_to_decide_load * parameters.step_s,
            preceding_targets=settings.preceding_targets,
            fail_fast=False,
        )
        for goal in parameters.goals
    }
    controller = mlr.MultipleLossRatioSearch(
        config=mlr.Config(
            goals=list(goals.values()),
            min_load=parameters.min_load_fps,
            max_load=parameters.max_load_fps,
            # The library's limit is on the clock. `log` limits the total duration of the steps instead.
            search_duration_max=1e9,
            warmup_duration=None,
        )
    )
    out_of_time = False
    try:
        controller.search(measurer=Measurer(), debug=lambda _: None)
    except OutOfTimeError:
        out_of_time = True
    answers = tuple(
        _build_goal_result(controller, goals[goal], parameters, out_of_time) for goal in parameters.goals
    )
    return SearchResult(answers, tuple(log.steps))


def _build_goal_result(
    controller: Any, goal: Any, parameters: SearchParameters, out_of_time: bool
) -> GoalResult:
    bounds = controller.database.get_relevant_bounds(controller.scaling.goal_to_final_target[goal])
    low = float(bounds.clo) if bounds.clo else 0.0
    high = float(bounds.chi) if bounds.chi else parameters.max_load_fps
    narrow = high <= low * (1 + parameters.relative_width) or math.isclose(
        high, low * (1 + parameters.relative_width), rel_tol=1e-3
    )
    if low >= parameters.max_load_fps * (1 - 1e-9):
        return GoalResult(goal.loss_ratio, low, low, low, None, "generator")
    if out_of_time and not narrow:
        return GoalResult(goal.loss_ratio, low, low, high, None, "time")
    return GoalResult(goal.loss_ratio, low, low, high, None, "device" if low else "nothing passes")
