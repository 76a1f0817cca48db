"""How likely a step at a load keeps a goal, as a curve with its uncertainty: Bayes' rule on a grid.

The chance falls with the load and is one half at the throughput: that is what throughput means here. Nothing
else of its shape is taken as known. On each side of the throughput it leaves one half over some distance
(`_SPREADS`), which is next to nothing for a sharp limit and wide for a noisy one, towards a share of steps
that go wrong whatever the load (`_LAPSES`): below it those that a stall hits, above it lucky ones. The sides
are mostly alike (`_ALIKE`), but need not be: a second mode above the limit is no noise below it. How many
frames a step lost beyond the goal is not used, only that it lost them: however bad, it is one step.

StepRunner of each length have a throughput of their own. That of longer ones lies near that of shorter ones, how
near nobody knows beforehand (`_BRIDGE`): short steps tell where to look, and only long ones can prove.

A threshold with lapses on both sides that is found by yes-or-no answers is that of psychophysics: Watson &
Pelli (1983), "QUEST", Perception & Psychophysics 33(2); Kontsevich & Tyler (1999), Vision Research 39(16),
who also ask next what is expected to tell most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import erf

Floats = npt.NDArray[np.float64]

_SPREADS = np.geomspace(0.0006, 0.3, 9)
"""Standard deviations of the curve's sides, in log load."""
_LAPSES = np.array([0.004, 0.04, 0.15, 0.33])
"""Shares of steps that go wrong however far from the throughput."""
_LAPSE_PRIOR = np.array([0.55, 0.22, 0.13, 0.1])
_SHAPES = len(_SPREADS) * len(_LAPSES)
"""A side's shape is one of its spreads with one of its lapses."""
_CHARACTER_PRIOR = 0.65 ** np.arange(len(_SPREADS))
"""How noisy a device is, one of `_SPREADS`: most have a sharp limit, each wider one is less likely (to a
factor)."""
_ALIKE = 0.7
"""A side's spread is near the device's own with this probability, else any."""
_LEAN = np.tile(0.5 - _LAPSES, len(_SPREADS))[:, None]
"""How far from one half the chance comes in the end, for each shape."""


def _shape_prior() -> Floats:
    """Probability of each shape of a side (columns) of devices of each character (rows)."""
    apart = np.abs(np.arange(len(_SPREADS))[:, None] - np.arange(len(_SPREADS))[None, :])
    near = 0.3**apart
    spread = _ALIKE * near / near.sum(axis=1, keepdims=True) + (1 - _ALIKE) / len(_SPREADS)
    return np.asarray((spread[:, :, None] * _LAPSE_PRIOR).reshape(len(_SPREADS), _SHAPES))


_SHAPE_PRIOR = _shape_prior()

_CELLS = 200
_BEYOND = 0.2
"""How far the grid reaches beyond the loads that can be offered, for throughputs that lie outside of them."""
_ABOVE_MOST, _BELOW_LEAST = 0.15, 0.05
"""Chance, before anything is measured, that the throughput is more than can be offered, or less."""
_GUESS_SHARE = 0.75
"""How far a guess from forwarding rates is trusted before any step is judged by its goal."""
_BRIDGE = ((0.6, 0.0015), (0.25, 0.03), (0.1, 0.3))
"""Shares of Student's t with 2 degrees of freedom of these scales; what is left knows nothing."""
_FORGOTTEN = 1 - sum(share for share, _ in _BRIDGE)


@dataclass(frozen=True)
class Grid:
    """Cells of log load: their centres and widths, and for a throughput at shorter steps (rows) how likely
    each is at longer ones (columns), where the shorter steps tell anything at all.
    """

    centres: Floats
    widths: Floats
    bridge: Floats


@dataclass(frozen=True)
class StepOutcome:
    """One step as a curve sees it: which of the lengths, where, whether the goal was kept."""

    level: int
    log_load: float
    kept: bool


@dataclass(frozen=True)
class InitialGuess:
    """Where the throughput may lie, in log load, and how far from there."""

    log_load: float
    scale: float


@dataclass(frozen=True)
class Posterior:
    """What is known of one goal's throughput.

    `mass` is the probability of each cell for full steps. `joint[level]` is that of the throughput at steps
    of this length (rows) together with that at full ones (columns). `shapes[level]` are the probabilities of
    each shape of the curve below a throughput and above it: arrays of shapes and cells.
    """

    grid: Grid
    mass: Floats
    joint: tuple[Floats, ...]
    shapes: tuple[tuple[Floats, Floats], ...]

    def mass_at(self, level: int) -> Floats:
        """The probability of each cell for steps of this length."""
        return np.asarray(self.joint[level].sum(axis=1))


def create_grid(least: float, most: float, open_above: bool = True) -> Grid:
    """Equal cells over all log loads that can be offered, and somewhat below and, if `open_above`, above."""
    return _with_edges(np.linspace(least - _BEYOND, most + _BEYOND * open_above, _CELLS + 1))


def refine_grid(belief: Posterior) -> Grid:
    """A grid of the same reach whose cells are narrow where throughputs are likely, at any length of step."""
    grid = belief.grid
    likely = np.mean([belief.mass_at(level) for level in range(len(belief.joint))], axis=0)
    # What lies next to a likely cell may be as likely once cells are narrower.
    likely = np.convolve(likely, [0.1, 0.2, 0.4, 0.2, 0.1], "same")
    density = 0.75 * likely / likely.sum() + 0.25 * grid.widths / grid.widths.sum()
    share = np.concatenate([[0.0], np.cumsum(density)])
    return _with_edges(np.interp(np.linspace(0, 1, _CELLS + 1), share / share[-1], _edges(grid)))


def log_likelihood(grid: Grid, steps: Sequence[StepOutcome], level: int) -> Floats:
    """Log likelihood of the steps of one length for each shape and throughput: shape (2, shapes, cells).

    The first half is that of steps below the throughput, the second of those above: no step is both.
    """
    found = np.zeros((2, _SHAPES, len(grid.centres)))
    for step in steps:
        if step.level == level:
            found += step_log_likelihood(grid, step)
    return found


def step_log_likelihood(grid: Grid, step: StepOutcome) -> Floats:
    """What one step adds to `evidence`."""
    distance = grid.centres - step.log_load
    below = distance >= 0
    way = erf(np.abs(distance) / (_SPREADS[:, None] * np.sqrt(2)))
    lean = _LEAN * np.repeat(way, len(_LAPSES), axis=0)
    chance = np.log(0.5 + np.where(below == step.kept, lean, -lean))
    return np.stack([np.where(below, chance, 0.0), np.where(below, 0.0, chance)])


def compute_posterior(
    grid: Grid, evidences: Sequence[Floats], least: float, most: float, guess: InitialGuess | None
) -> Posterior:
    """What the steps of all lengths, shortest first, tell of the throughput at each, full steps last."""
    base = _base(grid, least, most, guess)
    bridge = grid.bridge + _FORGOTTEN * base[None, :]
    prior = base
    posteriors, likelihoods, shapes = [], [], []
    for found in evidences:
        likelihood, shapes_here = _without_shapes(found)
        posterior = prior * likelihood
        posterior /= posterior.sum()
        prior = posterior @ bridge
        posteriors.append(posterior)
        likelihoods.append(likelihood)
        shapes.append(shapes_here)
    joint = [np.diag(posteriors[-1])]
    onward: Floats = np.eye(len(grid.centres))
    for level in reversed(range(len(evidences) - 1)):
        onward = bridge @ (likelihoods[level + 1][:, None] * onward)
        both = posteriors[level][:, None] * onward
        joint.insert(0, both / both.sum())
    return Posterior(grid, posteriors[-1], tuple(joint), tuple(shapes))


def pass_probability(belief: Posterior, level: int, log_loads: Floats) -> Floats:
    """Chance that a step keeps the goal at each load (rows), for each throughput of its length (columns)."""
    distance = belief.grid.centres[None, :] - log_loads[:, None]
    way = erf(np.abs(distance)[None] / (_SPREADS[:, None, None] * np.sqrt(2)))
    leans = []
    for side in belief.shapes[level]:
        by_spread = (side * _LEAN).reshape(len(_SPREADS), len(_LAPSES), -1).sum(axis=1)
        leans.append(np.einsum("sc,slc->lc", by_spread, way))
    return np.asarray(0.5 + np.where(distance >= 0, leans[0], -leans[1]))


def expected_information(belief: Posterior, level: int, log_loads: Floats, width: float) -> Floats:
    """What a step of this length at each load is expected to tell of the throughput at full steps, in nats.

    Of the throughput to this width of log load: where it lies within the likeliest stretch of this width is
    worth nothing, whether it lies there or beside it is worth the most.
    """
    stretch = _stretches(belief, width)
    mass = belief.mass @ stretch
    given = belief.joint[level] @ stretch / np.maximum(mass, 1e-300)
    chance = pass_probability(belief, level, log_loads) @ given
    return np.asarray(_entropy(chance @ mass) - _entropy(chance) @ mass)


def quantiles(grid: Grid, mass: Floats, shares: Floats | Sequence[float]) -> Floats:
    """Log loads below which these shares of the probability lie."""
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    return np.asarray(np.interp(shares, cumulative / cumulative[-1], _edges(grid)))


def shortest_interval(grid: Grid, mass: Floats, confidence: float) -> tuple[float, float]:
    """The shortest interval of log load that holds this share of the probability."""
    left = np.linspace(0, 1 - confidence, 101)
    lows, highs = quantiles(grid, mass, left), quantiles(grid, mass, left + confidence)
    best = int(np.argmin(highs - lows))
    return float(lows[best]), float(highs[best])


def _with_edges(edges: Floats) -> Grid:
    centres, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    distance = centres[None, :] - centres[:, None]
    bridge = np.zeros_like(distance)
    for share, scale in _BRIDGE:
        # Where cells are wider than the scale, their own width is the nearest that they can tell.
        near = _student(distance, np.maximum(scale, widths[None, :] / 2)) * widths[None, :]
        bridge += near * (share / near.sum(axis=1, keepdims=True))
    return Grid(centres, widths, bridge)


def _edges(grid: Grid) -> Floats:
    return np.append(grid.centres - grid.widths / 2, grid.centres[-1] + grid.widths[-1] / 2)


def _base(grid: Grid, least: float, most: float, guess: InitialGuess | None) -> Floats:
    """Probability of each cell before any step: even in log load, or near the guess."""
    inside = (grid.centres >= least) & (grid.centres <= most)
    mass = grid.widths * inside / (most - least)
    if guess is not None:
        scale = np.maximum(guess.scale, grid.widths / 2)
        near = _student(grid.centres - guess.log_load, scale) * grid.widths * inside
        mass = (1 - _GUESS_SHARE) * mass + _GUESS_SHARE * near / near.sum()
    outside = np.where(grid.centres > most, _ABOVE_MOST, _BELOW_LEAST) * grid.widths / _BEYOND
    mass = np.where(inside, (1 - _ABOVE_MOST - _BELOW_LEAST) * mass, outside)
    return np.asarray(mass / mass.sum())


def _without_shapes(found: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
    """Likelihood of each throughput over all shapes, the largest being 1, and the shapes' probabilities."""
    peak = found.max(axis=1, keepdims=True)
    chance = np.exp(found - peak)
    below, above = (_SHAPE_PRIOR @ side for side in chance)
    character = _CHARACTER_PRIOR[:, None] * below * above
    total = character.sum(axis=0)
    logarithm = peak.sum(axis=(0, 1)) + np.log(total)
    # The floor keeps a cell alive that later steps may still raise above all others.
    likelihood = np.exp(np.maximum(logarithm - logarithm.max(), -600))
    character /= total
    shapes = (
        chance[0] * (_SHAPE_PRIOR.T @ (character / below)),
        chance[1] * (_SHAPE_PRIOR.T @ (character / above)),
    )
    return np.asarray(likelihood), shapes


def _stretches(belief: Posterior, width: float) -> Floats:
    """Which stretch of this width each cell (rows) belongs to, the likeliest being one of them."""
    grid = belief.grid
    ahead = grid.centres[:, None] - grid.centres[None, :]
    start = grid.centres[int(np.argmax(belief.mass @ ((ahead >= 0) & (ahead <= width))))]
    number = np.floor((grid.centres - start) / (width * (1 + 1e-9)))
    return np.asarray(number[:, None] == np.unique(number)[None, :], dtype=float)


def _student(distance: Floats, scale: Floats) -> Floats:
    """Density of Student's t with 2 degrees of freedom, up to a factor."""
    spread = 1 + (distance / scale) ** 2 / 2
    return np.asarray(1 / (spread * np.sqrt(spread) * scale))


def _entropy(chance: Floats) -> Floats:
    sure = np.clip(chance, 1e-12, 1 - 1e-12)
    return np.asarray(-sure * np.log(sure) - (1 - sure) * np.log1p(-sure))
