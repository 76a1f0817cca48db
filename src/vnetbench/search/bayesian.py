"""vnetbench's own search: each step is the one that is expected to tell most in its time.

What it knows of each goal is a `Curve`. A step's worth is the information that it is expected to give of the
throughputs of all goals that are still open, over what it costs. When all are known it looks below them for
loads that lose although higher ones do not (`below`), and goes on beneath one that it finds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.goal_estimator import GoalEstimator, step_lengths
from vnetbench.search.interface import (
    Device,
    GoalResult,
    LimitedBy,
    SearchParameters,
    SearchResult,
    SearchStep,
)
from vnetbench.search.monotonicity import MonotonicityCheck
from vnetbench.search.step_log import OutOfTimeError, StepLog

_CANDIDATES = 14
"""Loads that are weighed for each goal and length, spread over where the throughput may lie."""


def search(device: Device, asked: SearchParameters, seed: int) -> SearchResult:
    """The throughput for each goal, with intervals that hold it at the asked confidence."""
    log = StepLog(device, asked)
    lengths = step_lengths(asked.step_s)
    random = np.random.default_rng(seed)
    curves = [GoalEstimator(goal, asked.min_load_fps, asked.max_load_fps, lengths) for goal in asked.goals]
    watch = MonotonicityCheck(asked, lengths)

    def measure(load_fps: float, duration_s: float) -> SearchStep:
        # Rounded, lest the last bit of a sum, which another number of threads may change, change a step.
        rounded_fps = float(f"{load_fps:.6g}")
        step = log.measure(min(asked.max_load_fps, max(asked.min_load_fps, rounded_fps)), duration_s)
        for curve in curves:
            curve.learn([step])
        return step

    try:
        # What an overloaded device forwards is the best first guess, and costs one short step.
        measure(asked.max_load_fps, lengths[0])
        while True:
            if watch.suspect is not None:
                step = measure(watch.suspect.load_fps, asked.step_s)
                bad_for = watch.judge(step)
                curves = [
                    _below(step.load_fps, curve, log.steps) if curve.goal in bad_for else curve
                    for curve in curves
                ]
            elif waiting := [curve for curve in curves if not _is_settled(curve, asked)]:
                measure(*_most_telling(waiting, asked, random))
            elif (look := watch.next_look(curves, log.steps)) is not None:
                watch.looked(measure(look, lengths[0]), curves)
            else:
                break
    except OutOfTimeError:
        pass
    return SearchResult(_ascending([_answer(curve, asked) for curve in curves]), tuple(log.steps))


def _below(load_fps: float, curve: GoalEstimator, steps: Sequence[SearchStep]) -> GoalEstimator:
    """A curve for the same goal that knows only of loads up to this one."""
    anew = GoalEstimator(curve.goal, math.exp(curve.least), load_fps, curve.lengths, open_above=False)
    anew.learn(steps)
    return anew


def _is_settled(curve: GoalEstimator, asked: SearchParameters) -> bool:
    """Whether the goal's interval is as narrow as asked, or where no load can be offered."""
    low, high = curve.interval(asked.confidence)
    narrow = high - low <= math.log1p(asked.relative_width)
    return narrow or max(curve.chance_above(), curve.chance_below()) >= asked.confidence


def _answer(curve: GoalEstimator, asked: SearchParameters) -> GoalResult:
    """The answer as it stands."""
    most, least = asked.max_load_fps, asked.min_load_fps
    if curve.chance_above() >= asked.confidence:
        return GoalResult(curve.goal, most, most, most, curve.chance_above(), "generator")
    if curve.chance_below() >= asked.confidence:
        return GoalResult(curve.goal, 0.0, 0.0, least, curve.chance_below(), "nothing passes")
    low, high = (min(most, max(least, math.exp(bound))) for bound in curve.interval(asked.confidence))
    middle = min(high, max(low, math.exp(curve.median())))
    limited_by: LimitedBy = "device" if _is_settled(curve, asked) else "time"
    return GoalResult(curve.goal, middle, low, high, asked.confidence, limited_by)


def _ascending(answers: Sequence[GoalResult]) -> tuple[GoalResult, ...]:
    """The answers with what a stricter goal already proves for the laxer ones after it."""
    found: list[GoalResult] = []
    for answer in answers:
        if found:
            before = found[-1]
            answer = replace(
                answer,
                throughput_fps=max(before.throughput_fps, answer.throughput_fps),
                low_fps=max(before.low_fps, answer.low_fps),
                high_fps=max(before.high_fps, answer.high_fps),
            )
        found.append(answer)
    return tuple(found)


def _most_telling(
    curves: Sequence[GoalEstimator], asked: SearchParameters, random: np.random.Generator
) -> tuple[float, float]:
    """Load and length of the step that is expected to tell most of these goals in its time."""
    width = math.log1p(asked.relative_width)
    most_told, load, length = -1.0, 0.0, asked.step_s
    for level, length_s in enumerate(curves[0].lengths):
        # The loads are drawn, so that searches of the same device do not all share the same blind spots.
        shares = (np.arange(_CANDIDATES) + random.uniform()) / _CANDIDATES
        loads = np.concatenate(
            [posterior.quantiles(each.belief.grid, each.belief.mass_at(level), shares) for each in curves]
        )
        loads = np.clip(loads, math.log(asked.min_load_fps), math.log(asked.max_load_fps))
        told = np.zeros(len(loads))
        for curve in curves:
            told += posterior.expected_information(curve.belief, level, loads, width)
        told /= length_s + asked.settle_s
        best = int(np.argmax(told))
        if told[best] > most_told:
            most_told, load, length = float(told[best]), float(loads[best]), length_s
    return math.exp(load), length
