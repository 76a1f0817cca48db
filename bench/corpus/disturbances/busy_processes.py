"""Processes that use CPU time, on given CPUs or on any CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.lab.registry import PROCESS_LABEL

_SPIN = "while True: pass"
_SPIN_PARTLY = """
import time
while True:
    until = time.monotonic() + {busy_s}
    while time.monotonic() < until: pass
    time.sleep({idle_s})
"""
_PERIOD_S = 0.01
SPUN_CPU_S = "spun_s"
"""Name of a measurement: the CPU time of the processes in seconds."""


def busy_processes(count: int, cpus: frozenset[int] | None = None, share: float = 1.0) -> Disturbance:
    """Run `count` processes on these CPUs (None: any), each busy for this share of the time."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        with run_busy_processes(target, count, cpus, share):
            yield

    return disturb


@contextmanager
def run_busy_processes(
    target: DisturbanceTarget, count: int, cpus: frozenset[int] | None = None, share: float = 1.0
) -> Iterator[None]:
    """Run the processes inside a context; see `busy_processes`."""
    code = _SPIN
    if share < 1:
        code = _SPIN_PARTLY.format(busy_s=share * _PERIOD_S, idle_s=(1 - share) * _PERIOD_S)
    environment = {**os.environ, PROCESS_LABEL: target.testbed_name}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            command = [sys.executable, "-I", "-S", "-c", code]
            # Without separate sessions, the scheduler's autogroup gives all processes one agent's share.
            processes.append(subprocess.Popen(command, env=environment, start_new_session=True))
            if cpus:
                os.sched_setaffinity(processes[-1].pid, cpus)
        yield
    finally:
        for process in processes:
            target.measurements[SPUN_CPU_S] += _read_cpu_s(process.pid)
            process.kill()
            process.wait()


def _read_cpu_s(pid: int) -> float:
    """Return the CPU time of a process in seconds (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
