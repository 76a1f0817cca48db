"""How likely a step at a load keeps one goal, learned from steps that did and did not, with its uncertainty.

The curve of that chance falls with the load and is one half at the throughput: that is what throughput means
here. Nothing else of its shape is taken as known. On each side of the throughput it leaves one half over some
distance (`_SPREADS`), which is next to nothing for a sharp limit and wide for a noisy one, towards a share of
steps that go wrong whatever the load (`_LAPSES`): below, steps that a stall hits; above, lucky ones. Both
sides are learned apart, so a second mode above the limit does not pass for noise below it.

Steps of several lengths each have a throughput of their own. That of longer ones is near that of shorter
ones, how near nobody knows beforehand (`_bridge`): so short steps tell where to look, and only long ones can
prove. All of it is Bayes' rule on a grid of log loads, without any drawing of random numbers.

The idea of a threshold found by yes-or-no answers, with the chance of answers beside the point, is that of
psychophysics: Watson & Pelli (1983), "QUEST", Perception & Psychophysics 33(2); Kontsevich & Tyler (1999),
Vision Research 39(16), who also choose the next question by what it is expected to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import erf

Floats = npt.NDArray[np.float64]

_SPREADS = np.geomspace(0.0006, 0.3, 9)
_LAPSES = np.array([0.004, 0.04, 0.15, 0.33])
_LAPSE_PRIOR = np.array([0.5, 0.25, 0.15, 0.1])
_SPREAD_OF = np.repeat(_SPREADS, len(_LAPSES))
_LAPSE_OF = np.tile(_LAPSES, len(_SPREADS))
_SIDE_LOG_PRIOR = np.log(np.tile(_LAPSE_PRIOR, len(_SPREADS)) / len(_SPREADS))

_CELLS = 200
_BEYOND = 0.2
"""How far the grid reaches beyond the loads that can be offered: throughputs that lie outside of them."""
_ABOVE_MOST, _BELOW_LEAST = 0.15, 0.05
"""Chance, before anything is measured, that the throughput is more than can be offered, or less."""

_HINT_SHARE = 0.6

_BRIDGE = ((0.5, 0.002), (0.3, 0.03), (0.15, 0.3))
"""Shares of Student's t with 2 degrees of freedom of these scales; what is left has forgotten all."""


@dataclass(frozen=True)
class Grid:
    """Cells of log load: their centres and widths, and how likely longer steps (columns) move a throughput
    that shorter ones (rows) have."""

    centres: Floats
    widths: Floats
    bridge: Floats


@dataclass(frozen=True)
class Seen:
    """One step as a curve sees it: which of the lengths, where, whether the goal was kept."""

    level: int
    log_load: float
    passed: bool


@dataclass(frozen=True)
class Hint:
    """A guess at the throughput from what the device forwarded when it was overloaded."""

    log_load: float
    scale: float
    """How far it may be off, in log load."""


@dataclass(frozen=True)
class Belief:
    """What is known of one goal's throughput.

    `mass` is the probability of each cell for full steps. `joint[level]` is that of the throughput at this
    length (rows) together with that at full steps (columns). `sides[level]` are the probabilities of each
    shape of the curve at each throughput: of its part below the throughput, and above it.
    """

    grid: Grid
    mass: Floats
    joint: tuple[Floats, ...]
    sides: tuple[tuple[Floats, Floats], ...]


def first_grid(least: float, most: float) -> Grid:
    """Equal cells over all log loads that can be offered, and somewhat beyond."""
    return _from_edges(np.linspace(least - _BEYOND, most + _BEYOND, _CELLS + 1))


def refined(belief: Belief) -> Grid:
    """A grid of the same reach whose cells are narrow where throughputs are likely, at any length of step."""
    grid = belief.grid
    likely = np.mean([joint.sum(axis=1) for joint in belief.joint] + [belief.mass], axis=0)
    # Neighbours share: what is next to a likely cell may be likely once the cells are narrower.
    likely = np.convolve(likely, [0.1, 0.2, 0.4, 0.2, 0.1], "same")
    even = grid.widths / grid.widths.sum()
    share = np.concatenate([[0.0], np.cumsum(0.75 * likely / likely.sum() + 0.25 * even)])
    edges = np.concatenate([grid.centres - grid.widths / 2, [grid.centres[-1] + grid.widths[-1] / 2]])
    return _from_edges(np.interp(np.linspace(0, 1, _CELLS + 1), share / share[-1], edges))


def _from_edges(edges: Floats) -> Grid:
    centres, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    return Grid(centres, widths, _bridge(centres, widths))


def evidence(grid: Grid, steps: Sequence[Seen], level: int) -> Floats:
    """Log likelihood of the steps of one length, for each shape of a side (rows) and throughput (columns).

    A step lies below or above a throughput, never both; the two sides' are in turn: shape (2, shapes, cells).
    """
    found = np.zeros((2, len(_SPREAD_OF), len(grid.centres)))
    for step in steps:
        if step.level == level:
            found += one_more(grid, step)
    return found


def one_more(grid: Grid, step: Seen) -> Floats:
    """What one step adds to `evidence`."""
    above = grid.centres - step.log_load
    expected = above >= 0
    way = erf(np.abs(above) / (_SPREADS[:, None] * np.sqrt(2)))
    lean = (0.5 - _LAPSES)[None, :, None] * way[:, None, :]
    lean = lean.reshape(len(_SPREAD_OF), -1)
    log_chance = np.log(0.5 + np.where(expected == step.passed, lean, -lean))
    return np.stack([np.where(expected, log_chance, 0.0), np.where(expected, 0.0, log_chance)])


def believe(
    grid: Grid,
    evidences: Sequence[Floats],
    least: float,
    most: float,
    hint: Hint | None,
) -> Belief:
    """Bayes' rule: what the steps of all lengths, shortest first, tell of the throughput of the longest."""
    base = _base(grid, least, most, hint)
    bridge = grid.bridge + (1 - sum(share for share, _ in _BRIDGE)) * base[None, :]
    prior = base
    forward: list[Floats] = []
    likelihoods: list[Floats] = []
    sides: list[tuple[Floats, Floats]] = []
    for found in evidences:
        weighted = found + _SIDE_LOG_PRIOR[None, :, None]
        peak = weighted.max(axis=1, keepdims=True)
        shapes = np.exp(weighted - peak)
        total = shapes.sum(axis=1, keepdims=True)
        log_likelihood = (peak + np.log(total)).sum(axis=0)[0]
        likelihood = np.exp(log_likelihood - log_likelihood.max()) + 1e-300
        sides.append((shapes[0] / total[0], shapes[1] / total[1]))
        likelihoods.append(likelihood)
        forward.append(prior * likelihood)
        forward[-1] /= forward[-1].sum()
        prior = forward[-1] @ bridge
    joint = [np.diag(forward[-1])]
    onward: Floats = np.eye(len(grid.centres))
    for level in reversed(range(len(evidences) - 1)):
        onward = bridge @ (likelihoods[level + 1][:, None] * onward)
        both = forward[level][:, None] * onward
        joint.insert(0, both / both.sum())
    return Belief(grid, forward[-1], tuple(joint), tuple(sides))


def chance_of_passing(belief: Belief, level: int, log_loads: Floats) -> Floats:
    """Chance that a step keeps the goal at each load (rows), for each throughput of its length (columns)."""
    below, above = belief.sides[level]
    distance = belief.grid.centres[None, :] - log_loads[:, None]
    way = erf(np.abs(distance)[None] / (_SPREADS[:, None, None] * np.sqrt(2)))
    leaning = []
    for side in (below, above):
        by_spread = (side * (0.5 - _LAPSE_OF)[:, None]).reshape(len(_SPREADS), len(_LAPSES), -1).sum(axis=1)
        leaning.append(np.einsum("sc,slc->lc", by_spread, way))
    return np.asarray(0.5 + np.where(distance >= 0, leaning[0], -leaning[1]))


def expected_information(belief: Belief, level: int, log_loads: Floats, width: float) -> Floats:
    """What a step of this length at each load is expected to tell of the throughput of full steps, nats.

    Of the throughput to this width of log load, that is: where within the likeliest stretch of this width it
    lies is worth nothing, that it lies there and not beside it is worth the most.
    """
    stretch = _stretches(belief, width)
    joint = belief.joint[level] @ stretch
    mass = belief.mass @ stretch
    given = chance_of_passing(belief, level, log_loads) @ (joint / np.maximum(mass, 1e-300))
    return np.asarray(_entropy(given @ mass) - _entropy(given) @ mass)


def _stretches(belief: Belief, width: float) -> Floats:
    """Which stretch of this width each cell belongs to (rows: cells), the likeliest being one of them."""
    grid = belief.grid
    starts = grid.centres[:, None] - grid.centres[None, :]
    within = (starts >= 0) & (starts <= width)
    start = grid.centres[int(np.argmax(belief.mass @ within))]
    number = np.floor((grid.centres - start) / (width * (1 + 1e-9)))
    numbers = np.unique(number)
    return (number[:, None] == numbers[None, :]).astype(float)


def quantiles(grid: Grid, mass: Floats, shares: Sequence[float] | Floats) -> Floats:
    """Log loads below which these shares of the probability lie."""
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    edges = np.concatenate([grid.centres - grid.widths / 2, [grid.centres[-1] + grid.widths[-1] / 2]])
    return np.asarray(np.interp(shares, cumulative / cumulative[-1], edges))


def shortest_interval(grid: Grid, mass: Floats, confidence: float) -> tuple[float, float]:
    """The shortest interval of log load that holds this share of the probability."""
    lower = np.linspace(0, 1 - confidence, 101)
    lows, highs = quantiles(grid, mass, lower), quantiles(grid, mass, lower + confidence)
    best = int(np.argmin(highs - lows))
    return float(lows[best]), float(highs[best])


def _entropy(chance: Floats) -> Floats:
    sure = np.clip(chance, 1e-12, 1 - 1e-12)
    return np.asarray(-sure * np.log(sure) - (1 - sure) * np.log1p(-sure))


def _base(grid: Grid, least: float, most: float, hint: Hint | None) -> Floats:
    """Probability of each cell before any step of any length: even in log load, or near what was forwarded."""
    inside = (grid.centres >= least) & (grid.centres <= most)
    above, below = grid.centres > most, grid.centres < least
    mass = np.where(inside, grid.widths / (most - least), 0.0)
    if hint is not None:
        scale = np.maximum(hint.scale, grid.widths / 2)
        near = _student(grid.centres - hint.log_load, scale) * grid.widths * inside
        mass = (1 - _HINT_SHARE) * mass + _HINT_SHARE * near / near.sum()
    mass = (1 - _ABOVE_MOST - _BELOW_LEAST) * mass
    mass += (_ABOVE_MOST * above + _BELOW_LEAST * below) * grid.widths / _BEYOND
    return np.asarray(mass / mass.sum())


def _bridge(centres: Floats, widths: Floats) -> Floats:
    """Probability of each throughput at the next longer steps (columns), given that of shorter (rows).

    Rows add up to what `_BRIDGE` says; the rest has forgotten all.
    """
    distance = centres[None, :] - centres[:, None]
    mixed = np.zeros_like(distance)
    for share, scale in _BRIDGE:
        # A cell wider than the scale would miss the peak: the scale is at least the cell's own.
        near = _student(distance, np.maximum(scale, widths[None, :] / 2)) * widths[None, :]
        mixed += near * (share / near.sum(axis=1, keepdims=True))
    return mixed


def _student(distance: Floats, scale: float | Floats) -> Floats:
    """Density of Student's t with 2 degrees of freedom, up to a factor that is the same everywhere."""
    spread = 1 + (distance / scale) ** 2 / 2
    return np.asarray(1 / (spread * np.sqrt(spread) * scale))
