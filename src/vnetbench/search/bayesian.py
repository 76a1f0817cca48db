"""vnetbench's own search: each step maximises the expected information per time.

A `GoalEstimator` holds the posterior of each goal. The search chooses the step with the highest expected
information about the open goals divided by its duration. When all goals are known, it checks for loads below
that lose frames although higher loads pass (`monotonicity`), and continues below such a load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.goal_estimator import GoalEstimator, step_durations_s
from vnetbench.search.interface import (
    Device,
    GoalResult,
    LimitOfThroughput,
    SearchEstimate,
    SearchParameters,
    SearchResult,
    SearchStep,
)
from vnetbench.search.monotonicity import MAX_NEIGHBOUR_LOAD_RATIO, MonotonicityCheck
from vnetbench.search.remaining_time import expected_full_steps
from vnetbench.search.stability import widen_if_changed
from vnetbench.search.step_log import OutOfTimeError, SearchStepLog, step_overhead_s

_CANDIDATE_LOADS_PER_GOAL_AND_STEP_DURATION = 14
"""Number of candidate loads per goal and step duration, spread over the likely throughputs."""


def search(
    device: Device,
    parameters: SearchParameters,
    seed: int,
    report_estimate: Callable[[SearchEstimate], None] = lambda _: None,
) -> SearchResult:
    """Search the throughput for each goal, with intervals at the requested confidence.

    `report_estimate` is called before each step but the first.
    """
    log = SearchStepLog(device, parameters)
    bayesian_search = BayesianSearch(parameters, seed)
    try:
        while (planned := bayesian_search.plan_step()) is not None:
            if log.steps:
                report_estimate(
                    SearchEstimate(bayesian_search.goal_results(), bayesian_search.expected_remaining_s())
                )
            bayesian_search.add_step(log.measure(planned.load_fps, planned.duration_s))
    except OutOfTimeError:
        pass
    return SearchResult(bayesian_search.final_goal_results(), tuple(log.steps))


class PlannedStep(NamedTuple):
    """The load and the duration of a step that is to be measured."""

    load_fps: float
    duration_s: float


class BayesianSearch:
    """State of a search: `plan_step` chooses the next step, and `add_step` learns from a measured one.

    The measured steps alone determine the estimates. So steps that were stored give the same estimates again
    without the cost of planning them.
    """

    def __init__(self, parameters: SearchParameters, seed: int) -> None:
        self.steps: list[SearchStep] = []
        self._parameters = parameters
        self._durations_s = step_durations_s(parameters.step_s)
        self._random = np.random.default_rng(seed)
        self.estimators = [
            GoalEstimator(goal, parameters.min_load_fps, parameters.max_load_fps, self._durations_s)
            for goal in parameters.goals
        ]
        self._monotonicity_check = MonotonicityCheck(parameters)
        self._missed_load_below_kept_fps_by_goal: dict[float, float] = {}

    def plan_step(self) -> PlannedStep | None:
        """Return the next step; None if the search is complete."""
        parameters, check = self._parameters, self._monotonicity_check
        if not self.steps:
            # The forwarding rate of an overloaded device is the best first guess and needs one short step.
            return PlannedStep(parameters.max_load_fps, self._durations_s[0])
        if check.unconfirmed_load is not None:
            return PlannedStep(check.unconfirmed_load.load_fps, check.unconfirmed_load.next_step_duration_s)
        if (load_fps := self._next_load_of_monotonicity_check_fps()) is not None:
            return PlannedStep(self._round_and_limit_load(load_fps), self._durations_s[0])
        if waiting := self.open_estimators():
            beside_s = step_overhead_s(self.steps, parameters.settle_s)
            load_fps, duration_s = _most_informative_step(waiting, parameters, beside_s, self._random)
            return PlannedStep(self._round_and_limit_load(load_fps), duration_s)
        return None

    def add_step(self, step: SearchStep) -> None:
        """Update the estimates with the next measured step."""
        check = self._monotonicity_check
        is_confirmation = check.unconfirmed_load is not None
        if not is_confirmation and self._are_intervals_narrow_enough_to_check():
            check.examine_steps([step], self.estimators)
        self.steps.append(step)
        for estimator in self.estimators:
            estimator.add_steps([step])
        if is_confirmation:
            missed_goals = check.add_confirmation(step)
            self._missed_load_below_kept_fps_by_goal.update(dict.fromkeys(missed_goals, step.load_fps))
            self.estimators = [
                _create_estimator_below(step.load_fps, estimator, self.steps)
                if estimator.goal in missed_goals
                else estimator
                for estimator in self.estimators
            ]
        if check.unconfirmed_load is None and self._are_intervals_narrow_enough_to_check():
            check.examine_steps(self.steps, self.estimators)

    def open_estimators(self) -> list[GoalEstimator]:
        """Return the estimators of the goals whose intervals are too wide."""
        return [
            each for each in self.estimators if not _is_interval_narrow_or_outside(each, self._parameters)
        ]

    def expected_remaining_s(self) -> float:
        """Return the expected time until the search is complete: at most the rest of the time limit."""
        parameters = self._parameters
        beside_s = step_overhead_s(self.steps, parameters.settle_s)
        spent_s = sum(
            max(step.duration_s + parameters.settle_s, step.elapsed_s or 0.0) for step in self.steps
        )
        full_step_s = parameters.step_s + beside_s
        left_s = full_step_s * expected_full_steps(
            self.open_estimators(), parameters.relative_width, spent_s / full_step_s
        )
        check_steps = self._monotonicity_check.expected_step_count(self.estimators, self.steps)
        left_s += check_steps * (self._durations_s[0] + beside_s)
        if (load := self._monotonicity_check.unconfirmed_load) is not None:
            left_s += load.next_step_duration_s + beside_s
        return min(left_s, max(0.0, parameters.time_limit_s - spent_s))

    def goal_results(self) -> tuple[GoalResult, ...]:
        """Return the result of each goal so far."""
        return _make_monotonic(
            [
                replace(
                    _build_goal_result(each, self._parameters),
                    missed_load_below_kept_load_fps=self._missed_load_below_kept_fps_by_goal.get(each.goal),
                )
                for each in self.estimators
            ]
        )

    def final_goal_results(self) -> tuple[GoalResult, ...]:
        """Return the result of each goal with the range of a throughput that changed during the search."""
        parameters = self._parameters
        return _make_monotonic(
            [
                widen_if_changed(
                    result,
                    [step for step in self.steps if estimator.is_load_in_considered_range(step)],
                    parameters.confidence,
                )
                for result, estimator in zip(self.goal_results(), self.estimators, strict=True)
            ]
        )

    def _next_load_of_monotonicity_check_fps(self) -> float | None:
        """Return the next load of the monotonicity check, which needs intervals as narrow as its loads.

        Returns:
            None if the check is complete, or an interval is too wide.
        """
        if not self._are_intervals_narrow_enough_to_check():
            return None
        return self._monotonicity_check.next_load_fps(self.estimators, self.steps)

    def _are_intervals_narrow_enough_to_check(self) -> bool:
        """Return whether each interval is narrow enough to check the loads below."""
        return all(
            _is_interval_narrow_or_outside(each, self._parameters, MAX_NEIGHBOUR_LOAD_RATIO - 1)
            for each in self.estimators
        )

    def _round_and_limit_load(self, load_fps: float) -> float:
        """Return the load within the limits and rounded.

        The last bit of a sum, which depends on the number of threads, must change no step.
        """
        rounded_fps = float(f"{load_fps:.6g}")
        return min(self._parameters.max_load_fps, max(self._parameters.min_load_fps, rounded_fps))


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


def _is_interval_narrow_or_outside(
    estimator: GoalEstimator, parameters: SearchParameters, relative_width: float | None = None
) -> bool:
    """Return whether the goal's interval is narrow enough, or outside the loads that can be offered."""
    low, high = estimator.log_load_interval(parameters.confidence)
    narrow = high - low <= math.log1p(relative_width or parameters.relative_width)
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
        min(most, math.exp(bound)) if bound >= estimator.min_log_load else 0.0
        for bound in estimator.log_load_interval(parameters.confidence)
    )
    high = max(high, least)
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


def _most_informative_step(
    estimators: Sequence[GoalEstimator],
    parameters: SearchParameters,
    beside_load_s: float,
    random: np.random.Generator,
) -> tuple[float, float]:
    """Return load and duration of the step with the highest expected information per time."""
    width = math.log1p(parameters.relative_width)
    best_information, load, length = -1.0, 0.0, parameters.step_s
    for level, length_s in enumerate(estimators[0].step_durations_s):
        # The loads are random, so that repeated searches of a device do not all miss the same loads.
        shares = (
            np.arange(_CANDIDATE_LOADS_PER_GOAL_AND_STEP_DURATION) + random.uniform()
        ) / _CANDIDATE_LOADS_PER_GOAL_AND_STEP_DURATION
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
        information /= length_s + beside_load_s
        best = int(np.argmax(information))
        if information[best] > best_information:
            best_information, load, length = float(information[best]), float(loads[best]), length_s
    return math.exp(load), length
