"""Finding throughputs: the methods there are, behind one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vnetbench.search import bayesian, mlrsearch, rfc2544
from vnetbench.search.interface import Device, SearchParameters, SearchResult

METHODS: Mapping[str, Callable[[Device, SearchParameters, int], SearchResult]] = {
    "vnetbench": bayesian.search,
    "rfc2544": rfc2544.search,
    "mlrsearch": mlrsearch.search,
}


def run_search(method: str, device: Device, asked: SearchParameters, seed: int) -> SearchResult:
    """The throughput for each goal.

    A device that counts the same for the same steps, asked with the same seed, is measured at the same steps
    and gives the same answers: a search that was interrupted goes on when it is fed its recorded steps first.

    Raises KeyError for a method that is not in METHODS, BenchError where its library is not installed.
    """
    return METHODS[method](device, asked, seed)
