"""Test whether a throughput was constant during a search, from the outcomes of its steps.

Two explanations of the same outcomes compete: one throughput, and one that changed. A change affects all
steps from some step on, or only some steps in between, or grows with each step. The ratio of the marginal
likelihoods is the Bayes factor. It averages over all times and sizes of a change that are tested, so a change
that many tests look for needs as much evidence as a single one. The search chooses loads by earlier outcomes
only, so its choice needs no correction (likelihood principle: Berger & Wolpert, 1988).

Steps of each duration have their own throughput, and all of these change together.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.interface import GoalResult, SearchStep, ThroughputChange
from vnetbench.search.posterior import Floats, LogLoadGrid

_MIN_STEPS_TO_TEST = 6
"""Fewer steps cannot show a change."""
_MAX_CHANGE_TIMES = 6
"""Number of steps at which a change may begin or end, spread over the search."""
_TESTED_LOG_LOAD_SHIFTS = tuple(
    sign * float(size) for size in np.geomspace(0.006, 0.36, 14) for sign in (-1, 1)
)
"""Changes of the throughput that are tested, in log load."""
_HALF_RANGE_LOG_LOAD, _CELLS = 0.5, 120
"""Range and number of the throughputs that are tested, around the estimate."""


class _Change(NamedTuple):
    kind: ThroughputChange
    start: int
    """The first step with another throughput. A `drift` without an `end` grows from here to the last step."""
    end: int | None

    @property
    def pattern(self) -> str:
        """A name that all changes of the same pattern share."""
        return f"{self.kind}{'' if self.end is not None else ', growing'}"


@dataclass(frozen=True)
class ThroughputRange:
    """The range of a throughput that changed."""

    change: ThroughputChange
    low_fps: float
    high_fps: float


def widen_if_changed(result: GoalResult, steps: Sequence[SearchStep], confidence: float) -> GoalResult:
    """Return the result with the range of its throughput if that changed during these steps."""
    if result.limited_by not in ("device", "time") or not result.throughput_fps:
        return result
    found = find_range_if_throughput_changed(steps, result.goal, result.throughput_fps, confidence)
    if found is None:
        return result
    return replace(
        result,
        low_fps=min(result.low_fps, found.low_fps),
        high_fps=max(result.high_fps, found.high_fps),
        change_during_search=found.change,
    )


def find_range_if_throughput_changed(
    steps: Sequence[SearchStep], goal: float, throughput_fps: float, confidence: float
) -> ThroughputRange | None:
    """Return the range of a throughput that changed; None if these steps do not show a change.

    A Bayes factor of `1 / (1 - confidence)` shows a change.
    """
    middle = math.log(throughput_fps)
    near = [
        step
        for step in steps
        if abs(math.log(step.load_fps) - middle) < _HALF_RANGE_LOG_LOAD + max(_TESTED_LOG_LOAD_SHIFTS)
    ]
    if len(near) < _MIN_STEPS_TO_TEST:
        return None
    changes = _list_changes(len(near))
    durations_s = sorted({step.duration_s for step in near})
    tests = [_ChangeTest(near, goal, middle, duration_s, changes) for duration_s in durations_s]
    log_constant = sum(_log_sum(test.log_joint_probabilities(None, 0.0)) for test in tests)
    candidates = [(change, shift) for change in changes for shift in _TESTED_LOG_LOAD_SHIFTS]
    evidence = np.array(
        [
            sum(_log_sum(test.log_joint_probabilities(*candidate)) for test in tests)
            for candidate in candidates
        ]
    )
    # Each pattern of a change has the same prior probability, however many times of it are tested.
    counts = Counter(change.pattern for change, _ in candidates)
    prior = np.array([1 / (len(counts) * counts[change.pattern]) for change, _ in candidates])
    log_factor = _log_sum(evidence + np.log(prior)) - log_constant
    if log_factor < -math.log(1 - confidence):
        return None
    weights = evidence + np.log(prior)
    change, _ = candidates[int(np.argmax(weights))]
    # The longest steps are the full ones, which define the throughput.
    ranges = [
        _throughput_range(tests[-1], *candidates[index], confidence)
        for index in _credible_change_candidate_indices(weights, confidence)
        if candidates[index][0].kind == change.kind
    ]
    return ThroughputRange(
        change.kind,
        min(low for low, _ in ranges),
        max(high for _, high in ranges),
    )


def _credible_change_candidate_indices(candidate_log_weights: Floats, confidence: float) -> list[int]:
    """Return the likeliest candidates, which together have this probability."""
    chances = np.exp(candidate_log_weights - _log_sum(candidate_log_weights))
    order = np.argsort(chances)[::-1]
    count = int(np.searchsorted(np.cumsum(chances[order]), confidence)) + 1
    return [int(index) for index in order[:count]]


def _throughput_range(
    test: _ChangeTest, change: _Change, shift: float, confidence: float
) -> tuple[float, float]:
    """Return the lowest and the highest throughput if this change is the true one."""
    by_cell = test.log_joint_probabilities(change, shift)
    low, high = posterior.shortest_log_load_interval(test.grid, np.exp(by_cell - by_cell.max()), confidence)
    return math.exp(low + min(0.0, shift)), math.exp(high + max(0.0, shift))


def _list_changes(step_count: int) -> list[_Change]:
    times = [int(each) for each in np.unique(np.linspace(1, step_count - 1, _MAX_CHANGE_TIMES).round())]
    return [
        _Change("drift", 0, None),
        *(_Change("drift", start, step_count) for start in times),
        *(_Change("disturbance", start, end) for start, end in itertools.combinations(times, 2)),
    ]


class _ChangeTest:
    """Likelihoods of throughputs that differ between steps, for the steps of one duration."""

    def __init__(
        self,
        steps: Sequence[SearchStep],
        goal: float,
        middle: float,
        duration_s: float,
        changes: Sequence[_Change],
    ) -> None:
        side = np.geomspace(0.0005, _HALF_RANGE_LOG_LOAD, _CELLS // 2)
        edges = middle + np.concatenate([-side[::-1], side])
        self.grid = LogLoadGrid((edges[1:] + edges[:-1]) / 2, np.diff(edges), np.zeros((0, 0)))
        self._steps = [
            (number, math.log(step.load_fps), step.loss_ratio <= goal)
            for number, step in enumerate(steps)
            if step.duration_s == duration_s
        ]
        self._last_number = len(steps) - 1
        times = {0, len(steps), *(each for change in changes for each in (change.start, change.end or 0))}
        self._sums = {shift: self._sums_until(times, shift) for shift in (0.0, *_TESTED_LOG_LOAD_SHIFTS)}

    def log_joint_probabilities(self, change: _Change | None, shift: float) -> Floats:
        """Return the log of likelihood times prior of each throughput before the change."""
        usual, last = self._sums[0.0], self._last_number + 1
        if change is None:
            total = usual[last]
        elif change.end is None:
            total = self._sums_until({last}, 0.0, growth_per_step=shift / self._last_number)[last]
        else:
            moved = self._sums[shift]
            start, end = change.start, change.end
            total = usual[last] + (moved[end] - moved[start]) - (usual[end] - usual[start])
        prior = self.grid.widths / self.grid.widths.sum()
        return np.asarray(posterior.marginal_log_likelihood(total) + np.log(prior))

    def _sums_until(self, times: Set[int], shift: float, growth_per_step: float = 0.0) -> dict[int, Floats]:
        """Return the log likelihood of all steps before each of these step numbers."""
        total = posterior.log_likelihood_by_throughput_side_and_spread(self.grid, 0.0, True) * 0
        sums, steps = {}, iter(self._steps)
        upcoming = next(steps, None)
        for time in sorted(times):
            while upcoming is not None and upcoming[0] < time:
                number, load, kept = upcoming
                shifted = load - shift - growth_per_step * number
                total = total + posterior.log_likelihood_by_throughput_side_and_spread(
                    self.grid, shifted, kept
                )
                upcoming = next(steps, None)
            sums[time] = total
        return sums


def _log_sum(logarithms: Floats) -> float:
    peak = float(np.max(logarithms))
    return peak + math.log(float(np.exp(logarithms - peak).sum()))
