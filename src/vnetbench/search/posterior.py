"""Posterior of a throughput on a grid of loads, by Bayes' rule.

The probability that a step keeps the goal falls with the load and is one half at the throughput, which is the
definition of throughput here. Nothing else of its shape is assumed. On each side of the throughput, the
probability departs from one half over some distance (`_CURVE_SPREADS`), which is small for a sharp limit and
large for a noisy one. It approaches a share of steps with the opposite outcome at any load
(`_LAPSE_PROBABILITIES`): steps that a stall hits below the throughput, and lucky steps above it. The two
sides are usually similar (`_CURVE_SPREAD_NEAR_DEVICE_NOISE_PROBABILITY`), but need not be: a second mode
above the limit adds no noise below it. Only whether a step keeps the goal counts, not how many frames it
lost.

Steps of each duration have their own throughput. That of longer steps is near that of shorter ones, at an
unknown distance (`_LONGER_STEP_WEIGHTS_AND_SCALES`): short steps show where to measure, and only full steps
give proof.

Psychophysics estimates such a threshold with lapses from yes-or-no answers: Watson & Pelli (1983), "QUEST",
Perception & Psychophysics 33(2); Kontsevich & Tyler (1999), Vision Research 39(16), who also choose the next
stimulus by expected information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erf

Floats = npt.NDArray[np.float64]

_CURVE_SPREADS = np.geomspace(0.0006, 0.3, 9)
"""Standard deviations of the curve on each side of the throughput, in log load."""
_LAPSE_PROBABILITIES = np.array([0.004, 0.04, 0.15, 0.33])
"""Shares of steps with the opposite outcome, however far from the throughput."""
_LAPSE_PRIOR = np.array([0.55, 0.22, 0.13, 0.1])
_SHAPE_COUNT = len(_CURVE_SPREADS) * len(_LAPSE_PROBABILITIES)
"""Number of shapes of a side: each combines a spread with a lapse."""
_DEVICE_NOISE_PRIOR = 0.8 ** np.arange(len(_CURVE_SPREADS))
"""Prior of a device's noise, one of `_CURVE_SPREADS`, up to a factor: wider ones are less likely."""
_CURVE_SPREAD_NEAR_DEVICE_NOISE_PROBABILITY = 0.7
"""Probability that a side's spread is near the device's own; otherwise it may have any value."""
_LIMIT_DISTANCE_FROM_HALF_BY_SHAPE = np.tile(0.5 - _LAPSE_PROBABILITIES, len(_CURVE_SPREADS))[:, None]
"""Final distance of the probability from one half, for each shape."""


def _make_spread_prior_by_device_noise() -> Floats:
    """Return the probability of each spread of a side (columns) for each noise level of a device (rows)."""
    apart = np.abs(np.arange(len(_CURVE_SPREADS))[:, None] - np.arange(len(_CURVE_SPREADS))[None, :])
    near = 0.3**apart
    return np.asarray(
        _CURVE_SPREAD_NEAR_DEVICE_NOISE_PROBABILITY * near / near.sum(axis=1, keepdims=True)
        + (1 - _CURVE_SPREAD_NEAR_DEVICE_NOISE_PROBABILITY) / len(_CURVE_SPREADS)
    )


_SPREAD_PRIOR = _make_spread_prior_by_device_noise()
_SHAPE_PRIOR = (_SPREAD_PRIOR[:, :, None] * _LAPSE_PRIOR).reshape(len(_CURVE_SPREADS), _SHAPE_COUNT)
"""Probability of each shape of a side (columns) for each noise level of a device (rows)."""

_GRID_CELLS = 200
_GRID_MARGIN_LOG_LOAD = 0.2
"""Distance by which the grid extends beyond the loads that can be offered, in log load."""
_PRIOR_ABOVE_MAX_LOAD, _PRIOR_BELOW_MIN_LOAD = 0.15, 0.05
"""Prior probabilities that the throughput is above or below the loads that can be offered."""
_PRIOR_WEIGHT_OF_GUESS = 0.75
"""Weight of a guess from forwarding rates in the prior."""
_LONGER_STEP_WEIGHTS_AND_SCALES = ((0.6, 0.0015), (0.25, 0.03), (0.1, 0.3))
"""Weights and scales of Student's t distributions with 2 degrees of freedom; the rest is uninformative."""
_UNINFORMATIVE_LONGER_STEP_WEIGHT = 1 - sum(share for share, _ in _LONGER_STEP_WEIGHTS_AND_SCALES)
_WEIGHT_OF_GUESS_FROM_LONGER_STEPS = 0.5
"""Weight of a guess from the forwarding rates of longer steps, instead of the uninformative weight."""


@dataclass(frozen=True)
class LogLoadGrid:
    """Cells of log load with their centres and widths.

    `longer_given_shorter_step_probability` is the probability of each throughput at longer steps (columns),
    given that at shorter ones (rows), as far as shorter steps are informative.
    """

    centres: Floats
    widths: Floats
    longer_given_shorter_step_probability: Floats


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step for one goal: its duration's index, its log load and whether it kept the goal."""

    duration_index: int
    log_load: float
    has_kept_goal: bool


@dataclass(frozen=True)
class ThroughputGuess:
    """A guess of the throughput in log load, and its uncertainty."""

    log_load: float
    scale: float


class LossCurveShapeProbabilities(NamedTuple):
    """Probabilities of each shape (rows) below and above each throughput (columns)."""

    below_throughput: Floats
    above_throughput: Floats


@dataclass(frozen=True)
class ThroughputPosterior:
    """Posterior of one goal's throughput.

    `probability_by_cell_at_full_steps` is for full steps. The tuples have one entry for each duration of a
    step. `joint_probability_with_full_steps_by_duration` has the joint probability of the throughput at steps
    of this duration (rows) and at full ones (columns). `shape_probabilities_by_duration` has the
    probabilities of each shape.
    """

    grid: LogLoadGrid
    probability_by_cell_at_full_steps: Floats
    joint_probability_with_full_steps_by_duration: tuple[Floats, ...]
    shape_probabilities_by_duration: tuple[LossCurveShapeProbabilities, ...]

    def probability_by_cell_at(self, duration_index: int) -> Floats:
        """Return the probability of each cell for steps of this duration."""
        return np.asarray(self.joint_probability_with_full_steps_by_duration[duration_index].sum(axis=1))


def create_grid(min_log_load: float, max_log_load: float, may_exceed_max_load: bool = True) -> LogLoadGrid:
    """Return a grid of equal cells from slightly below `min_log_load` to `max_log_load`.

    The grid extends above `max_log_load` if `may_exceed_max_load`.
    """
    return _grid_from_edges(
        np.linspace(
            min_log_load - _GRID_MARGIN_LOG_LOAD,
            max_log_load + _GRID_MARGIN_LOG_LOAD * may_exceed_max_load,
            _GRID_CELLS + 1,
        )
    )


def refine_grid(posterior: ThroughputPosterior) -> LogLoadGrid:
    """Return a grid of the same range with narrow cells where throughputs are likely at any duration."""
    grid = posterior.grid
    likely = np.mean(
        [
            posterior.probability_by_cell_at(level)
            for level in range(len(posterior.joint_probability_with_full_steps_by_duration))
        ],
        axis=0,
    )
    # A neighbour of a likely cell may be as likely once cells are narrower.
    likely = np.convolve(likely, [0.1, 0.2, 0.4, 0.2, 0.1], "same")
    density = 0.75 * likely / likely.sum() + 0.25 * grid.widths / grid.widths.sum()
    share = np.concatenate([[0.0], np.cumsum(density)])
    return _grid_from_edges(
        np.interp(np.linspace(0, 1, _GRID_CELLS + 1), share / share[-1], _cell_edges(grid))
    )


def log_likelihood_by_throughput_side_and_shape(
    grid: LogLoadGrid, steps: Sequence[StepOutcome], duration_index: int
) -> Floats:
    """Return the log likelihood of the steps of one duration as an array (2, shapes, cells).

    The first half is for steps below the throughput, the second for those above.
    """
    total = np.zeros((2, _SHAPE_COUNT, len(grid.centres)))
    for step in steps:
        if step.duration_index == duration_index:
            total += step_log_likelihood_by_throughput_side_and_shape(grid, step)
    return total


def step_log_likelihood_by_throughput_side_and_shape(grid: LogLoadGrid, step: StepOutcome) -> Floats:
    """Return the contribution of one step to `log_likelihood_by_throughput_side_and_shape`."""
    distance = grid.centres - step.log_load
    below = distance >= 0
    progress = erf(np.abs(distance) / (_CURVE_SPREADS[:, None] * np.sqrt(2)))
    lean = _LIMIT_DISTANCE_FROM_HALF_BY_SHAPE * np.repeat(progress, len(_LAPSE_PROBABILITIES), axis=0)
    probability = np.log(0.5 + np.where(below == step.has_kept_goal, lean, -lean))
    return np.stack([np.where(below, probability, 0.0), np.where(below, 0.0, probability)])


def log_likelihood_by_throughput_side_and_spread(
    grid: LogLoadGrid, log_load: float, has_kept_goal: bool
) -> Floats:
    """Return the log likelihood of a step as an array (2, spreads, cells), averaged over the lapses."""
    distance = grid.centres - log_load
    below = distance >= 0
    progress = erf(np.abs(distance) / (_CURVE_SPREADS[:, None] * np.sqrt(2)))
    final = 0.5 - float(_LAPSE_PRIOR @ _LAPSE_PROBABILITIES)
    probability = np.log(0.5 + np.where(below == has_kept_goal, final, -final) * progress)
    return np.stack([np.where(below, probability, 0.0), np.where(below, 0.0, probability)])


def marginal_log_likelihood(log_likelihoods_by_side_and_spread: Floats) -> Floats:
    """Return the log likelihood of each cell over all spreads.

    Args:
        log_likelihoods_by_side_and_spread: Of `log_likelihood_by_throughput_side_and_spread`.
    """
    peak = log_likelihoods_by_side_and_spread.max(axis=1, keepdims=True)
    below, above = (_SPREAD_PRIOR @ half for half in np.exp(log_likelihoods_by_side_and_spread - peak))
    weights = _DEVICE_NOISE_PRIOR / _DEVICE_NOISE_PRIOR.sum()
    return np.asarray(peak.sum(axis=(0, 1)) + np.log(weights @ (below * above)))


def compute_posterior(
    grid: LogLoadGrid,
    log_likelihoods: Sequence[Floats],
    min_log_load: float,
    max_log_load: float,
    guesses: Sequence[ThroughputGuess | None],
) -> ThroughputPosterior:
    """Return the posterior from the log likelihoods and guesses of all step durations, shortest first."""
    transitions: list[Floats] = []
    posteriors: list[Floats] = []
    likelihoods, shapes = [], []
    for log_likelihoods_here, guess in zip(log_likelihoods, guesses, strict=True):
        prior = _throughput_prior(grid, min_log_load, max_log_load, guess)
        if posteriors:
            weight = (
                _UNINFORMATIVE_LONGER_STEP_WEIGHT if guess is None else _WEIGHT_OF_GUESS_FROM_LONGER_STEPS
            )
            informative = (1 - weight) / (1 - _UNINFORMATIVE_LONGER_STEP_WEIGHT)
            longer_given_shorter = grid.longer_given_shorter_step_probability
            transitions.append(informative * longer_given_shorter + weight * prior[None, :])
            prior = posteriors[-1] @ transitions[-1]
        likelihood, shapes_here = _marginalize_shapes(log_likelihoods_here)
        posterior = prior * likelihood
        posterior /= posterior.sum()
        posteriors.append(posterior)
        likelihoods.append(likelihood)
        shapes.append(shapes_here)
    joint = [np.diag(posteriors[-1])]
    onward: Floats = np.eye(len(grid.centres))
    for level in reversed(range(len(log_likelihoods) - 1)):
        onward = transitions[level] @ (likelihoods[level + 1][:, None] * onward)
        both = posteriors[level][:, None] * onward
        joint.insert(0, both / both.sum())
    return ThroughputPosterior(grid, posteriors[-1], tuple(joint), tuple(shapes))


def pass_probabilities_by_throughput(
    posterior: ThroughputPosterior, duration_index: int, log_loads: Floats
) -> Floats:
    """Return the probability that a step at each load (rows) passes, for each throughput (columns)."""
    distance = posterior.grid.centres[None, :] - log_loads[:, None]
    progress = erf(np.abs(distance)[None] / (_CURVE_SPREADS[:, None, None] * np.sqrt(2)))
    leans = []
    for half in posterior.shape_probabilities_by_duration[duration_index]:
        by_spread = (
            (half * _LIMIT_DISTANCE_FROM_HALF_BY_SHAPE)
            .reshape(len(_CURVE_SPREADS), len(_LAPSE_PROBABILITIES), -1)
            .sum(axis=1)
        )
        leans.append(np.einsum("sc,slc->lc", by_spread, progress))
    return np.asarray(0.5 + np.where(distance >= 0, leans[0], -leans[1]))


def expected_log_spread(posterior: ThroughputPosterior) -> float:
    """Return the expected logarithm of the spread of full steps' curve, averaged over its sides."""
    log_spreads = np.repeat(np.log(_CURVE_SPREADS), len(_LAPSE_PROBABILITIES))
    sides = posterior.shape_probabilities_by_duration[-1]
    return float(
        np.mean([log_spreads @ half @ posterior.probability_by_cell_at_full_steps for half in sides])
    )


def chance_of_wider_curve(posterior: ThroughputPosterior, spread: float) -> float:
    """Return the probability that the curve of full steps has a larger spread, on the steeper side."""
    is_wider = np.repeat(spread < _CURVE_SPREADS, len(_LAPSE_PROBABILITIES))
    sides = posterior.shape_probabilities_by_duration[-1]
    return min(float(is_wider @ half @ posterior.probability_by_cell_at_full_steps) for half in sides)


def expected_information_nats(
    posterior: ThroughputPosterior, duration_index: int, log_loads: Floats, width: float
) -> Floats:
    """Return the expected information of a step at each load about the throughput at full steps, in nats.

    The throughput matters only to this width of log load: its position inside the likeliest stretch of this
    width has no value, but whether it is inside that stretch does.
    """
    stretch = _interval_membership_of_cells(posterior, width)
    mass = posterior.probability_by_cell_at_full_steps @ stretch
    given = (
        posterior.joint_probability_with_full_steps_by_duration[duration_index]
        @ stretch
        / np.maximum(mass, 1e-300)
    )
    probability = pass_probabilities_by_throughput(posterior, duration_index, log_loads) @ given
    return np.asarray(_binary_entropy_nats(probability @ mass) - _binary_entropy_nats(probability) @ mass)


def unknown_nats(posterior: ThroughputPosterior, width: float) -> float:
    """Return the information that is missing to know the throughput to this width of log load."""
    mass = posterior.probability_by_cell_at_full_steps @ _interval_membership_of_cells(posterior, width)
    return float(-(mass * np.log(np.maximum(mass, 1e-300))).sum())


def log_load_quantiles(
    grid: LogLoadGrid, probability_by_cell: Floats, probabilities: Floats | Sequence[float]
) -> Floats:
    """Return the quantiles of the throughput in log load."""
    cumulative = np.concatenate([[0.0], np.cumsum(probability_by_cell)])
    return np.asarray(np.interp(probabilities, cumulative / cumulative[-1], _cell_edges(grid)))


def shortest_log_load_interval(
    grid: LogLoadGrid, probability_by_cell: Floats, confidence: float
) -> tuple[float, float]:
    """Return the shortest interval of log load with this probability."""
    left = np.linspace(0, 1 - confidence, 101)
    lows, highs = (
        log_load_quantiles(grid, probability_by_cell, left),
        log_load_quantiles(grid, probability_by_cell, left + confidence),
    )
    best = int(np.argmin(highs - lows))
    return float(lows[best]), float(highs[best])


def _grid_from_edges(edges: Floats) -> LogLoadGrid:
    centres, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    distance = centres[None, :] - centres[:, None]
    longer_given_shorter = np.zeros_like(distance)
    for share, scale in _LONGER_STEP_WEIGHTS_AND_SCALES:
        # The scale is at least half a cell, since the grid has no finer resolution.
        near = _student_density(distance, np.maximum(scale, widths[None, :] / 2)) * widths[None, :]
        longer_given_shorter += near * (share / near.sum(axis=1, keepdims=True))
    return LogLoadGrid(centres, widths, longer_given_shorter)


def _cell_edges(grid: LogLoadGrid) -> Floats:
    return np.append(grid.centres - grid.widths / 2, grid.centres[-1] + grid.widths[-1] / 2)


def _throughput_prior(
    grid: LogLoadGrid, min_log_load: float, max_log_load: float, guess: ThroughputGuess | None
) -> Floats:
    """Return the prior of each cell: uniform in log load, or near the guess."""
    inside = (grid.centres >= min_log_load) & (grid.centres <= max_log_load)
    mass = grid.widths * inside / (max_log_load - min_log_load)
    if guess is not None:
        scale = np.maximum(guess.scale, grid.widths / 2)
        near = _student_density(grid.centres - guess.log_load, scale) * grid.widths * inside
        mass = (1 - _PRIOR_WEIGHT_OF_GUESS) * mass + _PRIOR_WEIGHT_OF_GUESS * near / near.sum()
    outside = (
        np.where(grid.centres > max_log_load, _PRIOR_ABOVE_MAX_LOAD, _PRIOR_BELOW_MIN_LOAD)
        * grid.widths
        / _GRID_MARGIN_LOG_LOAD
    )
    mass = np.where(inside, (1 - _PRIOR_ABOVE_MAX_LOAD - _PRIOR_BELOW_MIN_LOAD) * mass, outside)
    return np.asarray(mass / mass.sum())


def _marginalize_shapes(log_likelihoods: Floats) -> tuple[Floats, LossCurveShapeProbabilities]:
    """Return the likelihood of each throughput over all shapes (maximum 1), and the shapes' probabilities."""
    peak = log_likelihoods.max(axis=1, keepdims=True)
    probability = np.exp(log_likelihoods - peak)
    below, above = (_SHAPE_PRIOR @ half for half in probability)
    character = _DEVICE_NOISE_PRIOR[:, None] * below * above
    total = character.sum(axis=0)
    logarithm = peak.sum(axis=(0, 1)) + np.log(total)
    # The floor keeps cells that later steps may raise above all others.
    likelihood = np.exp(np.maximum(logarithm - logarithm.max(), -600))
    character /= total
    shapes = LossCurveShapeProbabilities(
        probability[0] * (_SHAPE_PRIOR.T @ (character / below)),
        probability[1] * (_SHAPE_PRIOR.T @ (character / above)),
    )
    return np.asarray(likelihood), shapes


def _interval_membership_of_cells(posterior: ThroughputPosterior, width: float) -> Floats:
    """Return 1 for the stretch of this width (columns) that each cell (rows) is in; one is the likeliest."""
    grid = posterior.grid
    ahead = grid.centres[:, None] - grid.centres[None, :]
    start = grid.centres[
        int(np.argmax(posterior.probability_by_cell_at_full_steps @ ((ahead >= 0) & (ahead <= width))))
    ]
    number = np.floor((grid.centres - start) / (width * (1 + 1e-9)))
    return np.asarray(number[:, None] == np.unique(number)[None, :], dtype=float)


def _student_density(distance: Floats, scale: Floats) -> Floats:
    """Return the density of Student's t with 2 degrees of freedom, up to a factor."""
    spread = 1 + (distance / scale) ** 2 / 2
    return np.asarray(1 / (spread * np.sqrt(spread) * scale))


def _binary_entropy_nats(probability: Floats) -> Floats:
    sure = np.clip(probability, 1e-12, 1 - 1e-12)
    return np.asarray(-sure * np.log(sure) - (1 - sure) * np.log1p(-sure))
