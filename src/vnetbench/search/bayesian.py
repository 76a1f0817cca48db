"""vnetbench's own search: each step maximises the expected information per time.

A `GoalEstimator` holds the posterior of each goal. The search chooses the step with the highest expected
information about the open goals divided by its duration. When all goals are known, it checks for loads below
that lose frames although higher loads pass (`monotonicity`), and continues below such a load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.goal_estimator import GoalEstimator, step_durations_s
from vnetbench.search.interface import (
    Device,
    GoalResult,
    LimitOfThroughput,
    SearchParameters,
    SearchResult,
    SearchStep,
)
from vnetbench.search.monotonicity import MonotonicityCheck
from vnetbench.search.step_log import OutOfTimeError, SearchStepLog

_CANDIDATE_LOADS_PER_DURATION = 14
"""Number of candidate loads per goal and step duration, spread over the likely throughputs."""


def search(device: Device, parameters: SearchParameters, seed: int) -> SearchResult:
    """Search the throughput for each goal, with intervals at the requested confidence."""
    log = SearchStepLog(device, parameters)
    lengths = step_durations_s(parameters.step_s)
    random = np.random.default_rng(seed)
    estimators = [
        GoalEstimator(goal, parameters.min_load_fps, parameters.max_load_fps, lengths)
        for goal in parameters.goals
    ]
    monotonicity_check = MonotonicityCheck(parameters)

    def measure(load_fps: float, duration_s: float) -> SearchStep:
        # Rounded, so that the last bit of a sum, which depends on the number of threads, changes no step.
        rounded_fps = float(f"{load_fps:.6g}")
        step = log.measure(
            min(parameters.max_load_fps, max(parameters.min_load_fps, rounded_fps)), duration_s
        )
        for estimator in estimators:
            estimator.add_steps([step])
        return step

    try:
        # The forwarding rate of an overloaded device is the best first guess and needs one short step.
        measure(parameters.max_load_fps, lengths[0])
        while True:
            if monotonicity_check.unconfirmed_load is not None:
                step = measure(monotonicity_check.unconfirmed_load.load_fps, parameters.step_s)
                missed_goals = monotonicity_check.add_full_step(step)
                estimators = [
                    _create_estimator_below(step.load_fps, estimator, log.steps)
                    if estimator.goal in missed_goals
                    else estimator
                    for estimator in estimators
                ]
            elif waiting := [
                estimator
                for estimator in estimators
                if not _is_interval_narrow_or_outside(estimator, parameters)
            ]:
                measure(*_most_informative_load_and_duration(waiting, parameters, random))
            elif (load_fps := monotonicity_check.next_load_fps(estimators, log.steps)) is not None:
                monotonicity_check.add_short_step(measure(load_fps, lengths[0]), estimators)
            else:
                break
    except OutOfTimeError:
        pass
    return SearchResult(
        _make_monotonic([_build_goal_result(estimator, parameters) for estimator in estimators]),
        tuple(log.steps),
    )


def _create_estimator_below(
    load_fps: float, estimator: GoalEstimator, steps: Sequence[SearchStep]
) -> GoalEstimator:
    """Return an estimator of the same goal for loads up to this one."""
    anew = GoalEstimator(
        estimator.goal,
        math.exp(estimator.min_log_load),
        load_fps,
        estimator.step_durations_s,
        may_exceed_max_load=False,
    )
    anew.add_steps(steps)
    return anew


def _is_interval_narrow_or_outside(estimator: GoalEstimator, parameters: SearchParameters) -> bool:
    """Return whether the goal's interval is narrow enough, or outside the loads that can be offered."""
    low, high = estimator.log_load_interval(parameters.confidence)
    narrow = high - low <= math.log1p(parameters.relative_width)
    return (
        narrow
        or max(estimator.chance_above_max_load(), estimator.chance_below_min_load()) >= parameters.confidence
    )


def _build_goal_result(estimator: GoalEstimator, parameters: SearchParameters) -> GoalResult:
    """Return the goal's result so far."""
    most, least = parameters.max_load_fps, parameters.min_load_fps
    if estimator.chance_above_max_load() >= parameters.confidence:
        return GoalResult(estimator.goal, most, most, most, estimator.chance_above_max_load(), "generator")
    if estimator.chance_below_min_load() >= parameters.confidence:
        return GoalResult(
            estimator.goal, 0.0, 0.0, least, estimator.chance_below_min_load(), "nothing passes"
        )
    low, high = (
        min(most, max(least, math.exp(bound))) for bound in estimator.log_load_interval(parameters.confidence)
    )
    middle = min(high, max(low, math.exp(estimator.median_log_load())))
    limited_by: LimitOfThroughput = (
        "device" if _is_interval_narrow_or_outside(estimator, parameters) else "time"
    )
    return GoalResult(estimator.goal, middle, low, high, parameters.confidence, limited_by)


def _make_monotonic(goal_results: Sequence[GoalResult]) -> tuple[GoalResult, ...]:
    """Return the results such that no laxer goal has a lower throughput than a stricter one."""
    results: list[GoalResult] = []
    for result in goal_results:
        if results:
            before = results[-1]
            result = replace(
                result,
                throughput_fps=max(before.throughput_fps, result.throughput_fps),
                low_fps=max(before.low_fps, result.low_fps),
                high_fps=max(before.high_fps, result.high_fps),
            )
        results.append(result)
    return tuple(results)


def _most_informative_load_and_duration(
    estimators: Sequence[GoalEstimator], parameters: SearchParameters, random: np.random.Generator
) -> tuple[float, float]:
    """Return load and duration of the step with the highest expected information per time."""
    width = math.log1p(parameters.relative_width)
    best_information, load, length = -1.0, 0.0, parameters.step_s
    for level, length_s in enumerate(estimators[0].step_durations_s):
        # The loads are random, so that repeated searches of a device do not all miss the same loads.
        shares = (np.arange(_CANDIDATE_LOADS_PER_DURATION) + random.uniform()) / _CANDIDATE_LOADS_PER_DURATION
        loads = np.concatenate(
            [
                posterior.log_load_quantiles(
                    each.throughput_posterior.grid,
                    each.throughput_posterior.probability_by_cell_at(level),
                    shares,
                )
                for each in estimators
            ]
        )
        loads = np.clip(loads, math.log(parameters.min_load_fps), math.log(parameters.max_load_fps))
        information = np.zeros(len(loads))
        for estimator in estimators:
            information += posterior.expected_information_nats(
                estimator.throughput_posterior, level, loads, width
            )
        information /= length_s + parameters.settle_s
        best = int(np.argmax(information))
        if information[best] > best_information:
            best_information, load, length = float(information[best]), float(loads[best]), length_s
    return math.exp(load), length
