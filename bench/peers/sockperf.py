"""sockperf: its command lines, its best flags' candidates, and what it prints."""

from __future__ import annotations

import re
import shlex
from functools import partial

from bench.binaries import Binary
from bench.testbed import PeerTestbed
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
from bench.programs import Programs, RunFailed, Told, run

SMALLEST_BYTES = 14
"""It cannot send less."""
WARMUP_S = 0.4
COOLDOWN_S = 0.05
"""It leaves out of its latencies what comes in the first 400 ms and in the last 50 ms."""

_WAITING = {"block": "", "spin": "--nonblocked --timeout 0", "busy_poll": "--lls 50"}
_SENDING = ("", "--nonblocked")


def streams(ground: PeerTestbed, binary: Binary, load: Streams) -> Choices:
    """Messages over one TCP connection, with Nagle's algorithm as the other tools have it, and without."""
    if load.message_bytes is None:
        return {}
    flags_tried = (*_SENDING, "--tcp-skip-blocking-send", "--tcp-avoid-nodelay")
    return {flags: partial(_stream, ground, binary, load, flags) for flags in flags_tried}


def datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams) -> DatagramChoices:
    """UDP, as fast as it can or so many a second."""
    return {flags: partial(_datagrams, ground, binary, load, flags) for flags in _SENDING}


def asking(ground: PeerTestbed, binary: Binary, load: Asking) -> AskingChoices:
    """Ping-pong over TCP."""
    if load.size_bytes < SMALLEST_BYTES:
        return {}
    flags = _WAITING[load.waiting]
    return {flags: partial(_ask, ground, binary, load, flags)}


def told_of_sending(client: str) -> float:
    """The seconds of sending."""
    found = re.search(r"Total of \d+ messages sent in ([0-9.]+) sec", client)
    if found is None:
        raise RunFailed(f"it does not tell how long it sent: {client[-200:]}")
    return float(found[1])


def told_of_asking(client: str) -> Answered:
    """Percentiles of its round trips."""
    found = dict(re.findall(r"percentile (\d+\.\d+) =\s*([0-9.]+)", client))
    if "50.000" not in found or "99.000" not in found:
        raise RunFailed(f"it does not tell percentiles: {client[-200:]}")
    return Answered(float(found["50.000"]), float(found["99.000"]))


def _stream(ground: PeerTestbed, binary: Binary, load: Streams, flags: str) -> Carried:
    told = _run(ground, binary, load.seconds, f"throughput -m {load.message_bytes}", "--tcp", flags)
    # It tells what it would have sent, with messages that it skipped; what came is for the interface to tell.
    return Carried(told.counted.tcp_payload_bytes, told_of_sending(told.client), told.counted)


def _datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams, flags: str) -> Delivered:
    rate = "max" if load.rate_per_s is None else str(load.rate_per_s)
    told = _run(ground, binary, load.seconds, f"throughput -m {load.size_bytes} --mps={rate}", "", flags)
    return Delivered(told.counted.datagrams_sent, told.counted.datagrams_received, told_of_sending(told.client))


def _ask(ground: PeerTestbed, binary: Binary, load: Asking, flags: str) -> Answered:
    told = _run(ground, binary, load.seconds, f"ping-pong --full-rtt -m {load.size_bytes}", "--tcp", flags)
    return told_of_asking(told.client)


def _run(ground: PeerTestbed, binary: Binary, seconds: int, what: str, transport: str, flags: str) -> Told:
    port = ground.free_port()
    both = shlex.split(f"-i {ground.sink.address} -p {port} {transport} {flags}")
    mode, *options = shlex.split(what)
    return run(
        ground,
        Programs(
            [binary.path(), "server", *both],
            [binary.path(), mode, *both, *options, "-t", str(seconds)],
            port,
            seconds,
            "tcp" if transport else "udp",
            server_ends=False,
        ),
    )
