"""sockperf: command lines, candidate flags and parsing of the output."""

from __future__ import annotations

import re
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
from bench.programs import PeerPrograms, ProgramOutput, RunFailed, run
from bench.testbed import PeerTestbed

MIN_MESSAGE_BYTES = 14
"""Smallest message that sockperf can send."""
WARMUP_S = 0.4
COOLDOWN_S = 0.05
"""sockperf excludes the first 400 ms and the last 50 ms of a run from its latencies."""

_WAITING_FLAGS = {"block": "", "spin": "--nonblocked --timeout 0", "busy_poll": "--lls 50"}
_SENDING_FLAGS = ("", "--nonblocked")


def stream_runs(testbed: PeerTestbed, binary: Binary, load: StreamLoad) -> StreamRuns:
    """Return runs with messages over one TCP connection, by flags.

    One of them has Nagle's algorithm on, as the other tools have.
    """
    if load.message_bytes is None:
        return {}
    flag_sets = (*_SENDING_FLAGS, "--tcp-skip-blocking-send", "--tcp-avoid-nodelay")
    return {flags: partial(_measure_streams, testbed, binary, load, flags) for flags in flag_sets}


def datagram_runs(testbed: PeerTestbed, binary: Binary, load: DatagramLoad) -> DatagramRuns:
    """Return the UDP runs by flags, paced or unpaced."""
    return {flags: partial(_measure_datagrams, testbed, binary, load, flags) for flags in _SENDING_FLAGS}


def request_runs(testbed: PeerTestbed, binary: Binary, load: RequestLoad) -> RequestRuns:
    """Return the TCP ping-pong runs by flags."""
    if load.size_bytes < MIN_MESSAGE_BYTES:
        return {}
    flags = _WAITING_FLAGS[load.waiting]
    return {flags: partial(_measure_requests, testbed, binary, load, flags)}


def parse_sending_s(client: str) -> float:
    """Return the seconds of sending."""
    match = re.search(r"Total of \d+ messages sent in ([0-9.]+) sec", client)
    if match is None:
        raise RunFailed(f"the output contains no send time: {client[-200:]}")
    return float(match[1])


def parse_latency(client: str) -> LatencyResult:
    """Return the percentiles of the round-trip times."""
    percentiles = dict(re.findall(r"percentile (\d+\.\d+) =\s*([0-9.]+)", client))
    if "50.000" not in percentiles or "99.000" not in percentiles:
        raise RunFailed(f"the output contains no percentiles: {client[-200:]}")
    return LatencyResult(float(percentiles["50.000"]), float(percentiles["99.000"]))


def _measure_streams(testbed: PeerTestbed, binary: Binary, load: StreamLoad, flags: str) -> StreamResult:
    output = _run_programs(
        testbed, binary, load.seconds, f"throughput -m {load.message_bytes}", "--tcp", flags
    )
    # sockperf also counts messages that it skipped, so the interface counts the bytes.
    return StreamResult(output.counters.tcp_payload_bytes, parse_sending_s(output.client), output.counters)


def _measure_datagrams(
    testbed: PeerTestbed, binary: Binary, load: DatagramLoad, flags: str
) -> DatagramResult:
    rate = "max" if load.rate_per_s is None else str(load.rate_per_s)
    output = _run_programs(
        testbed, binary, load.seconds, f"throughput -m {load.size_bytes} --mps={rate}", "", flags
    )
    seconds = parse_sending_s(output.client)
    return DatagramResult(output.counters.datagrams_sent, output.counters.datagrams_received, seconds)


def _measure_requests(testbed: PeerTestbed, binary: Binary, load: RequestLoad, flags: str) -> LatencyResult:
    output = _run_programs(
        testbed, binary, load.seconds, f"ping-pong --full-rtt -m {load.size_bytes}", "--tcp", flags
    )
    return parse_latency(output.client)


def _run_programs(
    testbed: PeerTestbed, binary: Binary, seconds: int, test: str, transport: str, flags: str
) -> ProgramOutput:
    port = testbed.free_port()
    common = shlex.split(f"-i {testbed.sink.address} -p {port} {transport} {flags}")
    mode, *options = shlex.split(test)
    return run(
        testbed,
        PeerPrograms(
            [binary.path(), "server", *common],
            [binary.path(), mode, *common, *options, "-t", str(seconds)],
            port,
            seconds,
            "tcp" if transport else "udp",
            server_exits=False,
        ),
    )
