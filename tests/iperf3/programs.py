"""iperf3 as Debian ships it, and ours, as processes on loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.iperf3.cells import Document
from vnetbench.agents.binary import agent_binary

PATIENCE_S = 60.0
HOST = "127.0.0.1"


def stock() -> str:
    """Debian's iperf3; without it these tests fail, and say the fix."""
    found = shutil.which("iperf3")
    assert found, "iperf3 is missing\n  fix: apt-get install iperf3"
    return found


def ours(role: str) -> list[str]:
    return [str(agent_binary()), f"iperf3-{role}"]


def free_port() -> int:
    """A port that nobody has, for TCP; the system does not give it out again at once."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def run(command: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


def run_json(command: list[str]) -> tuple[int, Document, str]:
    code, output, errors = run(command)
    try:
        document: Document = json.loads(output)
    except ValueError:
        document = {"error": f"no JSON: {output!r}"}
    return code, document, errors


class Server:
    """Our server, with `--json`: a line for each client."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.log = folder / f"server-{self.port}.jsonl"
        with self.log.open("w") as log:
            command = [*ours("serve"), "-p", str(self.port), "-J", *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_for_listener(self.port, self.process)

    def documents(self) -> list[Document]:
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def documents_of(self, tests: int) -> list[Document]:
        """What the server says of that many tests; it says so after its clients have gone."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if len(documents := self.documents()) >= tests:
                return documents
            time.sleep(0.02)
        raise AssertionError(f"the server does not tell of {tests} tests: {self.log.read_text()}")

    def document_of(self, cookie: str) -> Document:
        """What the server says of the test with that cookie."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for document in self.documents():
                if document.get("start") and document["start"]["cookie"] == cookie:
                    return document
            time.sleep(0.02)
        raise AssertionError(f"the server says nothing of {cookie}: {self.log.read_text()}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def server(folder: Path, *options: str) -> Iterator[Server]:
    running = Server(folder, *options)
    try:
        yield running
    finally:
        running.close()


def wait_for_listener(port: int, process: subprocess.Popen[Any]) -> None:
    """Returns when somebody listens: looked up, not tried. A stock server takes a trial for its client."""
    listening = f":{port:04X} 00000000:0000 0A", f":{port:04X} {'0' * 32}:0000 0A"
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, "the server has ended"
        tables = (Path("/proc/net/tcp").read_text(), Path("/proc/net/tcp6").read_text())
        if any(entry in table for entry in listening for table in tables):
            return
        time.sleep(0.01)
    raise AssertionError(f"nobody listens on {port}")
