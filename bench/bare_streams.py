"""The bare loop of streams and datagrams, a yardstick: our calls without counters, samples or protocol."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache, partial
from pathlib import Path

from bench.loads import DatagramLoad, DatagramResult, DatagramRuns, StreamLoad, StreamResult, StreamRuns
from bench.programs import PeerPrograms, ProgramOutput, parse_numbers, require_number, run
from bench.testbed import PeerTestbed
from vnetbench.errors import BenchError

TOOL = "bare loop"
_SOURCE = Path(__file__).parent / "bare_streams.c"
_MIB = 1 << 20
_SIZES = {
    "messages of 1 MiB": (_MIB, 0),
    "messages of 4 MiB": (4 * _MIB, 0),
    "messages of 1 MiB, buffers of 4 MiB": (_MIB, 4 * _MIB),
}
"""Bytes of messages and of socket buffers (0: the kernel chooses) where a tool may choose. Ours are equal."""


def stream_runs(testbed: PeerTestbed, load: StreamLoad) -> StreamRuns:
    """Return the TCP runs by flags, with one thread for each stream at both endpoints."""
    sizes = _SIZES if load.message_bytes is None else {"": (load.message_bytes, 0)}
    return {flags: partial(_stream, testbed, load, *each) for flags, each in sizes.items()}


def datagram_runs(testbed: PeerTestbed, load: DatagramLoad) -> DatagramRuns:
    """Return the runs of unpaced datagrams, each a separate packet."""
    return {"": partial(_datagrams, testbed, load)}


def _stream(testbed: PeerTestbed, load: StreamLoad, message_bytes: int, buffer_bytes: int) -> StreamResult:
    port, count = testbed.free_port(), str(load.count)
    sink = ["tcp-sink", str(port), count, str(buffer_bytes)]
    source = ["tcp-source", testbed.sink.address, str(port), count]
    source += [str(message_bytes), str(load.seconds), str(buffer_bytes)]
    output = _run(testbed, PeerPrograms(sink, source, port, load.seconds))
    # The loop counts nothing, so the interface counts the bytes.
    cpu_s = _read(output.client, "cpu_s") + _read(output.server, "cpu_s")
    return StreamResult(
        output.counters.tcp_payload_bytes, _read(output.client, "seconds"), output.counters, cpu_s
    )


def _datagrams(testbed: PeerTestbed, load: DatagramLoad) -> DatagramResult:
    port = testbed.free_port()
    source = ["udp-source", testbed.sink.address, str(port), str(load.size_bytes), str(load.seconds)]
    output = _run(testbed, PeerPrograms(["udp-sink", str(port)], source, port, load.seconds, "udp"))
    counters, seconds = output.counters, _read(output.client, "seconds")
    return DatagramResult(
        counters.datagrams_sent, counters.datagrams_received, seconds, _read(output.client, "cpu_s")
    )


def _run(testbed: PeerTestbed, roles: PeerPrograms) -> ProgramOutput:
    program = str(_build())
    commands = PeerPrograms(
        [program, *roles.server], [program, *roles.client], roles.port, roles.seconds, roles.protocol
    )
    return run(testbed, commands)


def _read(output: str, name: str) -> float:
    return require_number(parse_numbers(output), name, output)


@cache
def _build() -> Path:
    """Compile the program once for this process and return its path.

    Raises:
        BenchError: clang is missing or fails.
    """
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    _folders.append(folder)  # its end removes the folder
    program = Path(folder.name) / "bare_streams"
    try:
        subprocess.run(
            ["clang", "-O2", "-pthread", "-o", str(program), str(_SOURCE)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(
            f"cannot compile the bare loop: {error}", where=str(_SOURCE), fix="apt-get install clang"
        ) from error
    return program


_folders: list[tempfile.TemporaryDirectory[str]] = []
