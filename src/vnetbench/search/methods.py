"""The search methods, behind one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vnetbench.search import bayesian, mlrsearch, rfc2544
from vnetbench.search.bayesian import BayesianSearch
from vnetbench.search.interface import (
    Device,
    GoalResult,
    SearchEstimate,
    SearchParameters,
    SearchResult,
    SearchStep,
    SentAndReceivedFrames,
)
from vnetbench.search.step_log import OutOfTimeError

SEARCH_BY_METHOD: Mapping[str, Callable[[Device, SearchParameters, int], SearchResult]] = {
    "vnetbench": bayesian.search,
    "rfc2544": rfc2544.search,
    "mlrsearch": mlrsearch.search,
}


def run_search(
    method: str,
    device: Device,
    parameters: SearchParameters,
    seed: int,
    report_estimate: Callable[[SearchEstimate], None] = lambda _: None,
) -> SearchResult:
    """Search the throughput for each goal. The method `vnetbench` reports its estimate after each step.

    A search is deterministic: the same seed and the same counts lead to the same steps and results. An
    interrupted search continues if its recorded steps are replayed first.

    Raises:
        KeyError: The method is not in SEARCH_BY_METHOD.
        BenchError: The method's library is not installed.
    """
    if method == "vnetbench":
        return bayesian.search(device, parameters, seed, report_estimate)
    return SEARCH_BY_METHOD[method](device, parameters, seed)


def estimate_from_steps(
    method: str, steps: Sequence[SearchStep], parameters: SearchParameters
) -> tuple[GoalResult, ...]:
    """Return the result of each goal that a search had after these steps of its own.

    Raises:
        KeyError: The method is not in SEARCH_BY_METHOD.
        BenchError: The method's library is not installed.
    """
    if method == "vnetbench":
        bayesian_search = BayesianSearch(parameters, seed=0)
        for step in steps:
            bayesian_search.add_step(step)
        return bayesian_search.final_goal_results()
    return run_search(method, _StepReplay(steps), parameters, seed=0).goal_results


class _StepReplay:
    """A device that repeats recorded steps, and then has no time left."""

    def __init__(self, steps: Sequence[SearchStep]) -> None:
        self._remaining = list(reversed(steps))

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        """See Device."""
        if not self._remaining:
            raise OutOfTimeError
        step = self._remaining.pop()
        return SentAndReceivedFrames(step.sent, step.received, step.elapsed_s)
