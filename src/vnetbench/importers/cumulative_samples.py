"""Samples of counters that several sources report in turn: transactions of uperf, flows of neper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vnetbench.importers.value_columns import Floats


@dataclass(frozen=True)
class CumulativeSamples:
    """Samples of one counter: how much it has counted so far, at each time in seconds."""

    times_s: Floats
    totals: npt.NDArray[np.int64]


def split_samples(
    names: Sequence[str], times_s: Floats, totals: Sequence[str]
) -> dict[str, CumulativeSamples]:
    """Return the samples of each counter by its name, in the order of their first ones.

    Raises:
        ValueError: A total is no whole number.
        OverflowError: A total has more than 64 bits.
    """
    if not names:
        return {}
    number_by_name = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbers = np.fromiter(map(number_by_name.__getitem__, names), dtype=np.intp, count=len(names))
    counts = np.fromiter(map(int, totals), dtype=np.int64, count=len(totals))
    order = np.argsort(numbers, kind="stable")
    stops = np.cumsum(np.bincount(numbers, minlength=len(number_by_name)))
    parts = zip(np.split(times_s[order], stops[:-1]), np.split(counts[order], stops[:-1]), strict=True)
    return {name: CumulativeSamples(*part) for name, part in zip(number_by_name, parts, strict=False)}
