"""ntttcp for Linux: its command lines, its best flags' candidates, and what its receiver tells."""

from __future__ import annotations

import re
import shlex
from functools import partial

from bench.binaries import Binary
from bench.testbed import PeerTestbed
from bench.load import Carried, Choices, DatagramChoices, Datagrams, Delivered, Streams, agreed
from bench.programs import Programs, RunFailed, Told, run


def streams(ground: PeerTestbed, binary: Binary, load: Streams) -> Choices:
    """TCP, a thread a stream on either side."""
    sizes = ("128K", "1M", "4M") if load.message_bytes is None else (str(load.message_bytes),)
    pairs = [(size, receiver) for size in sizes for receiver in ("-b 64K", "-b 1M -e")]
    return {
        f"-b {size}, receiver {receiver}": partial(_stream, ground, binary, load, f"-b {size}", receiver)
        for size, receiver in pairs
    }


def datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams) -> DatagramChoices:
    """UDP as fast as it can; it paces TCP only."""
    if load.rate_per_s is not None:
        return {}
    flags = f"-b {load.size_bytes}"
    return {flags: partial(_datagrams, ground, binary, load, flags)}


def told_by(output: str) -> tuple[float, float]:
    """Bytes of this side, and the seconds of the test."""
    total = re.search(r"total bytes\s*:(\d+)", output)
    seconds = re.search(r"test duration\s*:([0-9.]+) seconds", output)
    if total is None or seconds is None:
        raise RunFailed(f"it does not tell its totals: {output[-200:]}")
    return float(total[1]), float(seconds[1])


def _stream(ground: PeerTestbed, binary: Binary, load: Streams, sender: str, receiver: str) -> Carried:
    told = _run(ground, binary, load.seconds, f"-P {load.count}", f"-n 1 {sender}", receiver)
    return agreed(Carried(*told_by(told.server), told.counted))


def _datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams, flags: str) -> Delivered:
    told = _run(ground, binary, load.seconds, f"-u -P 1 {flags}", "-n 1", "")
    _, seconds = told_by(told.client)
    return Delivered(told.counted.datagrams_sent, told.counted.datagrams_received, seconds)


def _run(ground: PeerTestbed, binary: Binary, seconds: int, both: str, sender: str, receiver: str) -> Told:
    # The ports of the streams come after that on which the two sides agree when to begin.
    port = ground.free_port()
    common = shlex.split(f"{ground.sink.address} -p {port + 1} -t {seconds} {both}")
    return run(
        ground,
        Programs(
            [binary.path(), "-r", *common, *shlex.split(receiver)],
            [binary.path(), "-s", *common, *shlex.split(sender)],
            port,
            seconds,
        ),
    )
