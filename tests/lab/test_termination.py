"""The end of a testbed's processes: SIGTERM, SIGKILL, and one scan of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vnetbench.lab import control_groups, registry
from vnetbench.lab.control_groups import CgroupHierarchy

COUNT = 5
WAIT = "import sys; print(flush=True); sys.stdin.read()"
IN_ANOTHER_RUN = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs other /run && exec "$@"', "sh")
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


@pytest.mark.lab
def test_processes_of_another_test_run_with_the_same_testbed_name_are_left_alone() -> None:
    started = [
        subprocess.Popen(
            [*prefix, sys.executable, "-c", WAIT],
            env={**os.environ, registry.PROCESS_LABEL: "t-both"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for prefix in ((), IN_ANOTHER_RUN)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        own, other = started
        assert registry.testbed_pids("t-both") == [own.pid]
        registry._terminate_processes("t-both")
        assert own.wait(timeout=60) == -signal.SIGTERM
        assert other.poll() is None
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.lab
def test_a_control_group_whose_process_has_another_run_folder_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / f"vnb.t-other.a1.{os.getppid()}:another boot:1"
    group.mkdir()
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    with subprocess.Popen(
        [*IN_ANOTHER_RUN, sys.executable, "-c", WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        (group / control_groups.PROCS_FILE_NAME).write_text(f"{other.pid}\n")
        assert control_groups.testbeds_with_leftover_groups() == set()
        assert control_groups.remove_groups_and_list_remaining("t-other") == []
        (group / control_groups.PROCS_FILE_NAME).write_text(f"{os.getpid()}\n")
        assert control_groups.testbeds_with_leftover_groups() == {"t-other"}
        other.communicate()
