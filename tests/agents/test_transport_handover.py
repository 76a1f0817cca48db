"""A guest's port that moves to another QEMU in the middle of the stream: nothing is lost or doubled."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from vnetbench.agents.transport import SocketTransport

pytestmark = pytest.mark.pure

TIMEOUT_S = 60.0
"""Limit for what happens at once on a machine that is not busy."""


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[SocketTransport, socket.socket]]:
    """Provide a transport and the other end of its socket, which has answered the hello."""
    path = tmp_path / "port"
    accepted: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def accept_and_answer() -> None:
            peer, _ = listening.accept()
            accepted.append(peer)
            request = json.loads(peer.recv(4096))
            peer.sendall(json.dumps({"id": request["id"], "result": {}}).encode() + b"\n")

        thread = Thread(target=accept_and_answer, daemon=True)
        thread.start()
        transport = SocketTransport(path, lambda: "QEMU ended", TIMEOUT_S)
        thread.join(TIMEOUT_S)
    yield transport, accepted[0]
    transport.close()
    accepted[0].close()


def test_a_line_that_the_first_end_began_continues_at_the_second(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, first = ends
    ours, second = socket.socketpair()
    with second:
        first.sendall(b"one\ntw")
        transport.continue_at(ours, lambda: "the second QEMU ended")
        second.sendall(b"o\nthree\n")
        first.close()
        lines = transport.lines()
        assert [next(lines) for _ in range(3)] == [b"one", b"two", b"three"]
        second.close()
        assert list(lines) == []
        assert transport.end_reason() == "the second QEMU ended"


def test_requests_during_the_move_wait_for_the_second_end(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, first = ends
    transport.hold_writes(TIMEOUT_S)
    transport.write_line(b"held")
    transport.request_heartbeat()
    first.setblocking(False)
    with pytest.raises(BlockingIOError):
        first.recv(4096)
    ours, second = socket.socketpair()
    with second:
        transport.continue_at(ours, lambda: "the second QEMU ended")
        transport.release_writes()
        transport.write_line(b"later")
        with second.makefile("rb") as reading:
            assert [reading.readline(), reading.readline()] == [b"held\n", b"later\n"]


def test_requests_go_on_at_the_first_end_if_the_move_fails(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, first = ends
    transport.hold_writes(TIMEOUT_S)
    transport.write_line(b"held")
    transport.release_writes()
    transport.write_line(b"later")
    with first.makefile("rb") as reading:
        assert [reading.readline(), reading.readline()] == [b"held\n", b"later\n"]


def test_a_guest_that_does_not_read_its_requests_cannot_move(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, _ = ends
    transport.write_line(b"unread")
    with pytest.raises(TimeoutError, match=r"did not read its requests within 0\.05 s"):
        transport.hold_writes(0.05)
