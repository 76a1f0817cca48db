"""The search methods, behind one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vnetbench.search import bayesian, mlrsearch, rfc2544
from vnetbench.search.interface import Device, SearchParameters, SearchResult

SEARCH_BY_METHOD: Mapping[str, Callable[[Device, SearchParameters, int], SearchResult]] = {
    "vnetbench": bayesian.search,
    "rfc2544": rfc2544.search,
    "mlrsearch": mlrsearch.search,
}


def run_search(method: str, device: Device, parameters: SearchParameters, seed: int) -> SearchResult:
    """Search the throughput for each goal.

    A search is deterministic: the same seed and the same counts lead to the same steps and results. An
    interrupted search continues if its recorded steps are replayed first.

    Raises:
        KeyError: The method is not in SEARCH_BY_METHOD.
        BenchError: The method's library is not installed.
    """
    return SEARCH_BY_METHOD[method](device, parameters, seed)
