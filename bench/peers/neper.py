"""neper: its command lines, its best flags' candidates, and what it tells."""

from __future__ import annotations

import shlex
from functools import partial

from bench.binaries import Binary
from bench.testbed import CONGESTION_CONTROL, PeerTestbed
from bench.load import (
    Answered,
    Asking,
    AskingChoices,
    Carried,
    Choices,
    DatagramChoices,
    Datagrams,
    Delivered,
    Streams,
)
from bench.programs import Programs, Told, numbers_of, run, told_number

_RECEIVE_BYTES = 1 << 20


def streams(ground: PeerTestbed, binary: Binary, load: Streams) -> Choices:
    """TCP, a thread a flow on either side."""
    if load.message_bytes is None:
        flags_tried: tuple[str, ...] = ("-B 65536", "-B 1048576", "-B 4194304")
    else:
        flags_tried = (f"-B {load.message_bytes}", f"-B {load.message_bytes} --no-cork")
    ways = ("", "--skip-rx-copy")
    return {
        f"{flags} {way}".strip(): partial(_stream, ground, binary, load, flags, way)
        for flags in flags_tried
        for way in ways
    }


def datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams) -> DatagramChoices:
    """UDP as fast as it can, or with a sleep (-D) after each datagram."""
    flags = f"-B {load.size_bytes}"
    if load.rate_per_s is not None:
        flags += f" -D {10**9 // load.rate_per_s}"
    return {flags: partial(_datagrams, ground, binary, load, flags)}


def asking(ground: PeerTestbed, binary: Binary, load: Asking) -> AskingChoices:
    """tcp_rr; it waits in epoll."""
    if load.waiting != "block":
        return {}
    flags = f"-Q {load.size_bytes} -R {load.size_bytes} --no-delay"
    return {flags: partial(_ask, ground, binary, load, flags)}


def told_of_streams(client: str) -> float:
    """The seconds that it ran."""
    return told_number(numbers_of(client), "total_run_time", client)


def told_of_asking(client: str) -> Answered:
    """Percentiles of its round trips."""
    told = numbers_of(client)
    p50, p99 = (1e6 * told_number(told, f"latency_p{share}", client) for share in (50, 99))
    return Answered(p50, p99)


def _stream(ground: PeerTestbed, binary: Binary, load: Streams, flags: str, way: str) -> Carried:
    both = f"-F {load.count} -T {load.count}"
    sender = f"{both} {flags} --congestion-control {CONGESTION_CONTROL}"
    receiver = f"{both} -B {_RECEIVE_BYTES} {way}"
    told = _run(ground, binary, load.seconds, "tcp_stream", sender, receiver)
    # It tells the rate of some part of its time; what came in all of it is for the interface to tell.
    return Carried(told.counted.tcp_payload_bytes, told_of_streams(told.client), told.counted)


def _datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams, flags: str) -> Delivered:
    told = _run(ground, binary, load.seconds, "udp_stream", flags, f"-B {load.size_bytes}")
    return Delivered(told.counted.datagrams_sent, told.counted.datagrams_received, load.seconds)


def _ask(ground: PeerTestbed, binary: Binary, load: Asking, flags: str) -> Answered:
    told = _run(ground, binary, load.seconds, "tcp_rr", f"{flags} -p 50,99", flags)
    return told_of_asking(told.client)


def _run(ground: PeerTestbed, binary: Binary, seconds: int, test: str, client: str, server: str) -> Told:
    port = ground.free_port()
    common = [binary.path(test), "--nolog", "-C", str(port), "-P", str(port + 1), "-l", str(seconds)]
    sender = [*common, "-c", "-H", ground.sink.address, *shlex.split(client)]
    return run(ground, Programs([*common, *shlex.split(server)], sender, port, seconds))
