"""Runs a bench as a user does: in a process of its own that tests can watch, interrupt and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.own_testbeds import list_own_testbeds
from tests.warm_process import run_module
from vnetbench.lab import netlink, registry
from vnetbench.results.file import ResultsFile

BLOCKS = 5
STUDY = f"""\
title = "Faults"
question = "Does anything get lost?"
workload = "tcp_stream"

[factors]
streams = [1, 2]
mtu = [1500, 9000]

[timing]
duration = "200 ms"

[precision]
half_width = "0.1 %"
min_trials = {BLOCKS}
max_trials = {BLOCKS}
"""
ENDLESS_STUDY = STUDY.replace(f"_trials = {BLOCKS}", "_trials = 2000")
"""A campaign that lasts for hours. A bench that a test starts beside it may take its time."""
PATIENCE_S = 300.0
"""Time limit for anything that does not hang, also on a busy machine."""
LEAST_LOAD_BYTES = 50_000_000
"""More than a VM receives before a load of a few seconds."""


def write_study(folder: Path, text: str = STUDY) -> Path:
    path = folder / "faults.toml"
    path.write_text(text)
    return path


def start(
    *arguments: str | Path,
    python: str = sys.executable,
    env: Mapping[str, str] | None = None,
    inside: str = "",
    **options: Any,
) -> subprocess.Popen[str]:
    """Start a bench, `inside` a namespace if given, with its plain output in a pipe."""
    prefix = ["ip", "netns", "exec", inside] if inside else []
    return subprocess.Popen(
        [*prefix, python, "-m", "vnetbench", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, **(env or {})},
        **options,
    )


def run(*arguments: str | Path, **options: Any) -> tuple[int, str]:
    """Run a bench to its end and return its exit code and output."""
    process = start(*arguments, **options)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in output, output
    return process.returncode, output


def run_warm(*arguments: str | Path) -> tuple[int, str]:
    """Run a command without load as `run` does, but in a forked process: it needs no imports."""
    completed = run_module("vnetbench", *arguments)
    output = completed.stdout + completed.stderr
    assert "Traceback" not in output, output
    return completed.returncode, output


def trials(path: Path) -> list[tuple[int, int]]:
    """Return treatment and block of each finished trial in a file that may be in use."""
    file = ResultsFile.open_to_read(path)
    try:
        return [(t.treatment, t.block) for t in file.trials() if not t.failure]
    finally:
        file.close()


def failures(path: Path) -> list[str]:
    file = ResultsFile.open_to_read(path)
    try:
        return [t.failure for t in file.trials() if t.failure]
    finally:
        file.close()


def wait_for_trials(path: Path, count: int) -> None:
    """Wait until a campaign has finished this number of trials."""
    deadline = time.monotonic() + PATIENCE_S
    while not (path.exists() and path.stat().st_size > 0 and len(trials(path)) >= count):
        assert time.monotonic() < deadline, "the campaign makes no progress"
        time.sleep(0.02)


def wait_for_load() -> str:
    """Wait until data flows between two VMs and return the testbed's name."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for entry in list_own_testbeds():
            with suppress(Exception):  # It may just be starting.
                if entry.name.startswith("run-") and received_bytes(entry.name) > LEAST_LOAD_BYTES:
                    return entry.name
        time.sleep(0.02)
    raise AssertionError("no load started")


def received_bytes(testbed: str) -> int:
    """Return the bytes that reached a testbed's second VM."""
    with netlink.open_in_namespace(f"vnb.{testbed}.b1") as ipr:
        (link,) = ipr.get_links(netlink.interface_index(ipr, "eth0"))
        return int(link.get_attr("IFLA_STATS64")["rx_bytes"])


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    """Read the output of a bench until a line contains this text; fail at the end of the output."""
    assert process.stdout is not None
    read = []
    for line in iter(process.stdout.readline, ""):
        if text in line:
            return
        read.append(line)
    raise AssertionError("".join(read))


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a bench."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


def assert_complete(path: Path) -> None:
    """Check that every treatment of every block was measured exactly once."""
    found = Counter(trials(path))
    assert found == Counter((t, b) for t in range(4) for b in range(BLOCKS))


def agents() -> list[int]:
    """Return the process ids of agents in testbeds of campaigns on this machine."""
    found = []
    for entry in list_own_testbeds():
        if entry.name.startswith("run-"):
            found += registry.testbed_pids(entry.name)
    return found
