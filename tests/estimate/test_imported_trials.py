"""Estimates of values that another tool rounded."""

from __future__ import annotations

import numpy as np

from vnetbench.estimate.imported_trials import widen_intervals_by_rounding
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.summary import TrialPoint

MEDIAN = 13.94
CONFIDENCE = 0.95


def points(values: list[float], digit: float) -> list[TrialPoint]:
    """Return trials with values rounded to a multiple of `digit`."""
    rounded_values = [round(value / digit) * digit for value in values]
    ends = [(value - digit / 2, value + digit / 2) for value in rounded_values]
    return [
        TrialPoint(
            n, n, 0.0, 10.0, 0.0, True, {"goodput_bps": value}, rounding_ranges={"goodput_bps": ends[n]}
        )
        for n, value in enumerate(rounded_values)
    ]


def covered(digit: float, spread: float) -> float:
    """Return the coverage of the interval over 500 treatments of seven trials each."""
    draw = np.random.default_rng(2011)
    hits = 0
    for _ in range(500):
        trials = points(draw.normal(MEDIAN, spread, 7).tolist(), digit)
        own = estimate_median([point.values["goodput_bps"] for point in trials], CONFIDENCE)
        wide = widen_intervals_by_rounding({"goodput_bps": own}, trials)["goodput_bps"]
        assert wide.low is not None
        assert wide.high is not None
        hits += wide.low <= MEDIAN <= wide.high
    return hits / 500


def test_intervals_cover_the_truth_despite_rounding() -> None:
    assert covered(digit=0.1, spread=0.02) >= CONFIDENCE
    assert covered(digit=0.1, spread=0.3) >= CONFIDENCE - 0.02


def test_exact_values_keep_their_interval() -> None:
    exact = [TrialPoint(n, n, 0.0, 10.0, 0.0, True, {"goodput_bps": 10.0 + n}) for n in range(8)]
    own = estimate_median([point.values["goodput_bps"] for point in exact], CONFIDENCE)

    assert widen_intervals_by_rounding({"goodput_bps": own}, exact)["goodput_bps"] == own
