"""A campaign as one number a treatment: the logarithm of its metric, what blocks did to all taken out.

The number is the 20 % trimmed mean of the trials (`estimate/paired.py`), so one odd trial in five moves it
little. How sure it is, and what is made of many such numbers, is told by a wild bootstrap whose clusters are
the blocks: all errors of a block are multiplied by one random weight, so that what makes a block bad for
several treatments at once stays together (Cameron, Gelbach & Miller 2008, "Bootstrap-based improvements for
inference with clustered errors", Review of Economics and Statistics 90(3); the six-point weights, for few
clusters, are those of Webb 2014, Queen's Economics Department working paper 1315).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.paired_ratios import PairedRatio, paired_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary

Numbers = npt.NDArray[np.float64]

_WEIGHTS = tuple(sign * math.sqrt(square) for sign in (-1, 1) for square in (0.5, 1.0, 1.5))
_FEWEST_TRIALS = 3
"""A treatment with fewer says nothing of its spread."""
_FEWEST_IN_BLOCK = 5
"""What a block did is told apart from what a treatment did where so many treatments are in it."""
_ROUNDS = 3
"""Of finding blocks' and treatments' parts in turn; they move little after the second."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """One treatment's value."""

    treatment: TreatmentSummary
    log: float
    errors: Mapping[int, float]
    """Block to its share of the error of `log`; their squares add up to the variance."""

    @property
    def variance(self) -> float:
        """Of `log`."""
        return math.fsum(error * error for error in self.errors.values())


def cells_of(summary: CampaignSummary, metric: str) -> tuple[Cell, ...]:
    """The treatments that have trials enough and are alive, in the campaign's order.

    A treatment without a positive value in more than one trial of five is left out: it has no logarithm.
    """
    logs = {
        each.index: {block: math.log(value) for block, value in values_by_block(each, metric).items() if value > 0}
        for each in summary.treatments
    }
    alive = [each for each in summary.treatments if _is_alive(each, logs[each.index], metric)]
    # Trials of other tools were not taken in blocks: those of one number have nothing in common.
    rounds = 0 if summary.is_imported else _ROUNDS
    blocks: dict[int, float] = {}
    found = _found(alive, logs, blocks)
    for _ in range(rounds):
        blocks = _of_blocks(found, logs)
        found = _found(alive, logs, blocks)
    return tuple(Cell(each, pair.log_ratio, pair.block_errors) for each, pair in found)


def redrawn(cells: Sequence[Cell], draws: int, seed: int = 0) -> Numbers:
    """`draws` rows of the cells' logs as they might as well have come out."""
    blocks = sorted({block for cell in cells for block in cell.errors})
    errors = np.array([[cell.errors.get(block, 0.0) * _few(cell) for block in blocks] for cell in cells])
    weights = np.random.default_rng(seed).choice(_WEIGHTS, size=(draws, len(blocks)))
    logs = np.array([cell.log for cell in cells])
    drawn: Numbers = logs + weights @ errors.T
    return drawn


def _few(cell: Cell) -> float:
    """How much wider Student's interval of so few trials is than a normal one."""
    freedom = max(1, len(cell.errors) - 1)
    return float(special.stdtrit(freedom, (1 + _CONFIDENCE) / 2) / special.ndtri((1 + _CONFIDENCE) / 2))


def _is_alive(treatment: TreatmentSummary, logs: Mapping[int, float], metric: str) -> bool:
    trials = len(values_by_block(treatment, metric))
    return len(logs) >= _FEWEST_TRIALS and len(logs) >= 0.8 * trials


def _found(
    treatments: Sequence[TreatmentSummary],
    logs: Mapping[int, Mapping[int, float]],
    blocks: Mapping[int, float],
) -> list[tuple[TreatmentSummary, PairedRatio]]:
    found = []
    for each in treatments:
        own = {block: math.exp(log - blocks.get(block, 0.0)) for block, log in logs[each.index].items()}
        pair = paired_ratio(dict.fromkeys(own, 1.0), own)
        if pair is not None:
            found.append((each, pair))
    return found


def _of_blocks(
    found: Sequence[tuple[TreatmentSummary, PairedRatio]], logs: Mapping[int, Mapping[int, float]]
) -> dict[int, float]:
    """What each block did to its treatments in the middle; nothing where it has few."""
    rest: dict[int, list[float]] = {}
    for treatment, pair in found:
        for block, log in logs[treatment.index].items():
            rest.setdefault(block, []).append(log - pair.log_ratio)
    return {block: float(np.median(each)) for block, each in rest.items() if len(each) >= _FEWEST_IN_BLOCK}
