"""xfr: command lines, candidate flags and parsing of the JSON output."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import Any

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
from bench.testbed import CONGESTION_CONTROL, PeerTestbed

_FLAG_SETS = ("", "--no-zerocopy", "-w 4M", "--no-zerocopy -w 4M")
"""xfr chooses the size of its messages itself. Without an option, it sends by sendfile."""


def stream_runs(testbed: PeerTestbed, binary: Binary, load: StreamLoad) -> StreamRuns:
    """Return the TCP runs by flags; none for messages of a given size, which xfr cannot send."""
    if load.message_bytes is not None:
        return {}
    return {flags: partial(_stream, testbed, binary, load, flags) for flags in _FLAG_SETS}


def datagram_runs(testbed: PeerTestbed, binary: Binary, load: DatagramLoad) -> DatagramRuns:
    """Return the UDP run, paced or unpaced (a rate of 0)."""
    bits_per_s = 8 * load.size_bytes * (load.rate_per_s or 0)
    flags = f"-u -l {load.size_bytes} -b {bits_per_s}"
    return {flags: partial(_datagrams, testbed, binary, load, flags)}


def parse_streams(client: str) -> tuple[float, float]:
    """Return the received bytes and the duration in seconds."""
    start = client.find("{")
    try:
        document: dict[str, Any] = json.loads(client[start:]) if start >= 0 else {}
        return float(document["bytes_total"]), float(document["duration_ms"]) / 1e3
    except (ValueError, KeyError, TypeError) as error:
        raise RunFailed(f"the output contains no result ({error!r}): {client[-200:]}") from None


def _stream(testbed: PeerTestbed, binary: Binary, load: StreamLoad, flags: str) -> StreamResult:
    output = _run(testbed, binary, load.seconds, f"-P {load.count} --congestion {CONGESTION_CONTROL} {flags}")
    return check_received_bytes(StreamResult(*parse_streams(output.client), output.counters))


def _datagrams(testbed: PeerTestbed, binary: Binary, load: DatagramLoad, flags: str) -> DatagramResult:
    output = _run(testbed, binary, load.seconds, f"-P 1 {flags}")
    _, seconds = parse_streams(output.client)
    return DatagramResult(output.counters.datagrams_sent, output.counters.datagrams_received, seconds)


def _run(testbed: PeerTestbed, binary: Binary, seconds: int, flags: str) -> ProgramOutput:
    port = testbed.free_port()
    program = [binary.path(), "--no-update-check"]
    server = [*program, "serve", "-p", str(port), "--one-off"]
    client = [*program, "--no-tui", "--json", testbed.sink.address, "-p", str(port), "-t", f"{seconds}s"]
    return run(testbed, PeerPrograms(server, [*client, *shlex.split(flags)], port, seconds))
