"""nuttcp: its command lines, its best flags' candidates, and what it tells with -fparse."""

from __future__ import annotations

import shlex
from functools import partial

from bench.binaries import Binary
from bench.testbed import PeerTestbed
from bench.load import Carried, Choices, DatagramChoices, Datagrams, Delivered, Streams, agreed
from bench.programs import Programs, Told, numbers_of, run, told_number

_MIB = 1 << 20


def streams(ground: PeerTestbed, binary: Binary, load: Streams) -> Choices:
    """TCP."""
    if load.message_bytes is None:
        flags_tried: tuple[str, ...] = ("-l64k", "-l1m", "-l4m", "-l1m -w4m")
    else:
        flags_tried = (f"-l{load.message_bytes}", f"-l{load.message_bytes} -w4m")
    return {flags: partial(_stream, ground, binary, load, flags) for flags in flags_tried}


def datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams) -> DatagramChoices:
    """UDP, paced by -R on average or by -Ri at every instant."""
    base = f"-l{load.size_bytes}"
    if load.rate_per_s is None:
        flags_tried: tuple[str, ...] = (f"{base} -R0", f"{base} -R0 -w4m")
    else:
        flags_tried = (f"{base} -R{load.rate_per_s}p", f"{base} -Ri{load.rate_per_s}p")
    return {flags: partial(_datagrams, ground, binary, load, flags) for flags in flags_tried}


def told_of_streams(client: str) -> tuple[float, float]:
    """Bytes that arrived, and the seconds in which they did."""
    told = numbers_of(client)
    return told_number(told, "megabytes", client) * _MIB, told_number(told, "real_seconds", client)


def told_of_datagrams(client: str) -> float:
    """The seconds of sending."""
    return told_number(numbers_of(client), "real_seconds", client)


def _stream(ground: PeerTestbed, binary: Binary, load: Streams, flags: str) -> Carried:
    several = f"-N{load.count} " if load.count > 1 else ""
    told = _run(ground, binary, load.seconds, several + flags)
    return agreed(Carried(*told_of_streams(told.client), told.counted))


def _datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams, flags: str) -> Delivered:
    told = _run(ground, binary, load.seconds, f"-u {flags}")
    return Delivered(
        told.counted.datagrams_sent, told.counted.datagrams_received, told_of_datagrams(told.client)
    )


def _run(ground: PeerTestbed, binary: Binary, seconds: int, flags: str) -> Told:
    port = ground.free_port()
    server = [binary.path(), "-S", "-1", "--nofork", f"-P{port}"]
    client = [binary.path(), "-t", f"-P{port}", f"-p{port + 1}", f"-T{seconds}", "-fparse"]
    return run(ground, Programs(server, [*client, *shlex.split(flags), ground.sink.address], port, seconds))
