"""Repetition of corpus runs that other work on the machine disturbed.

A disturbed run does not show the cause that the corpus gives it. The check uses only the CPU time of this
control group and of the machine. Explanations do not use these, so the check does not select runs by
explanation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from bench.cpu_time import TICK_S, cpu_time

MAX_STOLEN_SHARE = 0.1
"""Share of all CPU time that the machine's hypervisor may take (steal)."""
MAX_FOREIGN_CPUS = 0.8
"""CPUs that programs outside the control group may use."""
MAX_MEASUREMENT_ATTEMPTS = 3

_PROC_CGROUP = Path("/proc/self/cgroup")
Result = TypeVar("Result")


class RunDisturbed(Exception):
    """Other work disturbed every attempt of a run; the message describes it."""


@dataclass(frozen=True)
class CpuTimeUsage:
    """CPU time in seconds, since boot or between two readings."""

    whole: float
    """Time of all CPUs, idle time included."""
    stolen: float
    user: float
    own: float | None
    """User time of this control group, without kernel threads, which work for any sender."""

    def __sub__(self, before: CpuTimeUsage) -> CpuTimeUsage:
        own = None if self.own is None or before.own is None else self.own - before.own
        return CpuTimeUsage(
            self.whole - before.whole, self.stolen - before.stolen, self.user - before.user, own
        )


def repeat_until_undisturbed(
    make: Callable[[], Result], uncounted_user_s: Callable[[Result], float] = lambda _: 0.0
) -> Result:
    """Call `make`, and again if other work disturbed it.

    Args:
        make: Makes the run.
        uncounted_user_s: Returns the run's user time in seconds that this control group does not count.

    Raises:
        RunDisturbed: Every attempt was disturbed.
    """
    for _ in range(MAX_MEASUREMENT_ATTEMPTS):
        before = cpu_time_usage()
        made = make()
        usage = cpu_time_usage() - before
        own = None if usage.own is None else usage.own + uncounted_user_s(made)
        if not (why := describe_disturbance(replace(usage, own=own))):
            return made
    raise RunDisturbed(why)


def describe_disturbance(usage: CpuTimeUsage, cpus: int | None = None) -> str:
    """Describe the other work on the machine if there was too much; otherwise return an empty string."""
    if usage.stolen > MAX_STOLEN_SHARE * usage.whole:
        return f"the hypervisor took {usage.stolen / usage.whole:.0%} of its CPU time (steal)"
    if usage.own is None or usage.whole <= 0:
        return ""
    foreign = (usage.user - usage.own) / usage.whole * (cpus or os.cpu_count() or 1)
    return f"other programs used {foreign:.1f} CPUs" if foreign > MAX_FOREIGN_CPUS else ""


def cpu_time_usage() -> CpuTimeUsage:
    """Return the CPU time of this machine and this control group since boot."""
    machine = cpu_time()
    return CpuTimeUsage(machine.whole, machine.stolen, machine.user, _own_user_s())


def _own_user_s() -> float | None:
    groups = dict(line.split(":", 2)[1:] for line in _PROC_CGROUP.read_text().splitlines())
    for controllers, path in groups.items():
        if "cpuacct" in controllers.split(",") and path != "/":
            return _read_value(
                Path("/sys/fs/cgroup/cpuacct") / path.lstrip("/") / "cpuacct.stat", "user", TICK_S
            )
    if groups.get("", "/") != "/":
        return _read_value(Path("/sys/fs/cgroup") / groups[""].lstrip("/") / "cpu.stat", "user_usec", 1e-6)
    return None


def _read_value(path: Path, name: str, unit: float) -> float | None:
    try:
        values: Mapping[str, str] = dict(line.split(" ", 1) for line in path.read_text().splitlines())
        return float(values[name]) * unit
    except (OSError, KeyError, ValueError):
        return None
