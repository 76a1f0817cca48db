"""Goodput of TCP, and what a byte costs the whole host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, Competitor, RunValues, Measure, ComparisonSpec
from bench.testbed import PeerTestbed, split_cpus
from bench.load import Carried, Streams
from bench.peers import STREAMS, entrants
from vnetbench.study.model import Level

Ways = Mapping[str, Mapping[str, Level]]
"""Of our own side: how a table shows them, to the levels."""
_OUR_WAYS: Ways = {
    "message_size = 1 MiB": {"message_size": 1 << 20},
    "message_size = 4 MiB": {"message_size": 4 << 20},
    "message_size = 1 MiB, socket_buffer = 4 MiB": {"message_size": 1 << 20, "socket_buffer": 4 << 20},
}
_OUR_WAYS_OF_MESSAGES: Ways = {"": {}, "socket_buffer = 4 MiB": {"socket_buffer": 4 << 20}}
_BATCHED: Ways = {
    f"send_mode = {mode}, send_batch = {batch}": {"send_mode": mode, "send_batch": batch}
    for mode in ("io_uring", "io_uring_zerocopy")
    for batch in (16, 64, 256)
}
_MESSAGE_BYTES = 64
_MESSAGES = Measure("million messages/s", 2, aim=Aim(1.2))


def one_stream(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """One stream, a CPU for each side."""
    ground.assign_cpus(split_cpus(1))
    return _goodput("goodput-1", ground, binaries, Streams(1, seconds), Aim(1.3), None)


def four_streams(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Four streams, half of the CPUs for each side."""
    ground.assign_cpus(split_cpus(4))
    return _goodput("goodput-4", ground, binaries, Streams(4, seconds), Aim(1.7), Aim(0.6))


def small_messages(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Messages of 64 bytes over one stream, one call each."""
    ground.assign_cpus(split_cpus(1))
    load = Streams(1, seconds, _MESSAGE_BYTES)
    ours = _ours(ground, load, _OUR_WAYS_OF_MESSAGES, _messages)
    peers = entrants(STREAMS, ground, binaries, load, _messages)
    return ComparisonSpec("messages", "64-byte TCP messages, 1 stream, one call each", (_MESSAGES,), (ours, *peers))


def batched_messages(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """The same messages, many in one call; no peer has that, so it stands beside our own one call each."""
    ground.assign_cpus(split_cpus(1))
    load = Streams(1, seconds, _MESSAGE_BYTES)
    entrants_of_ours = (
        _ours(ground, load, _OUR_WAYS_OF_MESSAGES, _messages),
        _ours(ground, load, _BATCHED, _messages, f"{agent.TOOL}, batched"),
    )
    measure = Measure(_MESSAGES.name, _MESSAGES.decimals)
    title = "64-byte TCP messages, 1 stream, many in one call"
    return ComparisonSpec("messages-batched", title, (measure,), entrants_of_ours)


def _goodput(
    name: str, ground: PeerTestbed, binaries: Sequence[Binary], load: Streams, goodput: Aim, cycles: Aim | None
) -> ComparisonSpec:
    measures = (
        Measure("Gbit/s", 1, aim=goodput),
        Measure("cycles/byte", 2, higher_is_better=False, aim=cycles),
    )
    ours = _ours(ground, load, _OUR_WAYS, _carried)
    peers = entrants(STREAMS, ground, binaries, load, _carried)
    plural = "" if load.count == 1 else "s"
    return ComparisonSpec(name, f"TCP goodput, {load.count} stream{plural}", measures, (ours, *peers))


def _ours(
    ground: PeerTestbed, load: Streams, ways: Ways, figures: Callable[[Carried], RunValues], tool: str = agent.TOOL
) -> Competitor:
    def run(levels: Mapping[str, Level]) -> RunValues:
        return figures(agent.streams(ground, load, levels))

    return Competitor(tool, {way: partial(run, levels) for way, levels in ways.items()}, is_ours=True)


def _carried(carried: Carried) -> RunValues:
    return {
        "Gbit/s": 8 * carried.bytes_received / carried.seconds / 1e9,
        "cycles/byte": carried.counted.cycles / carried.bytes_received,
    }


def _messages(carried: Carried) -> RunValues:
    return {_MESSAGES.name: carried.bytes_received / _MESSAGE_BYTES / carried.seconds / 1e6}
