"""iperf3: command lines, candidate flags and parsing of the JSON output."""

from __future__ import annotations

import json
import shlex
import subprocess
from functools import cache, partial
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

_FASTEST_FLAGS = ("-l 1M", "-l 128K -Z", "-l 1M -Z", "-l 1M -w 4M", "-l 256K")
_FASTEST_FLAGS_WITHOUT_RECEIVE_COPY = tuple(
    f"{flags} --skip-rx-copy" for flags in ("-l 1M", "-l 1M -Z", "-l 256K")
)
_GSO_FLAG = "--gsro"
_PACING_TIMERS_US = (1, 10, 100)


def stream_runs(testbed: PeerTestbed, binary: Binary, load: StreamLoad) -> StreamRuns:
    """Return the TCP runs by flags. Newer versions can discard received bytes in the kernel."""
    skips_copy = _has_option("--skip-rx-copy", binary)
    if load.message_bytes is None:
        flag_sets = _FASTEST_FLAGS + _FASTEST_FLAGS_WITHOUT_RECEIVE_COPY if skips_copy else _FASTEST_FLAGS
    else:
        small = f"-l {load.message_bytes}"
        flag_sets = (small, f"{small} --skip-rx-copy") if skips_copy else (small,)
    return {flags: partial(_measure_streams, testbed, binary, load, flags) for flags in flag_sets}


def datagram_runs(testbed: PeerTestbed, binary: Binary, load: DatagramLoad) -> DatagramRuns:
    """Return the UDP runs by flags, paced or unpaced. Newer versions can use GSO."""
    base = f"-l {load.size_bytes}"
    flag_sets: tuple[str, ...]
    if load.rate_per_s is None:
        flag_sets = (f"{base} -b 0", f"{base} -b 0 -w 4M")
        if load.segments_allowed and _has_option(_GSO_FLAG, binary):
            flag_sets += tuple(f"{flags} {_GSO_FLAG}" for flags in flag_sets)
    else:
        paced = f"{base} -b {8 * load.size_bytes * load.rate_per_s}"
        flag_sets = (paced, *(f"{paced} --pacing-timer {timer}" for timer in _PACING_TIMERS_US))
    return {flags: partial(_measure_datagrams, testbed, binary, load, flags) for flags in flag_sets}


def parse_received_bytes_and_seconds(client: str) -> tuple[float, float]:
    """Return the received bytes and the seconds of receiving."""
    received = _parse_end(client)["sum_received"]
    return float(received["bytes"]), float(received["seconds"])


def parse_sent_received_and_seconds(client: str) -> tuple[float, float, float]:
    """Return the sent datagrams, the received datagrams and the seconds of sending."""
    total = _parse_end(client)["sum"]
    return float(total["packets"]), float(total["packets"] - total["lost_packets"]), float(total["seconds"])


def _measure_streams(testbed: PeerTestbed, binary: Binary, load: StreamLoad, flags: str) -> StreamResult:
    output = _run_programs(testbed, binary, load.seconds, f"-C {CONGESTION_CONTROL} -P {load.count} {flags}")
    return check_received_bytes(
        StreamResult(*parse_received_bytes_and_seconds(output.client), output.counters)
    )


def _measure_datagrams(
    testbed: PeerTestbed, binary: Binary, load: DatagramLoad, flags: str
) -> DatagramResult:
    output = _run_programs(testbed, binary, load.seconds, f"-u {flags}")
    sent, received, seconds = parse_sent_received_and_seconds(output.client)
    if _GSO_FLAG in flags:  # the kernel counts a packet of many segments once
        return DatagramResult(sent, received, seconds)
    return DatagramResult(output.counters.datagrams_sent, output.counters.datagrams_received, seconds)


def _run_programs(testbed: PeerTestbed, binary: Binary, seconds: int, flags: str) -> ProgramOutput:
    port = testbed.free_port()
    client = [binary.path(), "-c", testbed.sink.address, "-p", str(port), "-J", "-t", str(seconds)]
    server = [binary.path(), "-s", "-1", "-p", str(port)]
    return run(testbed, PeerPrograms(server, [*client, *shlex.split(flags)], port, seconds))


def _parse_end(client: str) -> dict[str, Any]:
    try:
        document = json.loads(client)
    except ValueError:
        raise RunFailed(f"the output is not JSON: {client[-200:]}") from None
    if "error" in document:
        raise RunFailed(str(document["error"]))
    end: dict[str, Any] = document["end"]
    return end


@cache
def _has_option(option: str, binary: Binary) -> bool:
    help_page = subprocess.run([binary.path(), "--help"], capture_output=True, text=True, check=False)
    return option in help_page.stdout + help_page.stderr
