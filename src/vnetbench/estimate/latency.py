"""Latencies from histograms: percentiles of what many samples counted together.

A percentile is the smallest value that at least this share of all do not exceed (nearest rank; Hyndman &
Fan 1996, The American Statistician 50(4), definition 1), told by the middle of its bucket, which is within
0.4 % of it (docs/protocol.md, trial.sample).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from vnetbench.results.records import Histogram

PERCENTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
    "p99_999": 0.99999,
}
"""The end of a metric's name to the share that does not exceed it."""
_POINTS_A_DECADE = 10


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """All of them added up, ascending by value."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for value_ns, count in histogram:
            counts[value_ns] = counts.get(value_ns, 0) + count
    return tuple(sorted(counts.items()))


def histogram_count(histogram: Histogram) -> int:
    """How many values it holds."""
    return sum(count for _, count in histogram)


def quantile_us(histogram: Histogram, share: float) -> float | None:
    """The value in µs that `share` of all do not exceed; None where fewer than one is beyond it."""
    return _percentile_us(histogram, _up_to(histogram), share)


def _up_to(histogram: Histogram) -> list[int]:
    """How many values do not exceed each of its own."""
    return list(accumulate(count for _, count in histogram))


def _percentile_us(histogram: Histogram, up_to: Sequence[int], share: float) -> float | None:
    count = up_to[-1] if up_to else 0
    # 1 - share is not exact: one of 100,000 must be beyond the 99.999th percentile of as many.
    if count == 0 or (share > 0.5 and count * (1 - share) < 1 - 1e-6):
        return None
    rank = max(1, math.ceil(count * share - 1e-6))
    return histogram[bisect_left(up_to, rank)][0] / 1e3


def latency_metrics(histogram: Histogram, prefix: str) -> Iterator[tuple[str, float]]:
    """Mean and percentiles in µs, named `<of>_mean_us`, `<of>_p50_us`, … `<of>_p99_999_us`.

    A percentile is absent where not one value would be beyond it.
    """
    up_to = _up_to(histogram)
    if count := up_to[-1] if up_to else 0:
        yield f"{prefix}_mean_us", sum(value * n for value, n in histogram) / count / 1e3
    for name, share in PERCENTILES.items():
        if (value := _percentile_us(histogram, up_to, share)) is not None:
            yield f"{prefix}_{name}_us", value


def tail_curve(histogram: Histogram) -> tuple[tuple[float, float], ...]:
    """Points (share of transactions that took longer, value in µs) from all down to a single one of them."""
    count = histogram_count(histogram)
    if not count:
        return ()
    steps = math.floor(_POINTS_A_DECADE * math.log10(count))
    beyond = [10 ** (-step / _POINTS_A_DECADE) for step in range(1, steps + 1)]
    up_to = _up_to(histogram)
    points = [(share, _percentile_us(histogram, up_to, 1 - share)) for share in beyond]
    return tuple((share, value) for share, value in points if value is not None)
