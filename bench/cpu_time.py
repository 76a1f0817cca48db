"""The machine's CPU time since boot, of all its CPUs (proc_stat(5))."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_STAT = Path("/proc/stat")
_USER, _NICE, _IDLE, _IOWAIT, _STEAL = 0, 1, 3, 4, 7
_COUNTED = 8
"""Of the fields; a guest's time, which follows, is in the first two already."""


@dataclass(frozen=True)
class CpuTime:
    """In seconds."""

    whole: float
    """Of all CPUs, idle ones too."""
    idle: float
    """Waiting for storage too."""
    user: float
    stolen: float
    """What the machine's own hypervisor gave to others."""


def cpu_time() -> CpuTime:
    """What all CPUs together have done so far."""
    line = _STAT.read_text().splitlines()[0]
    times = [int(field) * TICK_S for field in line.split()[1 : 1 + _COUNTED]]
    return CpuTime(sum(times), times[_IDLE] + times[_IOWAIT], times[_USER] + times[_NICE], times[_STEAL])
