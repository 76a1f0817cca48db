"""Other work on the machine: processes that only compute, on CPUs of their own or anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.corpus.scene import Disturb, Scene
from vnetbench.lab.registry import PROCESS_LABEL

_SPIN = "while True: pass"
_SPIN_PARTLY = """
import time
while True:
    until = time.monotonic() + {busy_s}
    while time.monotonic() < until: pass
    time.sleep({idle_s})
"""
_TURN_S = 0.01
SPUN = "spun_s"
"""What it tells: the CPU time that the processes had."""


def spinning(count: int, cpus: frozenset[int] | None = None, share: float = 1.0) -> Disturb:
    """So many processes on these CPUs (None: anywhere), each at work for this share of the time."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        with spun(scene, count, cpus, share):
            yield

    return disturb


@contextmanager
def spun(scene: Scene, count: int, cpus: frozenset[int] | None = None, share: float = 1.0) -> Iterator[None]:
    """See `spinning`."""
    code = _SPIN if share >= 1 else _SPIN_PARTLY.format(busy_s=share * _TURN_S, idle_s=(1 - share) * _TURN_S)
    environment = {**os.environ, PROCESS_LABEL: scene.name}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            command = [sys.executable, "-I", "-S", "-c", code]
            # Else the scheduler's autogroups would give all of them together as much as one agent.
            processes.append(subprocess.Popen(command, env=environment, start_new_session=True))
            if cpus:
                os.sched_setaffinity(processes[-1].pid, cpus)
        yield
    finally:
        for process in processes:
            scene.told[SPUN] += _cpu_s(process.pid)
            process.kill()
            process.wait()


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process so far (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
