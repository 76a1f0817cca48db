"""A small run of `make bench-search`: time and errors of the search methods compared."""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from bench.search import PARAMETERS, Outcome, compare_methods
from bench.simulated_devices import DEVICE_TYPES

DEVICES_PER_TYPE = 2
METHODS = ("rfc2544", "mlrsearch", "vnetbench")


def test_the_bayesian_search_takes_half_of_mlrsearchs_time_and_has_fewer_wrong_results() -> None:
    tasks = list(itertools.product(DEVICE_TYPES, range(DEVICES_PER_TYPE), [METHODS]))
    with ProcessPoolExecutor() as pool:
        outcomes = list(pool.map(compare_methods, *zip(*tasks, strict=True)))
    rfc2544, mlrsearch, bayesian = ([device[number] for device in outcomes] for number in range(3))

    ratios = [
        ours.trial_time_s / theirs.trial_time_s for ours, theirs in zip(bayesian, mlrsearch, strict=True)
    ]
    assert np.median(ratios) <= 0.5
    assert count_wrong(bayesian) <= count_wrong(mlrsearch) <= count_wrong(rfc2544)
    assert np.mean([covered for outcome in bayesian for covered in outcome.covered]) >= 0.9


def count_wrong(outcomes: list[Outcome]) -> int:
    """Return the number of results whose error exceeds the requested width."""
    return sum(error > PARAMETERS.relative_width for outcome in outcomes for error in outcome.errors)
