"""Runs Debian's iperf3 and the agent's iperf3 commands as processes on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.free_ports import take_free_port
from tests.iperf3.option_matrix import Document
from vnetbench.agents.binary import agent_binary_path

TIMEOUT_S = 60.0
LEAST_LOAD_BYTES = 1_000_000
HOST = "127.0.0.1"
ENVIRONMENT = dict(os.environ)
"""The environment of programs that threads start. pytest changes the environment of this process before and
after each test. A program that inherits it from a thread at that time can fail with EFAULT (execve)."""


def stock_iperf3() -> str:
    """Return the path of Debian's iperf3; fail with the fix if it is missing."""
    path = shutil.which("iperf3")
    assert path, "iperf3 is missing\n  fix: apt-get install iperf3"
    return path


def agent_command(role: str) -> list[str]:
    """Return the command of the agent's iperf3 `serve` or `client`."""
    return [str(agent_binary_path()), f"iperf3-{role}"]


def run(command: list[str]) -> tuple[int, str, str]:
    """Run a command; return its exit code, output and error output."""
    process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=ENVIRONMENT)
    return process.returncode, process.stdout, process.stderr


def run_json(command: list[str]) -> tuple[int, Document, str]:
    """Run a command; return its exit code, JSON output and error output."""
    code, output, errors = run(command)
    try:
        document: Document = json.loads(output)
    except ValueError:
        document = {"error": f"no JSON: {output!r}"}
    return code, document, errors


class JsonServer:
    """Our server with `--json`, which prints a line for each client."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = take_free_port()
        self.log = folder / f"server-{self.port}.jsonl"
        with self.log.open("w") as log:
            command = [*agent_command("serve"), "-p", str(self.port), "-J", *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=ENVIRONMENT)
        wait_for_listener(self.port, self.process)

    def documents(self) -> list[Document]:
        """Return the documents that the server has printed."""
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def wait_for_documents(self, tests: int) -> list[Document]:
        """Return the documents of this many tests; the server prints them after its clients have left."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if len(documents := self.documents()) >= tests:
                return documents
            time.sleep(0.02)
        raise AssertionError(f"the server did not report {tests} tests: {self.log.read_text()}")

    def wait_for_document(self, cookie: str) -> Document:
        """Return the document of the test with this cookie."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for document in self.documents():
                if document.get("start") and document["start"]["cookie"] == cookie:
                    return document
            time.sleep(0.02)
        raise AssertionError(f"the server did not report the test {cookie}: {self.log.read_text()}")

    def close(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()


@contextmanager
def run_server(folder: Path, *options: str) -> Iterator[JsonServer]:
    """Run our server with these options."""
    running = JsonServer(folder, *options)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def act_under_load(
    port: int, action: Callable[[], object], least_bytes: int = LEAST_LOAD_BYTES
) -> Iterator[None]:
    """Do this in another thread, once so many bytes have passed a connection of the server at this port."""

    def act() -> None:
        wait_for_load(port, least_bytes)
        action()

    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        yield
        acting.result()


def wait_for_load(port: int, least_bytes: int = LEAST_LOAD_BYTES) -> None:
    """Wait until so many bytes have passed a connection of the server at this port.

    A busy machine may start the load later than any fixed time. The kernel's counters show when it flows.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while bytes_of_largest_connection(port) < least_bytes:
        assert time.monotonic() < deadline, f"no load started on port {port}"
        time.sleep(0.01)


def bytes_of_largest_connection(port: int) -> int:
    """Return the largest number of bytes that one connection of the server at this port has carried."""
    command = ["ss", "-Htin", "state", "established", "sport", "=", f":{port}"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return max((int(count) for count in re.findall(r"bytes_(?:acked|received):(\d+)", listing)), default=0)


def wait_for_output(process: subprocess.Popen[str], pattern: str) -> None:
    """Read a process's lines until one matches; fail at the end of its output."""
    assert process.stdout is not None
    for line in iter(process.stdout.readline, ""):
        if re.search(pattern, line):
            return
    raise AssertionError(f"the process ended without a line that matches {pattern}")


def wait_for_listener(port: int, process: subprocess.Popen[Any]) -> None:
    """Wait until /proc/net shows a listener: a stock server would take a trial connection for its client."""
    listening = f":{port:04X} 00000000:0000 0A", f":{port:04X} {'0' * 32}:0000 0A"
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server has exited"
        tables = (Path("/proc/net/tcp").read_text(), Path("/proc/net/tcp6").read_text())
        if any(entry in table for entry in listening for table in tables):
            return
        time.sleep(0.01)
    raise AssertionError(f"no process listens on port {port}")
