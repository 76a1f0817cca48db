"""A small run of `make bench-search`: time and errors of the search methods compared.

`make test` only checks the intervals of the Bayesian search on one device of four types. Ratios of times
differ tenfold between types, so their median needs all types: `make test-long` compares the methods on two
devices of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from bench.search import PARAMETERS, Outcome, compare_methods
from bench.simulated_devices import DEVICE_TYPES
from tests.simulation_size import SimulationSize

QUICK_TYPES = ("sharp limit", "noisy limit", "big buffer", "not monotonic")
DEVICES_PER_TYPE = 2
METHODS = ("rfc2544", "mlrsearch", "vnetbench")
MIN_COVERED = 0.9


@pytest.mark.long
def test_the_bayesian_search_takes_half_of_mlrsearchs_time_and_has_fewer_wrong_results() -> None:
    outcomes = search_devices(DEVICE_TYPES, DEVICES_PER_TYPE, METHODS)
    rfc2544, mlrsearch, bayesian = ([device[number] for device in outcomes] for number in range(3))

    ratios = [
        ours.trial_time_s / theirs.trial_time_s for ours, theirs in zip(bayesian, mlrsearch, strict=True)
    ]
    assert np.median(ratios) <= 0.5
    assert count_wrong(bayesian) <= count_wrong(mlrsearch) <= count_wrong(rfc2544)
    assert np.mean([covered for outcome in bayesian for covered in outcome.covered]) >= MIN_COVERED


def test_the_intervals_of_the_bayesian_search_cover_the_throughput() -> None:
    outcomes = search_devices(QUICK_TYPES, 1, ("vnetbench",))
    covered = [each for (outcome,) in outcomes for each in outcome.covered]
    SimulationSize(len(covered), is_quick=True).check_at_least(MIN_COVERED, sum(covered))


def search_devices(
    device_types: Iterable[str], devices_per_type: int, methods: tuple[str, ...]
) -> list[tuple[Outcome, ...]]:
    """Return the outcome of each method, by device."""
    tasks = list(itertools.product(device_types, range(devices_per_type), [methods]))
    with ProcessPoolExecutor() as pool:
        return [tuple(outcomes) for outcomes in pool.map(compare_methods, *zip(*tasks, strict=True))]


def count_wrong(outcomes: list[Outcome]) -> int:
    """Return the number of results whose error exceeds the requested width."""
    return sum(error > PARAMETERS.relative_width for outcome in outcomes for error in outcome.errors)
