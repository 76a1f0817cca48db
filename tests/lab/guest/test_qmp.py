"""The client of QEMU's monitor, with a program that replies like QEMU."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from vnetbench.lab.guest.qmp import Monitor, MonitorError

pytestmark = pytest.mark.pure

GREETING: object = {"QMP": {"version": {}, "capabilities": []}}
ACCEPTED: object = {"return": {}}
REFUSED = {"error": {"class": "GenericError", "desc": "not now"}}
EVENT = {"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 2}}


class FakeQemu:
    """Sends a greeting, then the next messages after each command that it receives."""

    def __init__(self, path: Path, greeting: object, replies: Sequence[Sequence[object]]) -> None:
        self.commands: list[str] = []
        self.is_closed_by_client = False
        self._greeting, self._replies = greeting, replies
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the client has closed its connection, at most 5 s."""
        self._thread.join(5)
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rwb", buffering=0) as stream:
            stream.write(encode(self._greeting))
            for messages in (*self._replies, ()):
                line = stream.readline()
                if not line:
                    self.is_closed_by_client = True
                    return
                self.commands.append(json.loads(line)["execute"])
                stream.write(b"".join(map(encode, messages)))


def encode(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


@contextmanager
def fake_qemu(folder: Path, *replies: Sequence[object], greeting: object = GREETING) -> Iterator[FakeQemu]:
    qemu = FakeQemu(folder / "qmp", greeting, replies)
    try:
        yield qemu
    finally:
        qemu.wait()


def test_a_command_returns_the_reply_and_ignores_events(tmp_path: Path) -> None:
    with fake_qemu(tmp_path, [ACCEPTED], [EVENT, {"return": {"status": "running"}}]) as qemu:
        monitor = Monitor(tmp_path / "qmp")
        assert monitor.execute("query-status") == {"status": "running"}
        monitor.close()
    assert qemu.commands == ["qmp_capabilities", "query-status"]
    assert qemu.is_closed_by_client


def test_a_refused_command_raises_the_reason(tmp_path: Path) -> None:
    with fake_qemu(tmp_path, [ACCEPTED], [REFUSED]):
        monitor = Monitor(tmp_path / "qmp")
        with pytest.raises(MonitorError, match="QEMU refused stop: not now"):
            monitor.execute("stop")
        monitor.close()


# The caller tries again every 20 ms, so a connection that stays open would be one of hundreds.
@pytest.mark.parametrize("greeting", [GREETING, "no monitor"])
def test_a_failed_start_closes_the_connection(tmp_path: Path, greeting: object) -> None:
    with fake_qemu(tmp_path, [REFUSED], greeting=greeting) as qemu:
        with pytest.raises(MonitorError) as failure:
            Monitor(tmp_path / "qmp")
        # The error still refers to the half-made monitor, so only an explicit close can end the connection.
        qemu.wait()
        assert qemu.is_closed_by_client, failure
