"""An agent that sends a line without end: the bench stops reading and says so."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vnetbench.agents import transport
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.transport import PipeTransport, SocketTransport

pytestmark = pytest.mark.pure

LIMIT_BYTES = 1 << 16
MESSAGE = "sent a line of more than"


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_LINE_BYTES", LIMIT_BYTES)


def test_an_endless_line_of_a_process_ends_the_connection() -> None:
    program = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=nowhere)
    client = AgentClient("a1", PipeTransport(process, closing_timeout_s=1))
    try:
        with pytest.raises(AgentError, match=MESSAGE):
            client.call("agent.hello", timeout_s=60)
    finally:
        client.close()


def test_an_endless_line_of_a_guest_ends_the_connection(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "port"))
    listening.listen()

    def send_endlessly() -> None:
        peer, _ = listening.accept()
        with peer:
            try:
                while True:
                    peer.sendall(b"x" * 65536)
            except OSError:
                return

    sender = threading.Thread(target=send_endlessly, daemon=True)
    sender.start()
    with pytest.raises(ConnectionError, match=MESSAGE):
        SocketTransport(tmp_path / "port", lambda: "the peer ended", 60.0)
    sender.join(60)
    listening.close()
    assert not sender.is_alive()
