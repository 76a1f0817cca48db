"""A small run of `make bench-search`: time and errors of the search methods compared.

`make test` searches one device of four types, `make test-long` two of each type.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from bench.search import PARAMETERS, Outcome, compare_methods
from bench.simulated_devices import DEVICE_TYPES
from tests.simulation_size import SimulationSize

QUICK_TYPES = ("sharp limit", "noisy limit", "big buffer", "not monotonic")
METHODS = ("rfc2544", "mlrsearch", "vnetbench")


@pytest.mark.parametrize(
    ("device_types", "devices_per_type"),
    [
        pytest.param(QUICK_TYPES, 1, id="quick"),
        pytest.param(tuple(DEVICE_TYPES), 2, id="long", marks=pytest.mark.long),
    ],
)
def test_the_bayesian_search_takes_half_of_mlrsearchs_time_and_has_fewer_wrong_results(
    device_types: tuple[str, ...], devices_per_type: int
) -> None:
    tasks = list(itertools.product(device_types, range(devices_per_type), [METHODS]))
    with ProcessPoolExecutor() as pool:
        outcomes = list(pool.map(compare_methods, *zip(*tasks, strict=True)))
    rfc2544, mlrsearch, bayesian = ([device[number] for device in outcomes] for number in range(3))

    ratios = [
        ours.trial_time_s / theirs.trial_time_s for ours, theirs in zip(bayesian, mlrsearch, strict=True)
    ]
    assert np.median(ratios) <= 0.5
    assert count_wrong(bayesian) <= count_wrong(mlrsearch) <= count_wrong(rfc2544)
    covered = [each for outcome in bayesian for each in outcome.covered]
    SimulationSize(len(covered), device_types == QUICK_TYPES).check_at_least(0.9, sum(covered))


def count_wrong(outcomes: list[Outcome]) -> int:
    """Return the number of results whose error exceeds the requested width."""
    return sum(error > PARAMETERS.relative_width for outcome in outcomes for error in outcome.errors)
