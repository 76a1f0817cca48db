"""nuttcp: command lines, candidate flags and parsing of the -fparse output."""

from __future__ import annotations

import shlex
from functools import partial

from bench.binaries import Binary
from bench.loads import (
    DatagramLoad,
    DatagramResult,
    DatagramRuns,
    StreamLoad,
    StreamResult,
    StreamRuns,
    check_received_bytes,
)
from bench.programs import PeerPrograms, ProgramOutput, parse_numbers, require_number, run
from bench.testbed import PeerTestbed

_MIB = 1 << 20


def stream_runs(testbed: PeerTestbed, binary: Binary, load: StreamLoad) -> StreamRuns:
    """Return the TCP runs by flags."""
    if load.message_bytes is None:
        flag_sets: tuple[str, ...] = ("-l64k", "-l1m", "-l4m", "-l1m -w4m")
    else:
        flag_sets = (f"-l{load.message_bytes}", f"-l{load.message_bytes} -w4m")
    return {flags: partial(_measure_streams, testbed, binary, load, flags) for flags in flag_sets}


def datagram_runs(testbed: PeerTestbed, binary: Binary, load: DatagramLoad) -> DatagramRuns:
    """Return the UDP runs by flags, paced on average (-R) or at every instant (-Ri)."""
    base = f"-l{load.size_bytes}"
    if load.rate_per_s is None:
        flag_sets: tuple[str, ...] = (f"{base} -R0", f"{base} -R0 -w4m")
    else:
        flag_sets = (f"{base} -R{load.rate_per_s}p", f"{base} -Ri{load.rate_per_s}p")
    return {flags: partial(_measure_datagrams, testbed, binary, load, flags) for flags in flag_sets}


def parse_received_bytes_and_seconds(client: str) -> tuple[float, float]:
    """Return the received bytes and the seconds of receiving."""
    numbers = parse_numbers(client)
    return require_number(numbers, "megabytes", client) * _MIB, require_number(
        numbers, "real_seconds", client
    )


def parse_sending_s(client: str) -> float:
    """Return the seconds of sending."""
    return require_number(parse_numbers(client), "real_seconds", client)


def _measure_streams(testbed: PeerTestbed, binary: Binary, load: StreamLoad, flags: str) -> StreamResult:
    stream_count = f"-N{load.count} " if load.count > 1 else ""
    output = _run_programs(testbed, binary, load.seconds, stream_count + flags)
    return check_received_bytes(
        StreamResult(*parse_received_bytes_and_seconds(output.client), output.counters)
    )


def _measure_datagrams(
    testbed: PeerTestbed, binary: Binary, load: DatagramLoad, flags: str
) -> DatagramResult:
    output = _run_programs(testbed, binary, load.seconds, f"-u {flags}")
    return DatagramResult(
        output.counters.datagrams_sent, output.counters.datagrams_received, parse_sending_s(output.client)
    )


def _run_programs(testbed: PeerTestbed, binary: Binary, seconds: int, flags: str) -> ProgramOutput:
    port = testbed.free_port()
    server = [binary.path(), "-S", "-1", "--nofork", f"-P{port}"]
    client = [binary.path(), "-t", f"-P{port}", f"-p{port + 1}", f"-T{seconds}", "-fparse"]
    return run(
        testbed, PeerPrograms(server, [*client, *shlex.split(flags), testbed.sink.address], port, seconds)
    )
