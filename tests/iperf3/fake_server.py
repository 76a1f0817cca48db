"""A fake iperf3 server that deviates from a stock server in a chosen way."""

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
    """The deviations from a stock server, and the state of the fake server."""

    reported_bytes: Callable[[int], int] = lambda received: received
    """Maps the bytes received to the bytes reported."""
    extra_results: Mapping[str, Any] = field(default_factory=dict)
    """Fields that replace those of its results."""
    busy_replies: int = 0
    """Number of first clients that it refuses as busy."""
    refusal_code: int = 0
    """The error code that refuses every test after the first, which only probes the server; 0 for none."""
    silent_after: bytes = b""
    """The state after which it sends nothing more."""
    test_count: int = 0
    """Number of tests whose parameters arrived."""
    port: int = 0
    """The port on which it listens."""


@contextmanager
def run_fake_server(server: FakeServer) -> Iterator[FakeServer]:
    """Run the server on loopback, for one client at a time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=_serve, args=(server, listener))
        thread.start()
        try:
            yield server
        finally:
            # Closing the socket does not end a blocked accept.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: FakeServer, listener: socket.socket) -> None:
    while True:
        try:
            control, _ = listener.accept()
        except OSError:
            return
        with control, suppress(OSError, EOFError):
            _run_test(server, listener, control)


def _run_test(server: FakeServer, listener: socket.socket, control: socket.socket) -> None:
    if server.busy_replies:
        server.busy_replies -= 1
        control.sendall(ACCESS_DENIED)
        return
    _receive_exactly(control, COOKIE_BYTES)
    control.sendall(PARAMETER_EXCHANGE)
    parameters = _receive_document(control)
    server.test_count += 1
    if server.refusal_code and server.test_count > 1:
        control.sendall(SERVER_ERROR + struct.pack(">II", server.refusal_code, 0))
        return
    control.sendall(CREATE_STREAMS)
    streams = [listener.accept()[0] for _ in range(int(parameters["parallel"]))]
    received = [0] * len(streams)
    threads = [threading.Thread(target=_count_bytes, args=(s, received, at)) for at, s in enumerate(streams)]
    try:
        for stream in streams:
            _receive_exactly(stream, COOKIE_BYTES)
        control.sendall(TEST_START + TEST_RUNNING)
        for thread in threads:
            thread.start()
        if server.test_count > 1 and server.silent_after == TEST_RUNNING:
            while control.recv(100):
                pass
            return
        assert _receive_exactly(control, 1) == TEST_END
        control.sendall(EXCHANGE_RESULTS)
        _receive_document(control)
        _send_results(server, control, received)
    finally:
        for stream in streams:
            stream.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for stream in streams:
            stream.close()


def _send_results(server: FakeServer, control: socket.socket, received: list[int]) -> None:
    ids = [1, *range(3, len(received) + 2)]
    results = {
        "cpu_util_total": 12.5,
        "cpu_util_user": 2.5,
        "cpu_util_system": 10.0,
        "sender_has_retransmits": -1,
        "streams": [
            {"id": number, "bytes": server.reported_bytes(count), "retransmits": -1, "jitter": 0, "errors": 0,
             "packets": 0, "start_time": 0, "end_time": 1}
            for number, count in zip(ids, received, strict=True)
        ],
        **server.extra_results,
    }  # fmt: skip
    text = json.dumps(results).encode()
    control.sendall(struct.pack(">I", len(text)) + text + DISPLAY_RESULTS)
    _receive_exactly(control, 1)


def _count_bytes(stream: socket.socket, received: list[int], at: int) -> None:
    with suppress(OSError):
        while part := stream.recv(1 << 20):
            received[at] += len(part)


def _receive_document(control: socket.socket) -> dict[str, Any]:
    (length,) = struct.unpack(">I", _receive_exactly(control, 4))
    document: dict[str, Any] = json.loads(_receive_exactly(control, length))
    return document


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise EOFError
        received += part
    return received
