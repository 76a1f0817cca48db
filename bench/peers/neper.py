"""neper: command lines, candidate flags and parsing of the output."""

from __future__ import annotations

import shlex
from functools import partial

from bench.binaries import Binary
from bench.loads import (
    DatagramLoad,
    DatagramResult,
    DatagramRuns,
    LatencyResult,
    RequestLoad,
    RequestRuns,
    StreamLoad,
    StreamResult,
    StreamRuns,
)
from bench.programs import PeerPrograms, ProgramOutput, parse_numbers, require_number, run
from bench.testbed import CONGESTION_CONTROL, PeerTestbed

_RECEIVE_BYTES = 1 << 20


def stream_runs(testbed: PeerTestbed, binary: Binary, load: StreamLoad) -> StreamRuns:
    """Return the TCP runs by flags, with one thread per flow at both endpoints."""
    if load.message_bytes is None:
        flag_sets: tuple[str, ...] = ("-B 65536", "-B 1048576", "-B 4194304")
    else:
        flag_sets = (f"-B {load.message_bytes}", f"-B {load.message_bytes} --no-cork")
    return {
        f"{flags} {receiver}".strip(): partial(_measure_streams, testbed, binary, load, flags, receiver)
        for flags in flag_sets
        for receiver in ("", "--skip-rx-copy")
    }


def datagram_runs(testbed: PeerTestbed, binary: Binary, load: DatagramLoad) -> DatagramRuns:
    """Return the UDP runs by flags: unpaced, or with a sleep (-D) after each datagram."""
    flags = f"-B {load.size_bytes}"
    if load.rate_per_s is not None:
        flags += f" -D {10**9 // load.rate_per_s}"
    return {flags: partial(_measure_datagrams, testbed, binary, load, flags)}


def request_runs(testbed: PeerTestbed, binary: Binary, load: RequestLoad) -> RequestRuns:
    """Return the tcp_rr runs by flags. neper always waits in epoll."""
    if load.waiting != "block":
        return {}
    flags = f"-Q {load.size_bytes} -R {load.size_bytes} --no-delay"
    return {flags: partial(_measure_requests, testbed, binary, load, flags)}


def parse_duration_s(client: str) -> float:
    """Return the duration of the run in seconds."""
    return require_number(parse_numbers(client), "total_run_time", client)


def parse_latency(client: str) -> LatencyResult:
    """Return the percentiles of the round-trip times."""
    numbers = parse_numbers(client)
    p50, p99 = (1e6 * require_number(numbers, f"latency_p{percent}", client) for percent in (50, 99))
    return LatencyResult(p50, p99)


def _measure_streams(
    testbed: PeerTestbed, binary: Binary, load: StreamLoad, flags: str, receiver_flags: str
) -> StreamResult:
    common = f"-F {load.count} -T {load.count}"
    sender = f"{common} {flags} --congestion-control {CONGESTION_CONTROL}"
    receiver = f"{common} -B {_RECEIVE_BYTES} {receiver_flags}"
    output = _run_programs(testbed, binary, load.seconds, "tcp_stream", sender, receiver)
    # neper reports the rate of a part of its run, so the interface counts the bytes of the whole run.
    return StreamResult(output.counters.tcp_payload_bytes, parse_duration_s(output.client), output.counters)


def _measure_datagrams(
    testbed: PeerTestbed, binary: Binary, load: DatagramLoad, flags: str
) -> DatagramResult:
    output = _run_programs(testbed, binary, load.seconds, "udp_stream", flags, f"-B {load.size_bytes}")
    return DatagramResult(output.counters.datagrams_sent, output.counters.datagrams_received, load.seconds)


def _measure_requests(testbed: PeerTestbed, binary: Binary, load: RequestLoad, flags: str) -> LatencyResult:
    output = _run_programs(testbed, binary, load.seconds, "tcp_rr", f"{flags} -p 50,99", flags)
    return parse_latency(output.client)


def _run_programs(
    testbed: PeerTestbed, binary: Binary, seconds: int, test: str, client: str, server: str
) -> ProgramOutput:
    port = testbed.free_port()
    common = [binary.path(test), "--nolog", "-C", str(port), "-P", str(port + 1), "-l", str(seconds)]
    sender = [*common, "-c", "-H", testbed.sink.address, *shlex.split(client)]
    return run(testbed, PeerPrograms([*common, *shlex.split(server)], sender, port, seconds))
