"""Latency of an answer over TCP, each way of waiting on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, Competitor, RunValues, Measure, ComparisonSpec
from bench.testbed import PeerTestbed, split_cpus
from bench.load import Answered, Asking
from bench.peers import ASKING, entrants
from bench.peers.sockperf import SMALLEST_BYTES

_MEASURES = (
    Measure("p50 µs", 1, higher_is_better=False, aim=Aim(1.0)),
    Measure("p99 µs", 1, higher_is_better=False, aim=Aim(1.0)),
)


def blocking(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Both sides wait in the kernel; messages as small as sockperf can have them."""
    return _row("rr-block", ground, binaries, Asking(SMALLEST_BYTES, "block", seconds))


def blocking_one_byte(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Both sides wait in the kernel; one byte each way, which sockperf cannot have."""
    return _row("rr-block-1", ground, binaries, Asking(1, "block", seconds))


def spinning(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Both sides ask again and again."""
    return _row("rr-spin", ground, binaries, Asking(SMALLEST_BYTES, "spin", seconds))


def busy_polling(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """The kernel asks the interface before it lets them sleep; a veth can be asked only with its GRO on."""
    return _row("rr-busy-poll", ground, binaries, Asking(SMALLEST_BYTES, "busy_poll", seconds), gro="on")


def _row(name: str, ground: PeerTestbed, binaries: Sequence[Binary], load: Asking, **levels: str) -> ComparisonSpec:
    ground.assign_cpus(split_cpus(1), **levels)
    ours = Competitor(agent.TOOL, {"": lambda: _figures(agent.asking(ground, load))}, is_ours=True)
    peers = entrants(ASKING, ground, binaries, load, _figures)
    title = f"tcp_rr, {load.size_bytes} B each way, waiting = {load.waiting}"
    return ComparisonSpec(name, title, _MEASURES, (ours, *peers))


def _figures(answered: Answered) -> RunValues:
    return {"p50 µs": answered.p50_us, "p99 µs": answered.p99_us}
