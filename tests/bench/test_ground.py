"""What all tools run on: the kernel's counters, the instrument for gaps, and how programs are run."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from bench import ground as grounds
from bench.gaps import in_steady_part, listening
from bench.ground import CONGESTION_CONTROL, Ground
from bench.programs import Programs, RunFailed, run
from vnetbench.lab import netlink

PORT = 9000
DATAGRAM = bytes(64)


@pytest.fixture
def ground() -> Iterator[Ground]:
    with grounds.raised() as raised:
        raised.place(grounds.placement(1))
        yield raised


def send(ground: Ground, count: int, payload: bytes = DATAGRAM, every_s: float = 0) -> None:
    def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(count):
                sender.sendto(payload, (ground.sink.address, PORT))
                time.sleep(every_s)

    netlink.do_inside(ground.source.namespace, work)


@pytest.mark.lab
def test_what_a_tool_sends_and_what_its_receiver_takes_is_counted_by_the_kernel(ground: Ground) -> None:
    def receiver() -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind((ground.sink.address, PORT))
        return bound

    with netlink.do_inside(ground.sink.namespace, receiver) as taking:

        def work() -> None:
            send(ground, 5)
            for _ in range(3):
                taking.recv(100)
            sum(range(10_000_000))  # long enough for the clock's ticks, where cycles come from them

        _, counted = ground.watched(work)
    assert (counted.datagrams_sent, counted.datagrams_taken) == (5, 3)
    assert counted.cycles > 0


@pytest.mark.lab
def test_the_ring_hears_every_packet_of_its_size_and_no_other(ground: Ground) -> None:
    with listening(ground, len(DATAGRAM), 1000) as ring:
        send(ground, 50, bytes(65))
        send(ground, 200, every_s=0.001)
        gaps_ns = np.diff(ring.arrivals_ns())
    assert len(gaps_ns) == 199
    assert gaps_ns.min() >= 1_000_000


@pytest.mark.lab
def test_a_ring_that_is_too_small_says_so(ground: Ground) -> None:
    with listening(ground, len(DATAGRAM), 1) as ring:
        send(ground, 10_000)
        with pytest.raises(RunFailed, match="the ring of arrivals was full"):
            ring.arrivals_ns()


@pytest.mark.lab
def test_tools_that_cannot_be_told_a_congestion_control_get_it_all_the_same(ground: Ground) -> None:
    def server() -> socket.socket:
        return socket.create_server((ground.sink.address, PORT))

    def client() -> socket.socket:
        return socket.create_connection((ground.sink.address, PORT))

    with (
        netlink.do_inside(ground.sink.namespace, server),
        netlink.do_inside(ground.source.namespace, client) as connected,
    ):
        found = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert found.rstrip(b"\0").decode() == CONGESTION_CONTROL


@pytest.mark.lab
def test_a_server_that_ends_instead_of_listening_is_told_with_what_it_said(ground: Ground) -> None:
    server = ["sh", "-c", "echo no such option; exit 1"]
    with pytest.raises(RunFailed, match="does not listen on port 9000: no such option"):
        run(ground, Programs(server, ["true"], PORT, 1))


@pytest.mark.lab
def test_a_client_that_fails_is_told_and_its_server_is_ended(ground: Ground) -> None:
    listening_server = (
        f"import socket, time; s = socket.create_server(('{ground.sink.address}', {PORT})); time.sleep(60)"
    )
    programs = Programs(
        [sys.executable, "-c", listening_server], ["sh", "-c", "echo oh >&2; exit 3"], PORT, 1
    )
    with pytest.raises(RunFailed, match="the client ended with 3: oh"):
        run(ground, programs)
    # The port is free again, so the same can be run at once.
    told = run(ground, Programs(programs.server, ["echo", "figures"], PORT, 1, server_ends=False))
    assert told.client == "figures\n"


def test_the_steady_part_leaves_out_how_a_tool_begins_and_ends() -> None:
    times_ns = np.arange(0, 1_000_000_001, 1_000_000, dtype=np.int64)
    kept = in_steady_part(times_ns, 1.0)
    assert (kept[0], kept[-1]) == (200_000_000, 900_000_000)


def test_too_few_arrivals_have_no_steady_part() -> None:
    with pytest.raises(RunFailed, match="too few packets"):
        in_steady_part(np.array([], dtype=np.int64), 1.0)
