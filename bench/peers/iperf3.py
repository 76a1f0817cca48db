"""iperf3: its command lines, its best flags' candidates, and what its JSON tells."""

from __future__ import annotations

import json
import shlex
import subprocess
from functools import cache, partial
from typing import Any

from bench.binaries import Binary
from bench.testbed import CONGESTION_CONTROL, PeerTestbed
from bench.load import Carried, Choices, DatagramChoices, Datagrams, Delivered, Streams, agreed
from bench.programs import Programs, RunFailed, Told, run

_FASTEST = ("-l 1M", "-l 128K -Z", "-l 1M -Z", "-l 1M -w 4M", "-l 256K")
_FASTEST_WITHOUT_COPY = tuple(f"{flags} --skip-rx-copy" for flags in ("-l 1M", "-l 1M -Z", "-l 256K"))
_GSO = "--gsro"
_PACING_TIMERS_US = (1, 10, 100)


def streams(ground: PeerTestbed, binary: Binary, load: Streams) -> Choices:
    """TCP; a newer one's receiver may leave the bytes in the kernel."""
    leaves = _knows("--skip-rx-copy", binary)
    if load.message_bytes is None:
        flags_tried = _FASTEST + _FASTEST_WITHOUT_COPY if leaves else _FASTEST
    else:
        small = f"-l {load.message_bytes}"
        flags_tried = (small, f"{small} --skip-rx-copy") if leaves else (small,)
    return {flags: partial(_stream, ground, binary, load, flags) for flags in flags_tried}


def datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams) -> DatagramChoices:
    """UDP, paced or not; a newer one may hand over many as one packet."""
    base = f"-l {load.size_bytes}"
    flags_tried: tuple[str, ...]
    if load.rate_per_s is None:
        flags_tried = (f"{base} -b 0", f"{base} -b 0 -w 4M")
        if load.segments_allowed and _knows(_GSO, binary):
            flags_tried += tuple(f"{flags} {_GSO}" for flags in flags_tried)
    else:
        paced = f"{base} -b {8 * load.size_bytes * load.rate_per_s}"
        flags_tried = (paced, *(f"{paced} --pacing-timer {timer}" for timer in _PACING_TIMERS_US))
    return {flags: partial(_datagrams, ground, binary, load, flags) for flags in flags_tried}


def told_of_streams(client: str) -> tuple[float, float]:
    """Bytes that arrived, and the seconds in which they did."""
    received = _end_of(client)["sum_received"]
    return float(received["bytes"]), float(received["seconds"])


def told_of_datagrams(client: str) -> tuple[float, float, float]:
    """Datagrams sent, datagrams that arrived, and the seconds of sending."""
    total = _end_of(client)["sum"]
    return float(total["packets"]), float(total["packets"] - total["lost_packets"]), float(total["seconds"])


def _stream(ground: PeerTestbed, binary: Binary, load: Streams, flags: str) -> Carried:
    told = _run(ground, binary, load.seconds, f"-C {CONGESTION_CONTROL} -P {load.count} {flags}")
    return agreed(Carried(*told_of_streams(told.client), told.counted))


def _datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams, flags: str) -> Delivered:
    told = _run(ground, binary, load.seconds, f"-u {flags}")
    sent, taken, seconds = told_of_datagrams(told.client)
    if _GSO in flags:  # the kernel counts a packet of many segments once
        return Delivered(sent, taken, seconds)
    return Delivered(told.counted.datagrams_sent, told.counted.datagrams_received, seconds)


def _run(ground: PeerTestbed, binary: Binary, seconds: int, flags: str) -> Told:
    port = ground.free_port()
    client = [binary.path(), "-c", ground.sink.address, "-p", str(port), "-J", "-t", str(seconds)]
    server = [binary.path(), "-s", "-1", "-p", str(port)]
    return run(ground, Programs(server, [*client, *shlex.split(flags)], port, seconds))


def _end_of(client: str) -> dict[str, Any]:
    try:
        answer = json.loads(client)
    except ValueError:
        raise RunFailed(f"it does not print JSON: {client[-200:]}") from None
    if "error" in answer:
        raise RunFailed(str(answer["error"]))
    end: dict[str, Any] = answer["end"]
    return end


@cache
def _knows(option: str, binary: Binary) -> bool:
    said = subprocess.run([binary.path(), "--help"], capture_output=True, text=True, check=False)
    return option in said.stdout + said.stderr
