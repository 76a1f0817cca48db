"""Comparisons of TCP request latency, for each waiting mode of both endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, ComparisonSpec, Competitor, Measure, RunValues
from bench.loads import LatencyResult, RequestLoad
from bench.peers import REQUEST_RUNS, build_competitors
from bench.peers.sockperf import MIN_MESSAGE_BYTES
from bench.testbed import PeerTestbed, split_cpus

_MEASURES = (
    Measure("p50 µs", 1, higher_is_better=False, aim=Aim(1.0)),
    Measure("p99 µs", 1, higher_is_better=False, aim=Aim(1.0)),
)


def blocking_requests(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare endpoints that block in the kernel, with the smallest messages of sockperf."""
    return _latency_spec("rr-block", testbed, binaries, RequestLoad(MIN_MESSAGE_BYTES, "block", seconds))


def one_byte_requests(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare endpoints that block in the kernel, with one-byte messages, without sockperf."""
    return _latency_spec("rr-block-1", testbed, binaries, RequestLoad(1, "block", seconds))


def spinning_requests(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare endpoints that poll their socket in a loop."""
    return _latency_spec("rr-spin", testbed, binaries, RequestLoad(MIN_MESSAGE_BYTES, "spin", seconds))


def busy_polling_requests(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare endpoints with kernel busy polling, for which a veth needs GRO."""
    return _latency_spec(
        "rr-busy-poll", testbed, binaries, RequestLoad(MIN_MESSAGE_BYTES, "busy_poll", seconds), gro="on"
    )


def _latency_spec(
    name: str, testbed: PeerTestbed, binaries: Sequence[Binary], load: RequestLoad, **levels: str
) -> ComparisonSpec:
    testbed.assign_cpus(split_cpus(1), **levels)
    ours = Competitor(agent.TOOL, {"": lambda: _percentiles(agent.run_requests(testbed, load))}, is_ours=True)
    peers = build_competitors(REQUEST_RUNS, testbed, binaries, load, _percentiles)
    title = f"tcp_rr, {load.size_bytes} B in each direction, waiting = {load.waiting}"
    return ComparisonSpec(name, title, _MEASURES, (ours, *peers))


def _percentiles(result: LatencyResult) -> RunValues:
    return {"p50 µs": result.p50_us, "p99 µs": result.p99_us}
