"""Runs of a peer's two programs: a server in the sink's VM, then a client in the source's VM."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.testbed import TESTBED_NAME, KernelCounters, PeerTestbed
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import Vm
from vnetbench.lab.registry import PROCESS_LABEL

EXIT_TIMEOUT_S = 20.0
"""Time beyond the run's duration for a program to listen or to exit."""
_SERVER_EXIT_S = 2.0
"""Time for a server to exit after its client."""
_OWN_SESSION = True
"""The scheduler divides a busy CPU by session (sched(7), autogroup). Our agents have sessions too."""
_LISTEN_STATES = {"tcp": "0A", "udp": "07"}
"""States in /proc/net/tcp and udp (include/net/tcp_states.h): TCP_LISTEN; a bound UDP socket is TCP_CLOSE."""


class RunFailed(Exception):
    """A run provided no valid values; the message gives the reason."""


@dataclass(frozen=True)
class PeerPrograms:
    """Command lines of a peer's server and client for one run."""

    server: Sequence[str]
    client: Sequence[str]
    port: int
    """Port on which the server listens when it is ready."""
    seconds: float
    protocol: str = "tcp"
    """Protocol of `port`."""
    server_exits: bool = True
    """Whether the server exits by itself after the client."""


@dataclass(frozen=True)
class ProgramOutput:
    """Output of the programs, and the kernel's counters while the client ran."""

    client: str
    server: str
    counters: KernelCounters


def run(testbed: PeerTestbed, programs: PeerPrograms) -> ProgramOutput:
    """Run both programs until they exit.

    Raises:
        RunFailed: A program does not start, fails or takes too long.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        server = subprocess.Popen(
            [*_namespace_command(testbed, testbed.sink), *programs.server],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, text=True, cwd=folder,
            env=_labelled_environment(), start_new_session=_OWN_SESSION,
        )  # fmt: skip
        try:
            _wait_for_listener(testbed.sink, programs, server)
            client, counters = testbed.observe_run(lambda: _run_client(testbed, programs, folder))
        except RunFailed as error:
            _stop_server(server, 0)
            raise RunFailed(f"{error} {_last_lines(_read_output(output))}".strip()) from None
        finally:
            _stop_server(server, _SERVER_EXIT_S if programs.server_exits else 0)
        return ProgramOutput(strip_colors(client), strip_colors(_read_output(output)), counters)


def strip_colors(text: str) -> str:
    """Remove terminal colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def parse_numbers(text: str) -> Mapping[str, float]:
    """Return the numbers of the form NAME=NUMBER, which nuttcp, netperf and neper print."""
    matches = re.findall(r"(?:^|\s)(\w+)=(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?=\s|$)", text)
    return {name: float(value) for name, value in matches}


def require_number(numbers: Mapping[str, float], name: str, text: str) -> float:
    """Return one of the numbers in `text`.

    Raises:
        RunFailed: The number is missing. The message contains the last lines of `text`.
    """
    if name not in numbers:
        raise RunFailed(f"the output contains no {name}: {_last_lines(text)}")
    return numbers[name]


def _run_client(testbed: PeerTestbed, programs: PeerPrograms, folder: str) -> str:
    try:
        completed = subprocess.run(
            [*_namespace_command(testbed, testbed.source), *programs.client],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
            timeout=programs.seconds + EXIT_TIMEOUT_S, cwd=folder, env=_labelled_environment(),
            start_new_session=_OWN_SESSION,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RunFailed(f"the client did not exit within {programs.seconds + EXIT_TIMEOUT_S:g} s") from None
    if completed.returncode != 0:
        last_lines = _last_lines(completed.stdout + completed.stderr)
        raise RunFailed(f"the client failed with exit code {completed.returncode}: {last_lines}")
    return completed.stdout


def _labelled_environment() -> dict[str, str]:
    """Return an environment by which `vnetbench lab clean` finds leftover processes."""
    return {**os.environ, PROCESS_LABEL: TESTBED_NAME}


def _namespace_command(testbed: PeerTestbed, endpoint: Vm) -> list[str]:
    return ["ip", "netns", "exec", endpoint.namespace, "taskset", "-c", testbed.cpu_list(endpoint)]


def _wait_for_listener(sink: Vm, programs: PeerPrograms, server: subprocess.Popen[str]) -> None:
    """Wait for a listener in /proc/net, since some servers would take a test connection for their client."""
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    while not netlink.run_in_namespace(
        sink.namespace, lambda: _has_listener(programs.protocol, programs.port)
    ):
        if server.poll() is not None or time.monotonic() > deadline:
            raise RunFailed(f"the server does not listen on port {programs.port}:")
        time.sleep(0.005)


def _has_listener(protocol: str, port: int) -> bool:
    entry = re.compile(rf":{port:04X} [0-9A-F]+:[0-9A-F]{{4}} {_LISTEN_STATES[protocol]} ")
    tables = (Path(f"/proc/thread-self/net/{protocol}{version}") for version in ("", "6"))
    return any(table.exists() and entry.search(table.read_text()) for table in tables)


def _stop_server(server: subprocess.Popen[str], exit_timeout_s: float) -> None:
    """Wait for the server's exit; after the timeout terminate it, then kill it."""
    for timeout_s, send_signal in (
        (exit_timeout_s, server.terminate),
        (_SERVER_EXIT_S, server.kill),
        (None, server.kill),
    ):
        try:
            server.wait(timeout_s)
            return
        except subprocess.TimeoutExpired:
            send_signal()


def _read_output(output: IO[str]) -> str:
    output.seek(0)
    return output.read()


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in strip_colors(text).splitlines() if line.strip()]
    return "; ".join(lines[-2:])[-300:]
