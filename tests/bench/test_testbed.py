"""The testbed for peer tools: kernel counters, packet ring and program runs."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from bench import agent
from bench import testbed as bench_testbed
from bench.packet_ring import open_packet_ring, select_steady_part
from bench.programs import PeerPrograms, RunFailed, run
from bench.testbed import CONGESTION_CONTROL, PeerTestbed
from vnetbench.lab import netlink
from vnetbench.study.workloads import TCP_STREAM

PORT = 9000
DATAGRAM = bytes(64)
TIMEOUT_S = 60.0


@pytest.fixture
def testbed() -> Iterator[PeerTestbed]:
    with bench_testbed.create_peer_testbed() as created:
        created.assign_cpus(bench_testbed.split_cpus(1))
        yield created


def send(testbed: PeerTestbed, count: int, payload: bytes = DATAGRAM, interval_s: float = 0) -> None:
    def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(count):
                sender.sendto(payload, (testbed.sink.address, PORT))
                time.sleep(interval_s)

    netlink.run_in_namespace(testbed.source.namespace, work)


@pytest.mark.lab
def test_our_own_threads_run_on_the_cpus_of_their_endpoint(testbed: PeerTestbed) -> None:
    measurement = agent.run_trial(testbed, TCP_STREAM, 0.3, {"streams": 2})
    for role, endpoint in (("source", testbed.source), ("sink", testbed.sink)):
        totals: Mapping[str, Any] = agent.endpoint_record(measurement, role).totals
        assert str(totals["counters"]["busiest_thread_cpu"]) == testbed.cpu_list(endpoint)


@pytest.mark.lab
def test_the_kernel_counts_sent_and_received_traffic(testbed: PeerTestbed) -> None:
    def receiver() -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind((testbed.sink.address, PORT))
        return bound

    with netlink.run_in_namespace(testbed.sink.namespace, receiver) as receiving:

        def work() -> None:
            send(testbed, 5)
            for _ in range(3):
                receiving.recv(100)
            sum(range(10_000_000))  # long enough for cycles that come from clock ticks

        _, counters = testbed.observe_run(work)
    assert (counters.datagrams_sent, counters.datagrams_received) == (5, 3)
    assert counters.cycles > 0


@pytest.mark.lab
def test_the_packet_ring_records_exactly_the_packets_of_its_size(testbed: PeerTestbed) -> None:
    with open_packet_ring(testbed, len(DATAGRAM), 1000) as ring:
        started_ns = time.time_ns()
        send(testbed, 50, bytes(65))
        send(testbed, 200, interval_s=0.001)
        deadline = time.monotonic() + TIMEOUT_S
        # A busy kernel may deliver the last packets after the calls that send them.
        while len(times_ns := ring.arrivals_ns()) < 200:
            assert time.monotonic() < deadline, f"only {len(times_ns)} packets arrived"
        ended_ns = time.time_ns()
    assert len(times_ns) == 200
    # Packets wait for different times in a busy kernel, so that only their order and these limits are sure.
    assert np.all(np.diff(times_ns) >= 0)
    assert started_ns <= times_ns[0] <= times_ns[-1] <= ended_ns


@pytest.mark.lab
def test_a_packet_ring_that_is_too_small_raises_an_error(testbed: PeerTestbed) -> None:
    with open_packet_ring(testbed, len(DATAGRAM), 1) as ring:
        send(testbed, 10_000)
        deadline = time.monotonic() + TIMEOUT_S
        with pytest.raises(RunFailed, match="the packet ring was full"):
            # A busy kernel may deliver packets after the calls that send them.
            while time.monotonic() < deadline:
                ring.arrivals_ns()


@pytest.mark.lab
def test_the_route_sets_the_congestion_control_for_every_tool(testbed: PeerTestbed) -> None:
    def server() -> socket.socket:
        return socket.create_server((testbed.sink.address, PORT))

    def client() -> socket.socket:
        return socket.create_connection((testbed.sink.address, PORT))

    with (
        netlink.run_in_namespace(testbed.sink.namespace, server),
        netlink.run_in_namespace(testbed.source.namespace, client) as connected,
    ):
        algorithm = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert algorithm.rstrip(b"\0").decode() == CONGESTION_CONTROL


@pytest.mark.lab
def test_a_server_that_exits_early_is_reported_with_its_output(testbed: PeerTestbed) -> None:
    server = ["sh", "-c", "echo no such option; exit 1"]
    with pytest.raises(RunFailed, match="does not listen on port 9000: no such option"):
        run(testbed, PeerPrograms(server, ["true"], PORT, 1))


@pytest.mark.lab
def test_a_failing_client_is_reported_and_its_server_is_stopped(testbed: PeerTestbed) -> None:
    listening_server = (
        f"import socket, time; s = socket.create_server(('{testbed.sink.address}', {PORT})); time.sleep(60)"
    )
    programs = PeerPrograms(
        [sys.executable, "-c", listening_server], ["sh", "-c", "echo oh >&2; exit 3"], PORT, 1
    )
    with pytest.raises(RunFailed, match="the client failed with exit code 3: oh"):
        run(testbed, programs)
    # The port is free, so the next run can start immediately.
    output = run(testbed, PeerPrograms(programs.server, ["echo", "values"], PORT, 1, server_exits=False))
    assert output.client == "values\n"


def test_the_steady_part_excludes_start_and_end_of_a_run() -> None:
    times_ns = np.arange(0, 1_000_000_001, 1_000_000, dtype=np.int64)
    steady = select_steady_part(times_ns, 1.0)
    assert (steady[0], steady[-1]) == (200_000_000, 900_000_000)


def test_too_few_arrivals_have_no_steady_part() -> None:
    with pytest.raises(RunFailed, match="too few packets"):
        select_steady_part(np.array([], dtype=np.int64), 1.0)
