"""A verdict for tests whose claim holds only while nothing else uses the CPUs.

Most tests with real traffic assert on counts and ratios that hold on a busy machine too. The few others run
inside `quiet_machine_required`. No test runs twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.cpu_time import TICK_S, cpu_time

MAX_LOST_SHARE = 0.1
"""A test whose claim does not hold with 90 % of the CPUs needs a wider margin, not a quiet machine."""

YIELDING_NICE = 10
"""A process whose nice value is this much higher gets a tenth of the time of a CPU that both want."""

_PARENT, _USER_TICKS, _CHILDREN_SYSTEM_TICKS, _NICE = 1, 11, 14, 16
"""Fields of proc_pid_stat(5), counted from the state, which follows the name."""


@dataclass(frozen=True)
class LostCpuTime:
    """CPU time that was not available to the test, as shares of all CPUs."""

    foreign_share: float
    """Time of processes that the test did not start, of about the same priority or a higher one."""
    stolen_share: float
    """Time that the machine's hypervisor gave to others (steal)."""

    @property
    def share(self) -> float:
        return self.foreign_share + self.stolen_share

    def __str__(self) -> str:
        return (
            f"other processes used {self.foreign_share:.0%} of the CPU time and the host took "
            f"{self.stolen_share:.0%}"
        )


class LostCpuMeter:
    """Measures the CPU time that others use from its creation on."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._stolen_s = cpu_time().stolen
        self._foreign_s = _foreign_cpu_s()

    def read(self) -> LostCpuTime:
        """Return the CPU time lost until now."""
        available_s = (time.monotonic() - self._start_s) * (os.cpu_count() or 1)
        stolen_s = cpu_time().stolen - self._stolen_s
        foreign_s = max(0.0, _foreign_cpu_s() - self._foreign_s)
        return LostCpuTime(foreign_s / available_s, stolen_s / available_s)


@contextmanager
def quiet_machine_required() -> Iterator[None]:
    """Skip the test if its assertion fails while others used more than a tenth of the CPU time.

    The reason of the skip contains the measured shares and the assertion. A test that passes needs no excuse,
    and a test that fails on a quiet machine fails. `tests/skip_limit.py` limits the number of skips.
    """
    meter = LostCpuMeter()
    try:
        yield
    except AssertionError as error:
        lost = meter.read()
        if lost.share <= MAX_LOST_SHARE:
            raise
        pytest.skip(f"{lost}, so this does not count: {error}")


def _foreign_cpu_s() -> float:
    """Return the CPU time of all processes that may compete with the test, their ended children included."""
    return sum(foreign_cpu_s_by_pid().values())


def foreign_cpu_s_by_pid() -> dict[int, float]:
    """Return the CPU time of each process that may compete with the test, its ended children included."""
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                stats[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
    own_pid = os.getpid()
    own_nice = os.getpriority(os.PRIO_PROCESS, 0)
    parents = {pid: int(fields[_PARENT]) for pid, fields in stats.items()}
    return {
        pid: sum(map(int, fields[_USER_TICKS : _CHILDREN_SYSTEM_TICKS + 1])) * TICK_S
        for pid, fields in stats.items()
        if int(fields[_NICE]) - own_nice < YIELDING_NICE
        and not _is_kernel_thread(pid, parents)
        and not _is_related(pid, own_pid, parents)
    }


def _is_kernel_thread(pid: int, parents: dict[int, int]) -> bool:
    """Return whether it is kthreadd or its child: their time may be work on the test's own packets."""
    return pid == 2 or parents.get(pid) == 2


def _is_related(pid: int, own_pid: int, parents: dict[int, int]) -> bool:
    """Return whether a process descends from this one, or this one from it (its time contains ours)."""
    return own_pid in _line_of(pid, parents) or pid in _line_of(own_pid, parents)


def _line_of(pid: int, parents: dict[int, int]) -> set[int]:
    """Return a process and its ancestors."""
    line = set()
    while pid and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line
