"""Latencies from histograms: percentiles of what many samples counted together.

A percentile is the smallest value that at least this share of all do not exceed (nearest rank; Hyndman &
Fan 1996, The American Statistician 50(4), definition 1), told by the middle of its bucket, which is within
0.4 % of it (docs/protocol.md, trial.sample).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

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


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All of them added up, ascending by value."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for value_ns, count in histogram:
            counts[value_ns] = counts.get(value_ns, 0) + count
    return tuple(sorted(counts.items()))


def count_of(histogram: Histogram) -> int:
    """How many values it holds."""
    return sum(count for _, count in histogram)


def percentile_us(histogram: Histogram, share: float) -> float | None:
    """The value in µs that `share` of all do not exceed; None where fewer than one is beyond it."""
    count = count_of(histogram)
    # 1 - share is not exact: one of 100,000 must be beyond the 99.999th percentile of as many.
    if count == 0 or (share > 0.5 and count * (1 - share) < 1 - 1e-6):
        return None
    rank = max(1, math.ceil(count * share - 1e-6))
    below = 0
    for value_ns, of_value in histogram:
        below += of_value
        if below >= rank:
            return value_ns / 1e3
    return None


def latency_metrics(histogram: Histogram, of: str) -> Iterator[tuple[str, float]]:
    """Mean and percentiles in µs, named `<of>_mean_us`, `<of>_p50_us`, … `<of>_p99_999_us`.

    A percentile is absent where not one value would be beyond it.
    """
    if count := count_of(histogram):
        yield f"{of}_mean_us", sum(value * n for value, n in histogram) / count / 1e3
    for name, share in PERCENTILES.items():
        if (value := percentile_us(histogram, share)) is not None:
            yield f"{of}_{name}_us", value


def curve(histogram: Histogram) -> tuple[tuple[float, float], ...]:
    """Points (share of transactions that took longer, value in µs) from all down to a single one of them."""
    count = count_of(histogram)
    if not count:
        return ()
    steps = math.floor(_POINTS_A_DECADE * math.log10(count))
    beyond = [10 ** (-step / _POINTS_A_DECADE) for step in range(1, steps + 1)]
    points = [(share, percentile_us(histogram, 1 - share)) for share in beyond]
    return tuple((share, value) for share, value in points if value is not None)
