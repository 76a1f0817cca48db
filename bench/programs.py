"""Running a peer's two programs: a server in the sink's VM, then a client in the source's."""

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

PATIENCE_S = 20.0
"""Beyond a run's own time, for a program to listen, or to come to its end."""
_ENDING_S = 2.0
"""For a server to end after its client; what it has told by then is all that it will."""
_LISTENING = {"tcp": "0A", "udp": "07"}
"""States in /proc/net/tcp and udp (include/net/tcp_states.h): TCP_LISTEN; a bound UDP socket is TCP_CLOSE."""


class RunFailed(Exception):
    """A run gave no figure that can be trusted; the sentence says why."""


@dataclass(frozen=True)
class Programs:
    """The two programs of one run of a peer."""

    server: Sequence[str]
    client: Sequence[str]
    port: int
    """The server is ready once something listens there."""
    seconds: float
    protocol: str = "tcp"
    """Of `port`."""
    server_ends: bool = True
    """Whether the server ends by itself after the client, and is waited for."""


@dataclass(frozen=True)
class Told:
    """What the programs printed, and what the kernel counted while the client ran."""

    client: str
    server: str
    counted: KernelCounters


def run(ground: PeerTestbed, programs: Programs) -> Told:
    """Run them to their end; raises RunFailed where one does not start, ends badly or takes too long."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        server = subprocess.Popen(
            [*_inside(ground, ground.sink), *programs.server],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, text=True, cwd=folder,
            env=_labelled(),
        )  # fmt: skip
        try:
            _wait_until_it_listens(ground.sink, programs, server)
            client, counted = ground.observe_run(lambda: _run_client(ground, programs, folder))
        except RunFailed as error:
            _end(server, 0)
            raise RunFailed(f"{error} {_end_of(_read(output))}".strip()) from None
        finally:
            _end(server, _ENDING_S if programs.server_ends else 0)
        return Told(plain(client), plain(_read(output)), counted)


def plain(text: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def numbers_of(text: str) -> Mapping[str, float]:
    """The numbers in lines or words NAME=NUMBER; nuttcp, netperf and neper tell theirs so."""
    found = re.findall(r"(?:^|\s)(\w+)=(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?=\s|$)", text)
    return {name: float(value) for name, value in found}


def told_number(numbers: Mapping[str, float], name: str, text: str) -> float:
    """One of them; raises RunFailed with the end of `text` where it is missing."""
    if name not in numbers:
        raise RunFailed(f"it does not tell {name}: {_end_of(text)}")
    return numbers[name]


def _run_client(ground: PeerTestbed, programs: Programs, folder: str) -> str:
    try:
        done = subprocess.run(
            [*_inside(ground, ground.source), *programs.client],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
            timeout=programs.seconds + PATIENCE_S, cwd=folder, env=_labelled(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RunFailed(f"the client did not end in {programs.seconds + PATIENCE_S:g} s") from None
    if done.returncode != 0:
        raise RunFailed(f"the client ended with {done.returncode}: {_end_of(done.stdout + done.stderr)}")
    return done.stdout


def _labelled() -> dict[str, str]:
    """An environment by which `vnetbench lab clean` finds what a killed bench leaves."""
    return {**os.environ, PROCESS_LABEL: TESTBED_NAME}


def _inside(ground: PeerTestbed, endpoint: Vm) -> list[str]:
    return ["ip", "netns", "exec", endpoint.namespace, "taskset", "-c", ground.cpus_of(endpoint)]


def _wait_until_it_listens(sink: Vm, programs: Programs, server: subprocess.Popen[str]) -> None:
    """Looked up, not tried: many a server takes a trial for its client."""
    until = time.monotonic() + PATIENCE_S
    while not netlink.run_in_namespace(sink.namespace, lambda: _listens(programs.protocol, programs.port)):
        if server.poll() is not None or time.monotonic() > until:
            raise RunFailed(f"the server does not listen on port {programs.port}:")
        time.sleep(0.005)


def _listens(protocol: str, port: int) -> bool:
    entry = re.compile(rf":{port:04X} [0-9A-F]+:[0-9A-F]{{4}} {_LISTENING[protocol]} ")
    tables = (Path(f"/proc/thread-self/net/{protocol}{version}") for version in ("", "6"))
    return any(table.exists() and entry.search(table.read_text()) for table in tables)


def _end(server: subprocess.Popen[str], patience_s: float) -> None:
    """Wait for its end, then ask for it, then see to it."""
    for timeout_s, insist in ((patience_s, server.terminate), (_ENDING_S, server.kill), (None, server.kill)):
        try:
            server.wait(timeout_s)
            return
        except subprocess.TimeoutExpired:
            insist()


def _read(output: IO[str]) -> str:
    output.seek(0)
    return output.read()


def _end_of(text: str) -> str:
    lines = [line.strip() for line in plain(text).splitlines() if line.strip()]
    return "; ".join(lines[-2:])[-300:]
