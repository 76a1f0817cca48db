"""FD.io's Multiple Loss Ratio search, by its own library: many short steps a load, and the majority decides.

The library (PyPI MLRsearch, Apache-2.0) is what draft-ietf-bmwg-mlrsearch describes; it is optional. A load
is a lower end for a goal where half of its steps or more keep the goal, an upper one where fewer do, and the
answer is the highest lower end below the lowest upper one. That is the throughput as docs/search.md has it,
found without an interval of known confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.search.interface import Device, GoalResult, SearchParameters, SearchResult
from vnetbench.search.step_log import OutOfTimeError, StepLog


@dataclass(frozen=True)
class LibrarySettings:
    """What the library leaves to its user; these are its defaults, which are also the draft's examples."""

    steps_per_load: float = 21.0
    """Length of all full steps at a load that decide about it, in full steps ("duration sum")."""
    exceed_ratio: float = 0.5
    """Share of them that may miss the goal: one half is what the throughput is defined by."""
    preceding_targets: int = 2
    """How many coarser searches precede that of the asked width."""


def load_library() -> Any:
    """The library; raises BenchError where it is not there."""
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
    device: Device, asked: SearchParameters, seed: int, settings: LibrarySettings | None = None
) -> SearchResult:
    """The highest load found for each goal. The library draws nothing: `seed` is not used.

    Raises BenchError where the library is not installed.
    """
    mlr: Any = load_library()
    settings = settings or LibrarySettings()
    log = StepLog(device, asked)

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
            exceed_ratio=settings.exceed_ratio,
            relative_width=asked.relative_width,
            initial_trial_duration=asked.step_s,
            final_trial_duration=asked.step_s,
            duration_sum=settings.steps_per_load * asked.step_s,
            preceding_targets=settings.preceding_targets,
            fail_fast=False,
        )
        for goal in asked.goals
    }
    controller = mlr.MultipleLossRatioSearch(
        config=mlr.Config(
            goals=list(goals.values()),
            min_load=asked.min_load_fps,
            max_load=asked.max_load_fps,
            # Its own limit is on the clock; ours is on the steps' time, in `log`.
            search_duration_max=1e9,
            warmup_duration=None,
        )
    )
    out_of_time = False
    try:
        controller.search(measurer=Measurer(), debug=lambda _: None)
    except OutOfTimeError:
        out_of_time = True
    answers = tuple(_answer(controller, goals[goal], asked, out_of_time) for goal in asked.goals)
    return SearchResult(answers, tuple(log.steps))


def _answer(controller: Any, goal: Any, asked: SearchParameters, out_of_time: bool) -> GoalResult:
    bounds = controller.database.get_relevant_bounds(controller.scaling.goal_to_final_target[goal])
    low = float(bounds.clo) if bounds.clo else 0.0
    high = float(bounds.chi) if bounds.chi else asked.max_load_fps
    narrow = high <= low * (1 + asked.relative_width) or math.isclose(
        high, low * (1 + asked.relative_width), rel_tol=1e-3
    )
    if low >= asked.max_load_fps * (1 - 1e-9):
        return GoalResult(goal.loss_ratio, low, low, low, None, "generator")
    if out_of_time and not narrow:
        return GoalResult(goal.loss_ratio, low, low, high, None, "time")
    return GoalResult(goal.loss_ratio, low, low, high, None, "device" if low else "nothing passes")
