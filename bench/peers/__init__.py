"""Peer tools, one module per tool, and the loads that each can generate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bench.binaries import Binary
from bench.comparison import Competitor, RunValues
from bench.loads import DatagramRuns, RequestRuns, StreamRuns
from bench.peers import iperf3, neper, netperf, ntttcp, nuttcp, sockperf, xfr
from bench.testbed import PeerTestbed

L = TypeVar("L")
R = TypeVar("R")

STREAM_RUNS: Mapping[str, Callable[..., StreamRuns]] = {
    "iperf3": iperf3.stream_runs,
    "nuttcp": nuttcp.stream_runs,
    "sockperf": sockperf.stream_runs,
    "netperf": netperf.stream_runs,
    "neper": neper.stream_runs,
    "ntttcp": ntttcp.stream_runs,
    "xfr": xfr.stream_runs,
}
REQUEST_RUNS: Mapping[str, Callable[..., RequestRuns]] = {
    "sockperf": sockperf.request_runs,
    "netperf": netperf.request_runs,
    "neper": neper.request_runs,
}
DATAGRAM_RUNS: Mapping[str, Callable[..., DatagramRuns]] = {
    "iperf3": iperf3.datagram_runs,
    "nuttcp": nuttcp.datagram_runs,
    "sockperf": sockperf.datagram_runs,
    "netperf": netperf.datagram_runs,
    "neper": neper.datagram_runs,
    "ntttcp": ntttcp.datagram_runs,
    "xfr": xfr.datagram_runs,
}


def build_competitors(
    run_factories: Mapping[str, Callable[[PeerTestbed, Binary, L], Mapping[str, Callable[[], R]]]],
    testbed: PeerTestbed,
    binaries: Sequence[Binary],
    load: L,
    to_values: Callable[[R], RunValues],
) -> list[Competitor]:
    """Return a competitor for each binary that can generate the load.

    Args:
        run_factories: By tool, a function that returns the tool's runs by flags.
        testbed: The testbed of all runs.
        binaries: The peers of this machine.
        load: The load.
        to_values: Converts the result of a run to the values of the measures.
    """
    competitors = []
    for binary in binaries:
        make_runs = run_factories.get(binary.tool)
        runs = {} if make_runs is None else make_runs(testbed, binary, load)
        if runs:
            converted = {flags: _convert_result(run, to_values) for flags, run in runs.items()}
            competitors.append(Competitor(binary.label, converted))
    return competitors


def _convert_result(run: Callable[[], R], to_values: Callable[[R], RunValues]) -> Callable[[], RunValues]:
    return lambda: to_values(run())
