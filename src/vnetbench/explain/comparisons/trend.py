"""Trends that go through many treatments at once: over the blocks of a campaign, or with a figure of its
trials.

Within each treatment every two trials are compared, so that treatments of any level count together (the
seasonal test of Hirsch, Slack & Smith 1982, "Techniques of trend analysis for monthly water quality data",
Water Resources Research 18(1), with treatments for seasons, after Mann 1945 and Kendall). How steep it is,
is the median of all such slopes (Theil 1950; Sen 1968, JASA 63(324)). Few or odd trials move neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Numbers = npt.NDArray[np.float64]

_ORDERS = 1999
"""Random orders of the blocks; with the real one, p is a multiple of 1/2000."""


@dataclass(frozen=True)
class Trend:
    """How something moves with something else."""

    slope: float
    """For each unit of the other."""
    p: float


def over_blocks(series: Sequence[Mapping[int, float]]) -> Trend | None:
    """How values move from block to block; None without a treatment in two blocks.

    Each of `series` is one treatment: block to value. A block does the same to all treatments in it, so p is
    the share of random orders of whole blocks that have as much of a trend.
    """
    blocks = sorted({block for each in series for block in each})
    table = np.array([[each.get(block, np.nan) for block in blocks] for each in series])
    if table.size == 0:
        return None
    places = np.array(blocks, dtype=float)
    slopes = _slopes(table, np.broadcast_to(places, table.shape))
    if not slopes.size:
        return None
    rises = np.nansum(np.sign(table[:, None, :] - table[:, :, None]), axis=0)
    orders = np.argsort(np.random.default_rng(0).random((_ORDERS, len(blocks))), axis=1)
    sums = np.abs(_sums_of_rises(rises, np.vstack([np.arange(len(blocks)), orders])))
    return Trend(float(np.median(slopes)), float(np.mean(sums >= sums[0])))


def with_figure(values: Sequence[Sequence[float]], figures: Sequence[Sequence[float]]) -> Trend | None:
    """How values move with a figure of the same trials, a row a treatment; None where the figure never moves.

    p is that of a normal distribution of Kendall's sums; ties, not taken into account, make it larger.
    """
    total, variance = 0.0, 0.0
    slopes = []
    for own, figure in zip(values, figures, strict=True):
        row, other = np.array([own]), np.array([figure])
        slopes.append(_slopes(row, other))
        rises = np.sign(row[:, None, :] - row[:, :, None]) * np.sign(other[:, None, :] - other[:, :, None])
        total += float(rises.sum()) / 2
        variance += len(own) * (len(own) - 1) * (2 * len(own) + 5) / 18
    every = np.concatenate(slopes) if slopes else np.empty(0)
    if not every.size:
        return None
    z = abs(total) / math.sqrt(variance)
    return Trend(float(np.median(every)), 2 * float(special.ndtr(-z)))


def _slopes(table: Numbers, places: Numbers) -> Numbers:
    """Of every two values of a row whose places differ and that are both known."""
    rise = table[:, None, :] - table[:, :, None]
    run = places[:, None, :] - places[:, :, None]
    known = np.isfinite(rise) & (run > 0)
    slopes: Numbers = rise[known] / run[known]
    return slopes


def _sums_of_rises(rises: Numbers, orders: npt.NDArray[np.int64]) -> Numbers:
    """Kendall's sum with the blocks in each order, a row; `rises[i, j]` is that of block j over block i."""
    earlier, later = np.triu_indices(len(rises), 1)
    # One by one: all orders of hundreds of blocks at once would take gigabytes.
    return np.array([rises[order[earlier], order[later]].sum() for order in orders])
