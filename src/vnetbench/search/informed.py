"""vnetbench's own search: each step is the one that is expected to tell most in its time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from vnetbench.search import passing
from vnetbench.search.device import Answer, Asked, Device, Found, LimitedBy, Step
from vnetbench.search.log import Log, OutOfTimeError
from vnetbench.search.passing import Belief, Floats, Hint, Seen

_SHORTEST_S = 0.05
_CANDIDATES = 14
"""Loads that are considered for each goal and length, spread over where the throughput may lie."""
_NARROW_CELLS = 20
_HINT_FLOOR = 0.001


def search(device: Device, asked: Asked, seed: int) -> Found:
    """The throughput for each goal, with intervals that hold it at the asked confidence."""
    log = Log(device, asked)
    lengths = step_lengths(asked.step_s)
    random = np.random.default_rng(seed)
    curves = [Curve(goal, asked.least_fps, asked.most_fps, lengths) for goal in asked.goals]
    try:
        # What an overloaded device forwards is the best first guess, and costs one short step.
        _learn(curves, log.measure(asked.most_fps, lengths[0]), lengths)
        while open_curves := [curve for curve in curves if not settled(curve, asked)]:
            load, length = _next_step(open_curves, asked, lengths, random)
            _learn(curves, log.measure(load, length), lengths)
    except OutOfTimeError:
        pass
    return Found(tuple(answer(curve, asked) for curve in curves), tuple(log.steps))


def step_lengths(step_s: float) -> tuple[float, ...]:
    """The lengths of steps that are used: the full one last, and tenths and hundredths of it before."""
    return tuple(step_s / by for by in (100, 10) if step_s / by >= _SHORTEST_S) + (step_s,)


@dataclass
class Curve:
    """What one goal's search has seen so far, and what it believes."""

    goal: float
    least_fps: float
    most_fps: float
    lengths: tuple[float, ...]
    seen: list[Seen] = field(default_factory=list)
    overloads: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.least, self.most = math.log(self.least_fps), math.log(self.most_fps)
        self.grid = passing.first_grid(self.least, self.most)
        self.evidences = [passing.evidence(self.grid, [], level) for level in range(len(self.lengths))]
        self._believe()

    def learn(self, step: Step, level: int) -> None:
        """One more step of this goal."""
        seen = Seen(level, math.log(step.load_fps), step.loss_ratio <= self.goal)
        self.seen.append(seen)
        self.evidences[level] += passing.one_more(self.grid, seen)
        if not seen.passed:
            forwarded = step.load_fps * (1 - step.loss_ratio) / (1 - self.goal)
            self.overloads.append(
                (seen.log_load - math.log(max(forwarded, self.least_fps / 10)), seen.log_load)
            )
        self._believe()
        for _ in range(8):
            if not self._too_coarse():
                break
            self.grid = passing.refined(self.belief)
            self.evidences = [
                passing.evidence(self.grid, self.seen, each) for each in range(len(self.lengths))
            ]
            self._believe()

    def _believe(self) -> None:
        hint = _hint(self.overloads)
        self.belief: Belief = passing.believe(self.grid, self.evidences, self.least, self.most, hint)

    def _too_coarse(self) -> bool:
        for mass in (joint.sum(axis=1) for joint in self.belief.joint):
            low, high = passing.quantiles(self.grid, mass, (0.05, 0.95))
            within = (self.grid.centres >= low) & (self.grid.centres <= high)
            widest = self.grid.widths[within].max(initial=0.0)
            if widest > 0.0005 and np.count_nonzero(within) < _NARROW_CELLS:
                return True
        return False


def _hint(overloads: list[tuple[float, float]]) -> Hint | None:
    if not overloads:
        return None
    ordered = sorted(overloads)
    overload, load = ordered[0]
    forwarded = load - overload
    slope = 0.3
    for other, other_load in ordered[1:]:
        if other > 1.5 * overload:
            slope = min(slope, abs((other_load - other) - forwarded) / (other - overload))
            break
    return Hint(forwarded, _HINT_FLOOR + slope * overload)


def _learn(curves: list[Curve], step: Step, lengths: tuple[float, ...]) -> None:
    for curve in curves:
        curve.learn(step, lengths.index(step.duration_s))


def interval(curve: Curve, asked: Asked) -> tuple[float, float]:
    return passing.shortest_interval(curve.grid, curve.belief.mass, asked.confidence)


def settled(curve: Curve, asked: Asked) -> bool:
    """Whether the goal's interval is as narrow as was asked, or lies where no load can be offered."""
    low, high = interval(curve, asked)
    outside = _share(curve, curve.grid.centres > curve.most), _share(curve, curve.grid.centres < curve.least)
    return high - low <= math.log1p(asked.width) or max(outside) >= asked.confidence


def _share(curve: Curve, where: Floats) -> float:
    return float(curve.belief.mass[where].sum())


def answer(curve: Curve, asked: Asked) -> Answer:
    """The answer as it stands."""
    above = _share(curve, curve.grid.centres > curve.most)
    below = _share(curve, curve.grid.centres < curve.least)
    most, least = asked.most_fps, asked.least_fps
    if above >= asked.confidence:
        return Answer(curve.goal, most, most, most, above, "generator")
    if below >= asked.confidence:
        return Answer(curve.goal, 0.0, 0.0, least, below, "nothing passes")
    low, high = (min(most, max(least, math.exp(bound))) for bound in interval(curve, asked))
    middle = min(high, max(low, math.exp(passing.quantiles(curve.grid, curve.belief.mass, (0.5,))[0])))
    limited_by: LimitedBy = "device" if settled(curve, asked) else "time"
    return Answer(curve.goal, middle, low, high, asked.confidence, limited_by)


def _next_step(
    curves: list[Curve], asked: Asked, lengths: tuple[float, ...], random: np.random.Generator
) -> tuple[float, float]:
    """Load and length of the step that is expected to tell most of the open goals in its time."""
    best, found = -1.0, (asked.most_fps, asked.step_s)
    width = math.log1p(asked.width)
    for level, length in enumerate(lengths):
        loads = np.concatenate([_candidates(curve, level, random) for curve in curves])
        loads = np.clip(loads, curves[0].least, curves[0].most)
        told = sum(passing.expected_information(curve.belief, level, loads, width) for curve in curves)
        rate = np.asarray(told) / (length + asked.settle_s)
        first = int(np.argmax(rate))
        if rate[first] > best:
            best, found = float(rate[first]), (float(math.exp(loads[first])), length)
    return min(asked.most_fps, max(asked.least_fps, found[0])), found[1]


def _candidates(curve: Curve, level: int, random: np.random.Generator) -> Floats:
    """Loads over the range of likely throughputs at this length; drawn, so that no two searches are alike."""
    shares = (np.arange(_CANDIDATES) + random.uniform()) / _CANDIDATES
    own = curve.belief.joint[level].sum(axis=1)
    return passing.quantiles(curve.grid, own, shares)
