"""netperf: its command lines, its best flags' candidates, and what its omni tests tell."""

from __future__ import annotations

import re
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
    agreed,
)
from bench.programs import Programs, RunFailed, Told, numbers_of, run, told_number


def streams(ground: PeerTestbed, binary: Binary, load: Streams) -> Choices:
    """TCP; a netperf has one stream, so several streams are several of them at once."""
    if load.message_bytes is None:
        flags_tried: tuple[str, ...] = ("-m 128K", "-m 1M", "-m 4M", "-m 1M -s 4M -S 4M")
    else:
        flags_tried = (f"-m {load.message_bytes}", f"-m {load.message_bytes} -s 4M -S 4M")
    return {flags: partial(_stream, ground, binary, load, flags) for flags in flags_tried}


def datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams) -> DatagramChoices:
    """UDP as fast as it can; it paces only in bursts of a timer's ticks."""
    if load.rate_per_s is not None:
        return {}
    flags_tried = (f"-m {load.size_bytes}", f"-m {load.size_bytes} -s 4M -S 4M")
    return {flags: partial(_datagrams, ground, binary, load, flags) for flags in flags_tried}


def asking(ground: PeerTestbed, binary: Binary, load: Asking) -> AskingChoices:
    """TCP_RR; it knows one way of waiting, in the kernel."""
    if load.waiting != "block":
        return {}
    flags = f"-D -r {load.size_bytes},{load.size_bytes}"
    return {flags: partial(_ask, ground, binary, load, flags)}


def told_of_streams(client: str) -> tuple[float, float]:
    """Bytes that arrived by all clients together, and the longest time that one of them took."""
    received = re.findall(r"^REMOTE_BYTES_RECVD=(\d+)$", client, re.MULTILINE)
    seconds = re.findall(r"^ELAPSED_TIME=([0-9.]+)$", client, re.MULTILINE)
    if not received or len(received) != len(seconds):
        raise RunFailed(f"it does not tell what was received: {client[-200:]}")
    return float(sum(map(int, received))), max(map(float, seconds))


def told_of_asking(client: str) -> Answered:
    """Percentiles of its round trips, in whole µs."""
    told = numbers_of(client)
    return Answered(told_number(told, "P50_LATENCY", client), told_number(told, "P99_LATENCY", client))


def _stream(ground: PeerTestbed, binary: Binary, load: Streams, flags: str) -> Carried:
    flags = f"{flags} -K {CONGESTION_CONTROL} -k REMOTE_BYTES_RECVD,ELAPSED_TIME"
    told = _run(ground, binary, load.seconds, "TCP_STREAM", flags, load.count)
    return agreed(Carried(*told_of_streams(told.client), told.counted))


def _datagrams(ground: PeerTestbed, binary: Binary, load: Datagrams, flags: str) -> Delivered:
    # -R 1: it asks for leave to route, though nothing is routed here.
    told = _run(ground, binary, load.seconds, "UDP_STREAM", f"-R 1 {flags} -k ELAPSED_TIME")
    seconds = told_number(numbers_of(told.client), "ELAPSED_TIME", told.client)
    return Delivered(told.counted.datagrams_sent, told.counted.datagrams_received, seconds)


def _ask(ground: PeerTestbed, binary: Binary, load: Asking, flags: str) -> Answered:
    told = _run(ground, binary, load.seconds, "TCP_RR", f"{flags} -k P50_LATENCY,P99_LATENCY")
    return told_of_asking(told.client)


def _run(ground: PeerTestbed, binary: Binary, seconds: int, test: str, flags: str, count: int = 1) -> Told:
    port = ground.free_port()
    where = ["-H", ground.sink.address, "-p", str(port), "-4"]
    what = ["-t", test, "-l", str(seconds), "-P", "0", "--", *shlex.split(flags)]
    client = shlex.join([binary.path("netperf"), *where, *what])
    several = f"for i in $(seq {count}); do {client} & done; wait"
    server = [binary.path("netserver"), "-D", "-4", "-p", str(port)]
    return run(ground, Programs(server, ["sh", "-c", several], port, seconds, server_ends=False))
