"""The peers, one file a tool: which of them can carry which load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bench.binaries import Binary
from bench.comparison import Competitor, RunValues
from bench.testbed import PeerTestbed
from bench.load import AskingChoices, Choices, DatagramChoices
from bench.peers import iperf3, neper, netperf, ntttcp, nuttcp, sockperf

L = TypeVar("L")
R = TypeVar("R")

STREAMS: Mapping[str, Callable[..., Choices]] = {
    "iperf3": iperf3.streams,
    "nuttcp": nuttcp.streams,
    "sockperf": sockperf.streams,
    "netperf": netperf.streams,
    "neper": neper.streams,
    "ntttcp": ntttcp.streams,
}
ASKING: Mapping[str, Callable[..., AskingChoices]] = {
    "sockperf": sockperf.asking,
    "netperf": netperf.asking,
    "neper": neper.asking,
}
DATAGRAMS: Mapping[str, Callable[..., DatagramChoices]] = {
    "iperf3": iperf3.datagrams,
    "nuttcp": nuttcp.datagrams,
    "sockperf": sockperf.datagrams,
    "netperf": netperf.datagrams,
    "neper": neper.datagrams,
    "ntttcp": ntttcp.datagrams,
}


def entrants(
    able: Mapping[str, Callable[[PeerTestbed, Binary, L], Mapping[str, Callable[[], R]]]],
    ground: PeerTestbed,
    binaries: Sequence[Binary],
    load: L,
    figures: Callable[[R], RunValues],
) -> list[Competitor]:
    """An entrant for each binary that can carry the load, whose runs give `figures` of what came of them."""
    found = []
    for binary in binaries:
        choices = able[binary.kind](ground, binary, load) if binary.kind in able else {}
        runs = {flags: _then(run, figures) for flags, run in choices.items()}
        if runs:
            found.append(Competitor(binary.label, runs))
    return found


def _then(run: Callable[[], R], figures: Callable[[R], RunValues]) -> Callable[[], RunValues]:
    return lambda: figures(run())
