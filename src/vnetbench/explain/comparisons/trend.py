"""Trends over several treatments: over the blocks of a campaign, or over a metric of its trials.

Each two trials of a treatment are compared, so treatments of different levels count together. This is the
seasonal test of Hirsch, Slack & Smith 1982, "Techniques of trend analysis for monthly water quality data",
Water Resources Research 18(1), after Mann 1945 and Kendall, with treatments as seasons. The slope is the
median of all pairwise slopes (Theil 1950; Sen 1968, JASA 63(324)). Single odd trials change neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vnetbench.deferred_module import DeferredModule

special = DeferredModule("scipy.special")

Numbers = npt.NDArray[np.float64]

_RANDOM_BLOCK_ORDER_COUNT = 1999
"""Number of random block orders. With the real order, p is a multiple of 1/2000."""


@dataclass(frozen=True)
class Trend:
    """Monotonic trend of one quantity over another."""

    median_change_per_unit: float
    """Change per unit of the other quantity."""
    p_value: float


def trend_over_blocks(series: Sequence[Mapping[int, float]]) -> Trend | None:
    """Return the trend over blocks; None if no treatment has two blocks.

    A block affects all its treatments alike, so p is the share of random orders of whole blocks with at least
    the same trend.

    Args:
        series: block to value, one mapping per treatment.
    """
    blocks = sorted({block for each in series for block in each})
    table = np.array([[each.get(block, np.nan) for block in blocks] for each in series])
    if table.size == 0:
        return None
    positions = np.array(blocks, dtype=float)
    slopes = _pairwise_slopes(table, np.broadcast_to(positions, table.shape))
    if not slopes.size:
        return None
    rises = np.nansum(np.sign(table[:, None, :] - table[:, :, None]), axis=0)
    orders = np.argsort(np.random.default_rng(0).random((_RANDOM_BLOCK_ORDER_COUNT, len(blocks))), axis=1)
    sums = np.abs(_kendall_sum_by_order(rises, np.vstack([np.arange(len(blocks)), orders])))
    return Trend(float(np.median(slopes)), float(np.mean(sums >= sums[0])))


def trend_over_metric(values: Sequence[Sequence[float]], metric: Sequence[Sequence[float]]) -> Trend | None:
    """Return the trend of values over a metric of the same trials; None if the metric is constant.

    p assumes a normal distribution of Kendall's sums. It ignores ties, which makes it larger.

    Args:
        values: one row per treatment, one value per trial.
        metric: the metric of the same trials.
    """
    total, variance = 0.0, 0.0
    slopes = []
    for own_values, own_metric in zip(values, metric, strict=True):
        row, other = np.array([own_values]), np.array([own_metric])
        slopes.append(_pairwise_slopes(row, other))
        rises = np.sign(row[:, None, :] - row[:, :, None]) * np.sign(other[:, None, :] - other[:, :, None])
        total += float(rises.sum()) / 2
        count = len(own_values)
        variance += count * (count - 1) * (2 * count + 5) / 18
    all_slopes = np.concatenate(slopes) if slopes else np.empty(0)
    if not all_slopes.size:
        return None
    z = abs(total) / math.sqrt(variance)
    return Trend(float(np.median(all_slopes)), 2 * float(special.ndtr(-z)))


def _pairwise_slopes(table: Numbers, positions: Numbers) -> Numbers:
    """Return the slopes between each two known values of a row at different positions."""
    rise = table[:, None, :] - table[:, :, None]
    run = positions[:, None, :] - positions[:, :, None]
    known = np.isfinite(rise) & (run > 0)
    slopes: Numbers = rise[known] / run[known]
    return slopes


def _kendall_sum_by_order(rises: Numbers, orders: npt.NDArray[np.int64]) -> Numbers:
    """Return Kendall's sum for each order. `rises[i, j]` is the rise from block i to block j."""
    earlier, later = np.triu_indices(len(rises), 1)
    # One order at a time, because an array of all orders of hundreds of blocks takes gigabytes.
    return np.array([rises[order[earlier], order[later]].sum() for order in orders])
