"""One cell mean per treatment: the mean logarithm of its metric, without block effects.

The mean is the 20 % trimmed mean of the trials (`estimate/paired_ratios.py`), so one odd trial in five
changes it little. A wild cluster bootstrap gives the uncertainty of cell means and of statistics over them.
Its clusters are the blocks: one random weight multiplies all errors of a block, so disturbances that affect
several treatments of a block stay together (Cameron, Gelbach & Miller 2008, "Bootstrap-based improvements for
inference with clustered errors", Review of Economics and Statistics 90(3)). The six-point weights, for few
clusters, are those of Webb 2014, Queen's Economics Department working paper 1315.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.paired_ratios import PairedRatio, estimate_paired_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary

special = DeferredModule("scipy.special")

FloatArray = npt.NDArray[np.float64]

_SIX_POINT_BOOTSTRAP_WEIGHTS = tuple(
    sign * math.sqrt(square) for sign in (-1, 1) for square in (0.5, 1.0, 1.5)
)
_MIN_TRIALS_PER_CELL = 3
"""Fewer trials give no estimate of the spread."""
_MIN_TREATMENTS_PER_BLOCK = 5
"""Minimum number of treatments in a block to estimate the block's effect."""
_BLOCK_EFFECT_ITERATIONS = 3
"""Alternating estimates of block effects and treatment means. They change little after the second one."""
_INTERVAL_CONFIDENCE = 0.95


@dataclass(frozen=True)
class CellMean:
    """Mean logarithm of one treatment's metric."""

    treatment: TreatmentSummary
    log_mean: float
    log_mean_error_part_by_block: Mapping[int, float]
    """Block to its part of the error of `log_mean`. The squares add up to the variance."""

    @property
    def variance(self) -> float:
        """Variance of `log_mean`."""
        return math.fsum(error * error for error in self.log_mean_error_part_by_block.values())


def estimate_cell_means(summary: CampaignSummary, metric: str) -> tuple[CellMean, ...]:
    """Return the cell means of treatments with enough trials, in the campaign's order.

    Treatments without a positive value in more than one of five trials have no logarithm and are excluded.
    """
    logs = {
        each.index: {
            block: math.log(value) for block, value in values_by_block(each, metric).items() if value > 0
        }
        for each in summary.treatments
    }
    included = [each for each in summary.treatments if _has_enough_values(each, logs[each.index], metric)]
    # Imported trials have no common blocks, although their numbers are equal.
    iterations = 0 if summary.is_imported else _BLOCK_EFFECT_ITERATIONS
    block_effects: dict[int, float] = {}
    means = _block_corrected_log_means(included, logs, block_effects)
    for _ in range(iterations):
        block_effects = _estimate_block_effects(means, logs)
        means = _block_corrected_log_means(included, logs, block_effects)
    return tuple(CellMean(each, pair.log_ratio, pair.log_error_contribution_by_block) for each, pair in means)


def bootstrap_log_means(cells: Sequence[CellMean], draw_count: int, seed: int = 0) -> FloatArray:
    """Return bootstrap samples of the cell means: `draw_count` rows, one column per cell."""
    blocks = sorted({block for cell in cells for block in cell.log_mean_error_part_by_block})
    errors = np.array(
        [
            [
                cell.log_mean_error_part_by_block.get(block, 0.0) * _small_sample_error_factor(cell)
                for block in blocks
            ]
            for cell in cells
        ]
    )
    weights = np.random.default_rng(seed).choice(_SIX_POINT_BOOTSTRAP_WEIGHTS, size=(draw_count, len(blocks)))
    logs = np.array([cell.log_mean for cell in cells])
    drawn: FloatArray = logs + weights @ errors.T
    return drawn


def _small_sample_error_factor(cell: CellMean) -> float:
    """Return the width of Student's interval over that of a normal interval."""
    freedom = max(1, len(cell.log_mean_error_part_by_block) - 1)
    return float(
        special.stdtrit(freedom, (1 + _INTERVAL_CONFIDENCE) / 2)
        / special.ndtri((1 + _INTERVAL_CONFIDENCE) / 2)
    )


def _has_enough_values(treatment: TreatmentSummary, logs: Mapping[int, float], metric: str) -> bool:
    trials = len(values_by_block(treatment, metric))
    return len(logs) >= _MIN_TRIALS_PER_CELL and len(logs) >= 0.8 * trials


def _block_corrected_log_means(
    treatments: Sequence[TreatmentSummary],
    logs: Mapping[int, Mapping[int, float]],
    block_effects: Mapping[int, float],
) -> list[tuple[TreatmentSummary, PairedRatio]]:
    means = []
    for each in treatments:
        own = {
            block: math.exp(log - block_effects.get(block, 0.0)) for block, log in logs[each.index].items()
        }
        pair = estimate_paired_ratio(dict.fromkeys(own, 1.0), own)
        if pair is not None:
            means.append((each, pair))
    return means


def _estimate_block_effects(
    means: Sequence[tuple[TreatmentSummary, PairedRatio]], logs: Mapping[int, Mapping[int, float]]
) -> dict[int, float]:
    """Return each block's median deviation from the treatment means; none for blocks with few treatments."""
    deviations: dict[int, list[float]] = {}
    for treatment, pair in means:
        for block, log in logs[treatment.index].items():
            deviations.setdefault(block, []).append(log - pair.log_ratio)
    return {
        block: float(np.median(each))
        for block, each in deviations.items()
        if len(each) >= _MIN_TREATMENTS_PER_BLOCK
    }
