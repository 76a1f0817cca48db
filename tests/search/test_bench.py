"""`make bench-search` in small: what vnetbench's own search promises beside the others."""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from bench.search import ASKED, Outcome, compare
from bench.simulated_devices import DEVICE_TYPES

DEVICES_A_KIND = 2
METHODS = ("rfc2544", "mlrsearch", "vnetbench")


def test_most_devices_take_at_most_half_of_mlrsearchs_time_and_fewer_answers_are_wrong() -> None:
    tasks = list(itertools.product(DEVICE_TYPES, range(DEVICES_A_KIND), [METHODS]))
    with ProcessPoolExecutor() as pool:
        compared = list(pool.map(compare, *zip(*tasks, strict=True)))
    rfc2544, mlrsearch, ours = ([row[number] for row in compared] for number in range(3))

    ratios = [mine.seconds / theirs.seconds for mine, theirs in zip(ours, mlrsearch, strict=True)]
    assert np.median(ratios) <= 0.5
    assert wrong(ours) <= wrong(mlrsearch) <= wrong(rfc2544)
    assert np.mean([covered for each in ours for covered in each.covered]) >= 0.9


def wrong(outcomes: list[Outcome]) -> int:
    return sum(error > ASKED.relative_width for each in outcomes for error in each.errors)
