"""CPU time of all CPUs of the machine since boot (proc_stat(5))."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_STAT = Path("/proc/stat")
_USER, _NICE, _IDLE, _IOWAIT, _STEAL = 0, 1, 3, 4, 7
_FIELD_COUNT = 8
"""Number of fields used. The guest times after them are already part of the first two."""


@dataclass(frozen=True)
class CpuTime:
    """CPU time of all CPUs in seconds."""

    whole: float
    """Total time, idle time included."""
    idle: float
    """Idle time, waiting for storage included."""
    user: float
    stolen: float
    """Time that the machine's hypervisor gave to others (steal)."""


def cpu_time() -> CpuTime:
    """Return the CPU time since boot."""
    line = _STAT.read_text().splitlines()[0]
    times = [int(field) * TICK_S for field in line.split()[1 : 1 + _FIELD_COUNT]]
    return CpuTime(sum(times), times[_IDLE] + times[_IOWAIT], times[_USER] + times[_NICE], times[_STEAL])
