"""The end of a testbed's processes: SIGTERM, SIGKILL, and one scan of the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from vnetbench.lab import registry

COUNT = 5
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start processes of a testbed that ignore SIGTERM."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", STUBBORN],
            env={registry.PROCESS_LABEL: "t-termination"},
            stdout=subprocess.PIPE,
        )
        for _ in range(COUNT)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_processes_that_ignore_sigterm_are_killed_and_the_machine_is_scanned_once(
    processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = 0
    scan = registry._labelled_processes

    def count_scans() -> Iterator[tuple[int, str]]:
        nonlocal scans
        scans += 1
        return scan()

    monkeypatch.setattr(registry, "_labelled_processes", count_scans)
    monkeypatch.setattr(registry, "TERMINATION_TIMEOUT_S", 0.2)
    registry._terminate_processes("t-termination")
    assert [process.wait(timeout=60) for process in processes] == [-9] * COUNT
    assert scans == 1
