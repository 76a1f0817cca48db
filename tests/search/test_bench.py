"""`make bench-search` in small: what vnetbench's own search promises beside the others."""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from bench.search import ASKED, Outcome, compare
from vnetbench.search.simulated import KINDS

DEVICES_A_KIND = 2
METHODS = ("rfc2544", "mlrsearch", "vnetbench")


def test_it_takes_half_of_mlrsearchs_time_and_gives_fewer_wrong_answers() -> None:
    tasks = list(itertools.product(KINDS, range(DEVICES_A_KIND), [METHODS]))
    with ProcessPoolExecutor() as pool:
        compared = list(pool.map(compare, *zip(*tasks, strict=True)))
    rfc2544, mlrsearch, ours = ([row[number] for row in compared] for number in range(3))

    assert np.median([each.seconds for each in ours]) <= np.median([each.seconds for each in mlrsearch]) / 2
    assert wrong(ours) <= wrong(mlrsearch) <= wrong(rfc2544)
    assert np.mean([covered for each in ours for covered in each.covered]) >= 0.9


def wrong(outcomes: list[Outcome]) -> int:
    return sum(error > ASKED.width for each in outcomes for error in each.errors)
