"""A guest's port, which one host after the other speaks on: what another left, silence, and the end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from vnetbench.agents import transport
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.transport import SocketTransport

Serve = Callable[[socket.socket], None]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Callable[[Serve], Path]]:
    """A UNIX socket at whose other end a function speaks with who comes first."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "port"))
    listening.listen()
    threads = []

    def serve(speak: Serve) -> Path:
        def run() -> None:
            other, _ = listening.accept()
            with other:
                speak(other)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return tmp_path / "port"

    yield serve
    for thread in threads:
        thread.join(timeout=60)
    listening.close()


def requests(other: socket.socket) -> Iterator[dict[str, object]]:
    with other.makefile("rb") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def answer(other: socket.socket, asked: dict[str, object], **result: object) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    other.sendall(line.encode() + b"\n")


def test_what_was_for_another_is_passed_over(port: Callable[[Serve], Path]) -> None:
    def speak(other: socket.socket) -> None:
        other.sendall(b'half": 1}\n{"jsonrpc": "2.0", "id": 1, "result": {"of": "another"}}\n')
        other.sendall(b'{"method": "trial.sample"}\n')
        for asked in requests(other):
            answer(other, asked, protocol=1)

    client = AgentClient("a1", SocketTransport(port(speak), lambda: "it is gone", 5))
    assert client.call("agent.hello") == {"protocol": 1}
    assert client.events.empty()
    client.close()


def test_it_is_asked_again_as_long_as_nothing_comes(
    port: Callable[[Serve], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "HELLO_AGAIN_S", 0.05)

    def speak(other: socket.socket) -> None:
        for number, asked in enumerate(requests(other)):
            if number >= 2:
                answer(other, asked, protocol=1)

    SocketTransport(port(speak), lambda: "", 10).close()


def test_one_that_never_answers_and_one_that_leaves_are_told_apart(
    port: Callable[[Serve], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "HELLO_AGAIN_S", 0.05)
    with pytest.raises(TimeoutError):
        SocketTransport(port(lambda other: list(requests(other)).clear()), lambda: "", 0.2)
    with pytest.raises(ConnectionError):
        SocketTransport(port(lambda other: None), lambda: "it is gone", 5)


def test_when_it_leaves_later_every_request_hears_why(port: Callable[[Serve], Path]) -> None:
    def speak(other: socket.socket) -> None:
        for asked in requests(other):
            if asked["method"] != "agent.hello":
                return
            answer(other, asked, protocol=1)

    client = AgentClient("a1", SocketTransport(port(speak), lambda: "kernel panic", 5))
    with pytest.raises(AgentError, match="kernel panic") as gone:
        client.call("trial.prepare")
    assert gone.value.is_dead
    client.close()


def test_a_hung_guest_whose_port_is_full_is_asked_without_waiting_for_it(
    port: Callable[[Serve], Path],
) -> None:
    is_over = threading.Event()

    def speak(other: socket.socket) -> None:
        answer(other, next(requests(other)), protocol=1)
        is_over.wait(60)

    met = SocketTransport(port(speak), lambda: "", 5)
    writer = threading.Thread(target=write_until_closed, args=(met,), daemon=True)
    writer.start()
    for _ in range(3):
        writer.join(timeout=0.2)  # it fills what the port holds, and hangs
        met.request_heartbeat()
    assert writer.is_alive()
    is_over.set()
    met.close()
    writer.join(timeout=60)
    assert not writer.is_alive()


def write_until_closed(met: SocketTransport) -> None:
    with suppress(OSError):
        while True:
            met.write_line(b"x" * 2**16)
