"""ntttcp for Linux: command lines, candidate flags and parsing of the output."""

from __future__ import annotations

import re
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
from bench.programs import PeerPrograms, ProgramOutput, RunFailed, run
from bench.testbed import PeerTestbed


def stream_runs(testbed: PeerTestbed, binary: Binary, load: StreamLoad) -> StreamRuns:
    """Return the TCP runs by flags, with one thread per stream at both endpoints."""
    sizes = ("128K", "1M", "4M") if load.message_bytes is None else (str(load.message_bytes),)
    return {
        f"-b {size}, receiver {receiver}": partial(
            _measure_streams, testbed, binary, load, f"-b {size}", receiver
        )
        for size in sizes
        for receiver in ("-b 64K", "-b 1M -e")
    }


def datagram_runs(testbed: PeerTestbed, binary: Binary, load: DatagramLoad) -> DatagramRuns:
    """Return the unpaced UDP runs by flags. ntttcp can pace TCP only."""
    if load.rate_per_s is not None:
        return {}
    flags = f"-b {load.size_bytes}"
    return {flags: partial(_measure_datagrams, testbed, binary, load, flags)}


def parse_bytes_and_seconds(output: str) -> tuple[float, float]:
    """Return the bytes of this endpoint and the duration of the test in seconds."""
    total = re.search(r"total bytes\s*:(\d+)", output)
    seconds = re.search(r"test duration\s*:([0-9.]+) seconds", output)
    if total is None or seconds is None:
        raise RunFailed(f"the output contains no totals: {output[-200:]}")
    return float(total[1]), float(seconds[1])


def _measure_streams(
    testbed: PeerTestbed, binary: Binary, load: StreamLoad, sender: str, receiver: str
) -> StreamResult:
    output = _run_programs(testbed, binary, load.seconds, f"-P {load.count}", f"-n 1 {sender}", receiver)
    return check_received_bytes(StreamResult(*parse_bytes_and_seconds(output.server), output.counters))


def _measure_datagrams(
    testbed: PeerTestbed, binary: Binary, load: DatagramLoad, flags: str
) -> DatagramResult:
    output = _run_programs(testbed, binary, load.seconds, f"-u -P 1 {flags}", "-n 1", "")
    _, seconds = parse_bytes_and_seconds(output.client)
    return DatagramResult(output.counters.datagrams_sent, output.counters.datagrams_received, seconds)


def _run_programs(
    testbed: PeerTestbed, binary: Binary, seconds: int, options: str, sender: str, receiver: str
) -> ProgramOutput:
    # The endpoints synchronize on `port`; the streams use the ports after it.
    port = testbed.free_port()
    common = shlex.split(f"{testbed.sink.address} -p {port + 1} -t {seconds} {options}")
    return run(
        testbed,
        PeerPrograms(
            [binary.path(), "-r", *common, *shlex.split(receiver)],
            [binary.path(), "-s", *common, *shlex.split(sender)],
            port,
            seconds,
        ),
    )
