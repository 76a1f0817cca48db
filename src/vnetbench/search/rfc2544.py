"""The search as hardware testers do it: RFC 2544 §26.1 by halving, one full step a load, each goal by itself.

The first step is at the most load. A load whose loss is within the goal is a lower end, any other an upper
one, and the next lies midway, until both are within the width. One step decides, whatever made it lose.
"""

from __future__ import annotations

from vnetbench.search.interface import Device, GoalResult, SearchParameters, SearchResult
from vnetbench.search.step_log import OutOfTimeError, StepLog


def search(device: Device, asked: SearchParameters, seed: int) -> SearchResult:
    """The highest load found for each goal. There is nothing to draw: `seed` is not used."""
    log = StepLog(device, asked)
    answers = tuple(_halve(log, asked, goal) for goal in asked.goals)
    return SearchResult(answers, tuple(log.steps))


def _halve(log: StepLog, asked: SearchParameters, goal: float) -> GoalResult:
    low, high = 0.0, asked.max_load_fps
    try:
        if log.measure(high, asked.step_s).loss_ratio <= goal:
            return GoalResult(goal, high, high, high, None, "generator")
        while high > asked.min_load_fps and high - low > asked.relative_width * low:
            middle = max(asked.min_load_fps, ((low or asked.min_load_fps) + high) / 2)
            # The least load itself is tried only when all above it has failed.
            if low == 0 and middle <= asked.min_load_fps * (1 + asked.relative_width):
                middle = asked.min_load_fps
            passed = log.measure(middle, asked.step_s).loss_ratio <= goal
            low, high = (middle, high) if passed else (low, middle)
    except OutOfTimeError:
        return GoalResult(goal, low, low, high, None, "time")
    return GoalResult(goal, low, low, high, None, "device" if low else "nothing passes")
