"""CPU time that everything outside a run used, and which programs used it.

It is measured from outside, with the counters of the kernel. It reads no results file and no explanation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bench.redteam import groups

_KERNEL_THREAD_FLAG = 0x0020_0000
"""PF_KTHREAD (include/linux/sched.h)."""
_MOST_NAMED_PROGRAMS = 3
_LEAST_NAMED_S = 0.05
"""CPU time below which a program is not named: a few clock ticks."""


@dataclass(frozen=True)
class _Process:
    """A process that is not part of the run, with the CPU time that it and its ended children have used."""

    name: str
    is_kernel_thread: bool
    cpu: int
    """CPU on which it last ran."""
    used_s: float


@dataclass(frozen=True)
class OutsideWork:
    """What used the CPUs of a machine shape in addition to the run.

    Attributes:
        all_share: Share of their CPU time that was not the run's: programs and threads of the kernel.
        programs_share: Share that programs outside the run's group used, without threads of the kernel.
            Those often work for the run. None without such a group.
        steal_share: Share that the machine's host stole.
        program_s: CPU time of the programs with the most that may use these CPUs. It contains their time on
            other CPUs, and all time of children that ended, so it says who it may have been, not how much.
    """

    all_share: float
    programs_share: float | None
    steal_share: float
    program_s: Mapping[str, float]


class OutsideMeter:
    """Measures what else uses the CPUs of a machine shape."""

    def __init__(self, accounting: Path | None, cpus: Sequence[int]) -> None:
        """Start to measure.

        Args:
            accounting: Control group whose CPU time is the red team's own; None without control groups.
            cpus: CPUs of the machine shape.
        """
        self._accounting = accounting
        self._cpus = frozenset(cpus)
        self._start = self._read_times()
        self._processes = self._read_processes()

    def read(self) -> OutsideWork:
        """Return the work since the start."""
        busy, steal, own, clock = (
            end - start for end, start in zip(self._read_times(), self._start, strict=True)
        )
        total = clock * len(self._cpus)
        if not self._accounting:
            return OutsideWork(0.0, None, round(steal / total, 4), {})
        used = self._used_since_start()
        kernel_s = sum(process.used_s for process in used if process.is_kernel_thread)
        return OutsideWork(
            round(max(busy - own, 0.0) / total, 3),
            round(max(busy - own - kernel_s, 0.0) / total, 3),
            round(steal / total, 4),
            _programs_with_most(used),
        )

    def _read_times(self) -> tuple[float, float, float, float]:
        busy = steal = 0
        names = {f"cpu{cpu}" for cpu in self._cpus}
        for line in Path("/proc/stat").read_text().splitlines():
            name, *words = line.split()
            if name in names:
                user, nice, system, _, _, irq, softirq, stolen = map(int, words[:8])
                busy += user + nice + system + irq + softirq
                steal += stolen
        ticks_per_s = os.sysconf("SC_CLK_TCK")
        own = groups.used_cpu_s(self._accounting) if self._accounting else 0.0
        return busy / ticks_per_s, steal / ticks_per_s, own, time.monotonic()

    def _used_since_start(self) -> list[_Process]:
        """Return the processes that may use these CPUs, with the CPU time since the start.

        Threads of the kernel that may use several CPUs count on the one on which they last ran.
        """
        used = []
        for pid, process in self._read_processes().items():
            if process.cpu in self._cpus if process.is_kernel_thread else self._may_use_these_cpus(pid):
                before = self._processes.get(pid)
                used.append(replace(process, used_s=process.used_s - (before.used_s if before else 0.0)))
        return used

    def _may_use_these_cpus(self, pid: int) -> bool:
        with suppress(OSError):
            return not self._cpus.isdisjoint(os.sched_getaffinity(pid))
        return False

    def _read_processes(self) -> dict[int, _Process]:
        group = self._accounting.name if self._accounting else ""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError, ValueError, IndexError):
                if not group or group not in (entry / "cgroup").read_text():
                    found[int(entry.name)] = _parse_process((entry / "stat").read_text())
        return found


def _parse_process(stat: str) -> _Process:
    """Return a process from the text of /proc/PID/stat (proc(5)); raises ValueError or IndexError."""
    head, _, tail = stat.rpartition(")")
    words = tail.split()
    flags, ticks, cpu = int(words[6]), sum(map(int, words[11:15])), int(words[36])
    used_s = ticks / os.sysconf("SC_CLK_TCK")
    return _Process(head.partition("(")[2], bool(flags & _KERNEL_THREAD_FLAG), cpu, used_s)


def _programs_with_most(processes: Sequence[_Process]) -> dict[str, float]:
    """Return the names of the programs with the most CPU time, with this time in seconds."""
    used: dict[str, float] = {}
    for process in processes:
        if not process.is_kernel_thread:
            used[process.name] = used.get(process.name, 0.0) + process.used_s
    most = sorted(used.items(), key=lambda each: -each[1])[:_MOST_NAMED_PROGRAMS]
    return {name: round(seconds, 2) for name, seconds in most if seconds >= _LEAST_NAMED_S}
