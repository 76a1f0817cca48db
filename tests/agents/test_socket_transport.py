"""Tests of the transport to a guest's port: data of an earlier client, silence, closed connections."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from vnetbench.agents import transport
from vnetbench.agents.client import PROTOCOL_VERSION, AgentClient, AgentError
from vnetbench.agents.transport import SocketTransport

Session = Callable[[socket.socket], None]
TIMEOUT_S = 60.0
"""Limit for what happens at once on a machine that is not busy."""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Callable[[Session], Path]]:
    """Provide a UNIX socket whose other end runs a function with the first connection."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "port"))
    listening.listen()
    threads: list[threading.Thread] = []

    def serve(session: Session) -> Path:
        # Else the thread of an earlier session, if it is late, could accept the connection of this one.
        for earlier in threads:
            earlier.join(TIMEOUT_S)

        def run() -> None:
            peer, _ = listening.accept()
            with peer:
                session(peer)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return tmp_path / "port"

    yield serve
    for thread in threads:
        thread.join(TIMEOUT_S)
    listening.close()


def requests(peer: socket.socket) -> Iterator[dict[str, object]]:
    with peer.makefile("rb") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def answer(peer: socket.socket, request: dict[str, object], **result: object) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
    peer.sendall(line.encode() + b"\n")


def test_data_for_an_earlier_client_is_ignored(port: Callable[[Session], Path]) -> None:
    def session(peer: socket.socket) -> None:
        peer.sendall(b'half": 1}\n{"jsonrpc": "2.0", "id": 1, "result": {"for": "another client"}}\n')
        peer.sendall(b'{"method": "trial.sample"}\n')
        for request in requests(peer):
            answer(peer, request, protocol=PROTOCOL_VERSION, pid=1)

    client = AgentClient("a1", SocketTransport(port(session), lambda: "it is gone", TIMEOUT_S))
    assert client.call("agent.hello") == {"protocol": PROTOCOL_VERSION, "pid": 1}
    assert client.events.empty()
    client.close()


def test_the_hello_is_repeated_until_a_reply_arrives(
    port: Callable[[Session], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "HELLO_INTERVAL_S", 0.05)

    def session(peer: socket.socket) -> None:
        for number, request in enumerate(requests(peer)):
            if number >= 2:
                answer(peer, request, protocol=PROTOCOL_VERSION)

    SocketTransport(port(session), lambda: "", TIMEOUT_S).close()


def test_a_silent_agent_and_a_closed_connection_raise_different_errors(
    port: Callable[[Session], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "HELLO_INTERVAL_S", 0.05)
    with pytest.raises(TimeoutError):
        SocketTransport(port(lambda peer: list(requests(peer)).clear()), lambda: "", 0.2)
    with pytest.raises(ConnectionError):
        SocketTransport(port(lambda peer: None), lambda: "it is gone", TIMEOUT_S)


@pytest.mark.parametrize("line", [b"{}\n" * 1000, b"[" * 100_000 + b"\n"], ids=["short", "deep"])
def test_a_guest_that_sends_without_end_but_no_answer_times_out(
    port: Callable[[Session], Path], line: bytes
) -> None:
    def session(peer: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer.sendall(line)

    with pytest.raises(TimeoutError, match="no answer"):
        SocketTransport(port(session), lambda: "it is gone", 0.3)


def test_requests_fail_with_the_reason_of_a_closed_connection(
    port: Callable[[Session], Path],
) -> None:
    def session(peer: socket.socket) -> None:
        for request in requests(peer):
            if request["method"] != "agent.hello":
                return
            answer(peer, request, protocol=PROTOCOL_VERSION)

    client = AgentClient("a1", SocketTransport(port(session), lambda: "kernel panic", TIMEOUT_S))
    with pytest.raises(AgentError, match="kernel panic") as gone:
        client.call("trial.prepare")
    assert gone.value.has_agent_ended
    client.close()


def test_a_heartbeat_request_never_blocks_on_a_hung_guest(
    port: Callable[[Session], Path],
) -> None:
    may_close = threading.Event()

    def session(peer: socket.socket) -> None:
        answer(peer, next(requests(peer)), protocol=PROTOCOL_VERSION)
        may_close.wait(60)

    transport_under_test = SocketTransport(port(session), lambda: "", TIMEOUT_S)
    writer = threading.Thread(target=write_until_closed, args=(transport_under_test,), daemon=True)
    writer.start()
    for _ in range(3):
        writer.join(timeout=0.2)  # It fills the port's buffer and blocks.
        transport_under_test.request_heartbeat()
    assert writer.is_alive()
    may_close.set()
    transport_under_test.close()
    writer.join(timeout=60)
    assert not writer.is_alive()


def write_until_closed(transport_under_test: SocketTransport) -> None:
    with suppress(OSError):
        while True:
            transport_under_test.write_line(b"x" * 2**16)
