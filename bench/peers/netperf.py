"""netperf: command lines, candidate flags and parsing of the output of omni tests."""

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
    check_received_bytes,
)
from bench.programs import PeerPrograms, ProgramOutput, RunFailed, parse_numbers, require_number, run
from bench.testbed import CONGESTION_CONTROL, PeerTestbed


def stream_runs(testbed: PeerTestbed, binary: Binary, load: StreamLoad) -> StreamRuns:
    """Return the TCP runs by flags. A netperf has one stream, so several streams are several processes."""
    if load.message_bytes is None:
        flag_sets: tuple[str, ...] = ("-m 128K", "-m 1M", "-m 4M", "-m 1M -s 4M -S 4M")
    else:
        flag_sets = (f"-m {load.message_bytes}", f"-m {load.message_bytes} -s 4M -S 4M")
    return {flags: partial(_measure_streams, testbed, binary, load, flags) for flags in flag_sets}


def datagram_runs(testbed: PeerTestbed, binary: Binary, load: DatagramLoad) -> DatagramRuns:
    """Return the unpaced UDP runs by flags. netperf paces only in bursts of one timer tick."""
    if load.rate_per_s is not None:
        return {}
    flag_sets = (f"-m {load.size_bytes}", f"-m {load.size_bytes} -s 4M -S 4M")
    return {flags: partial(_measure_datagrams, testbed, binary, load, flags) for flags in flag_sets}


def request_runs(testbed: PeerTestbed, binary: Binary, load: RequestLoad) -> RequestRuns:
    """Return the TCP_RR runs by flags. netperf always waits in the kernel."""
    if load.waiting != "block":
        return {}
    flags = f"-D -r {load.size_bytes},{load.size_bytes}"
    return {flags: partial(_measure_requests, testbed, binary, load, flags)}


def parse_received_bytes_and_seconds(client: str) -> tuple[float, float]:
    """Return the received bytes of all clients and the duration in seconds of the slowest one."""
    received = re.findall(r"^REMOTE_BYTES_RECVD=(\d+)$", client, re.MULTILINE)
    seconds = re.findall(r"^ELAPSED_TIME=([0-9.]+)$", client, re.MULTILINE)
    if not received or len(received) != len(seconds):
        raise RunFailed(f"the output contains no received bytes: {client[-200:]}")
    return float(sum(map(int, received))), max(map(float, seconds))


def parse_latency(client: str) -> LatencyResult:
    """Return the percentiles of the round-trip times, which netperf rounds to whole µs."""
    numbers = parse_numbers(client)
    p50, p99 = (require_number(numbers, f"P{percent}_LATENCY", client) for percent in (50, 99))
    return LatencyResult(p50, p99)


def _measure_streams(testbed: PeerTestbed, binary: Binary, load: StreamLoad, flags: str) -> StreamResult:
    flags = f"{flags} -K {CONGESTION_CONTROL} -k REMOTE_BYTES_RECVD,ELAPSED_TIME"
    output = _run_programs(testbed, binary, load.seconds, "TCP_STREAM", flags, load.count)
    return check_received_bytes(
        StreamResult(*parse_received_bytes_and_seconds(output.client), output.counters)
    )


def _measure_datagrams(
    testbed: PeerTestbed, binary: Binary, load: DatagramLoad, flags: str
) -> DatagramResult:
    # netperf requires -R 1, permission to send over routers, even without a router.
    output = _run_programs(testbed, binary, load.seconds, "UDP_STREAM", f"-R 1 {flags} -k ELAPSED_TIME")
    seconds = require_number(parse_numbers(output.client), "ELAPSED_TIME", output.client)
    return DatagramResult(output.counters.datagrams_sent, output.counters.datagrams_received, seconds)


def _measure_requests(testbed: PeerTestbed, binary: Binary, load: RequestLoad, flags: str) -> LatencyResult:
    output = _run_programs(testbed, binary, load.seconds, "TCP_RR", f"{flags} -k P50_LATENCY,P99_LATENCY")
    return parse_latency(output.client)


def _run_programs(
    testbed: PeerTestbed, binary: Binary, seconds: int, test: str, flags: str, count: int = 1
) -> ProgramOutput:
    port = testbed.free_port()
    address = ["-H", testbed.sink.address, "-p", str(port), "-4"]
    test_options = ["-t", test, "-l", str(seconds), "-P", "0", "--", *shlex.split(flags)]
    client = shlex.join([binary.path("netperf"), *address, *test_options])
    clients = f"for i in $(seq {count}); do {client} & done; wait"
    server = [binary.path("netserver"), "-D", "-4", "-p", str(port)]
    return run(testbed, PeerPrograms(server, ["sh", "-c", clients], port, seconds, server_exits=False))
