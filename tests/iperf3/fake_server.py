"""A server that speaks iperf3's protocol as far as it is told to, and then does what stock servers do not."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

COOKIE_BYTES = 37
TEST_START, TEST_RUNNING, TEST_END = b"\x01", b"\x02", b"\x04"
PARAMETER_EXCHANGE, CREATE_STREAMS = b"\x09", b"\x0a"
EXCHANGE_RESULTS, DISPLAY_RESULTS = b"\x0d", b"\x0e"
ACCESS_DENIED, SERVER_ERROR = b"\xff", b"\xfe"


@dataclass
class FakeServer:
    """What it does otherwise than a stock server."""

    count: Callable[[int], int] = lambda received: received
    """What it tells of the bytes that it received."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """What else its results say."""
    denials: int = 0
    """So many clients are told first that it is busy."""
    refusal: int = 0
    """iperf3's number by which it refuses the second test, after the first, which asks who it is."""
    silent_after: bytes = b""
    """The state after which it says nothing more."""
    tests: int = 0
    """Clients that have come to their parameters."""
    port: int = 0


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    """The server at work on loopback, one client at a time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=_serve, args=(server, listener))
        thread.start()
        try:
            yield server
        finally:
            # Closing alone would not end an accept that waits.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: FakeServer, listener: socket.socket) -> None:
    while True:
        try:
            control, _ = listener.accept()
        except OSError:
            return
        with control, suppress(OSError, EOFError):
            _test(server, listener, control)


def _test(server: FakeServer, listener: socket.socket, control: socket.socket) -> None:
    if server.denials:
        server.denials -= 1
        control.sendall(ACCESS_DENIED)
        return
    _exactly(control, COOKIE_BYTES)
    control.sendall(PARAMETER_EXCHANGE)
    asked = _document(control)
    server.tests += 1
    if server.refusal and server.tests > 1:
        control.sendall(SERVER_ERROR + struct.pack(">II", server.refusal, 0))
        return
    control.sendall(CREATE_STREAMS)
    streams = [listener.accept()[0] for _ in range(int(asked["parallel"]))]
    received = [0] * len(streams)
    threads = [threading.Thread(target=_receive, args=(s, received, at)) for at, s in enumerate(streams)]
    try:
        for stream in streams:
            _exactly(stream, COOKIE_BYTES)
        control.sendall(TEST_START + TEST_RUNNING)
        for thread in threads:
            thread.start()
        if server.tests > 1 and server.silent_after == TEST_RUNNING:
            while control.recv(100):
                pass
            return
        assert _exactly(control, 1) == TEST_END
        control.sendall(EXCHANGE_RESULTS)
        _document(control)
        _tell(server, control, received)
    finally:
        for stream in streams:
            stream.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for stream in streams:
            stream.close()


def _tell(server: FakeServer, control: socket.socket, received: list[int]) -> None:
    ids = [1, *range(3, len(received) + 2)]
    results = {
        "cpu_util_total": 12.5,
        "cpu_util_user": 2.5,
        "cpu_util_system": 10.0,
        "sender_has_retransmits": -1,
        "streams": [
            {"id": number, "bytes": server.count(count), "retransmits": -1, "jitter": 0, "errors": 0,
             "packets": 0, "start_time": 0, "end_time": 1}
            for number, count in zip(ids, received, strict=True)
        ],
        **server.told,
    }  # fmt: skip
    text = json.dumps(results).encode()
    control.sendall(struct.pack(">I", len(text)) + text + DISPLAY_RESULTS)
    _exactly(control, 1)


def _receive(stream: socket.socket, received: list[int], at: int) -> None:
    with suppress(OSError):
        while part := stream.recv(1 << 20):
            received[at] += len(part)


def _document(control: socket.socket) -> dict[str, Any]:
    (length,) = struct.unpack(">I", _exactly(control, 4))
    document: dict[str, Any] = json.loads(_exactly(control, length))
    return document


def _exactly(connection: socket.socket, count: int) -> bytes:
    said = b""
    while len(said) < count:
        part = connection.recv(count - len(said))
        if not part:
            raise EOFError
        said += part
    return said
