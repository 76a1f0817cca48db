"""Latency metrics from histograms, merged over many samples.

A percentile is the smallest value that at least this share of all values does not exceed (nearest rank;
Hyndman & Fan 1996, The American Statistician 50(4), definition 1). It is reported as the middle of its
bucket, which is within 0.4 % of it (docs/protocol.md, trial.sample).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from vnetbench.results.records import Histogram

QUANTILE_BY_PERCENTILE_NAME: Mapping[str, float] = {
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
    "p99_999": 0.99999,
}
"""Suffix of a metric's name to the quantile, 0 to 1."""
_TAIL_CURVE_POINTS_PER_DECADE = 10


class TailPoint(NamedTuple):
    """A point of a latency tail curve."""

    share_above: float
    """Share of the values that are larger, 0 to 1."""
    latency_us: float


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Return the sum of the histograms, ascending by value."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for value_ns, count in histogram:
            counts[value_ns] = counts.get(value_ns, 0) + count
    return tuple(sorted(counts.items()))


def count_histogram_values(histogram: Histogram) -> int:
    """Return the number of values in the histogram."""
    return sum(count for _, count in histogram)


def histogram_quantile_us_if_resolved(histogram: Histogram, quantile: float) -> float | None:
    """Return the quantile (0 to 1) in µs; None if not a single value lies beyond it."""
    return _quantile_from_cumulative_us(histogram, _cumulative_counts(histogram), quantile)


def _cumulative_counts(histogram: Histogram) -> list[int]:
    return list(accumulate(count for _, count in histogram))


def _quantile_from_cumulative_us(
    histogram: Histogram, cumulative: Sequence[int], quantile: float
) -> float | None:
    count = cumulative[-1] if cumulative else 0
    # 1 - quantile is rounded: the 99.999th percentile of 100,000 values must still leave one beyond it.
    if count == 0 or (quantile > 0.5 and count * (1 - quantile) < 1 - 1e-6):
        return None
    rank = max(1, math.ceil(count * quantile - 1e-6))
    return histogram[bisect_left(cumulative, rank)][0] / 1e3


def latency_metrics(histogram: Histogram, prefix: str) -> Iterator[tuple[str, float]]:
    """Yield mean and percentiles in µs, named `<prefix>_mean_us`, `<prefix>_p50_us`, … `<prefix>_p99_999_us`.

    A percentile is absent if not a single value lies beyond it.
    """
    cumulative = _cumulative_counts(histogram)
    if count := cumulative[-1] if cumulative else 0:
        yield f"{prefix}_mean_us", sum(value * n for value, n in histogram) / count / 1e3
    for name, quantile in QUANTILE_BY_PERCENTILE_NAME.items():
        if (value := _quantile_from_cumulative_us(histogram, cumulative, quantile)) is not None:
            yield f"{prefix}_{name}_us", value


def latency_tail_curve(histogram: Histogram) -> tuple[TailPoint, ...]:
    """Return points at falling shares, down to the share of a single value."""
    count = count_histogram_values(histogram)
    if not count:
        return ()
    steps = math.floor(_TAIL_CURVE_POINTS_PER_DECADE * math.log10(count))
    tail_shares = [10 ** (-step / _TAIL_CURVE_POINTS_PER_DECADE) for step in range(1, steps + 1)]
    cumulative = _cumulative_counts(histogram)
    points = [
        (share, _quantile_from_cumulative_us(histogram, cumulative, 1 - share)) for share in tail_shares
    ]
    return tuple(TailPoint(share, value) for share, value in points if value is not None)
