"""What the machine did beside a run: a run that others disturbed is not one of the cause that was put there.

It is told from what explanations do not look at, the CPU time of this control group against the machine's, so
that no run is left out for what an explanation would say of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from bench.cpu_time import TICK_S, cpu_time

MOST_STOLEN = 0.1
"""Of all CPU time: what the machine's own hypervisor gave to others."""
MOST_FOREIGN = 0.8
"""CPUs that programs outside of the control group used."""
TRIES = 3

_GROUPS = Path("/proc/self/cgroup")
Made = TypeVar("Made")


class Disturbed(Exception):
    """Something else ran beside a run each time it was made; says what."""


@dataclass(frozen=True)
class Spent:
    """CPU seconds so far."""

    whole: float
    """Of all CPUs, idle ones too."""
    stolen: float
    user: float
    own: float | None
    """User time of this control group; kernel threads have none, and work for whoever sends."""

    def __sub__(self, before: Spent) -> Spent:
        own = None if self.own is None or before.own is None else self.own - before.own
        return Spent(self.whole - before.whole, self.stolen - before.stolen, self.user - before.user, own)


def undisturbed(make: Callable[[], Made], apart: Callable[[Made], float] = lambda _: 0.0) -> Made:
    """Make something, again where something else ran beside it; raises Disturbed when that does not end.

    `apart` says how much user time of what was made this control group does not count.
    """
    for _ in range(TRIES):
        before = spent()
        made = make()
        beside = spent() - before
        own = None if beside.own is None else beside.own + apart(made)
        if not (why := disturbance(replace(beside, own=own))):
            return made
    raise Disturbed(why)


def disturbance(beside: Spent, cpus: int | None = None) -> str:
    """What else took of the machine while that was spent, where it is too much; nothing else."""
    if beside.stolen > MOST_STOLEN * beside.whole:
        return f"the machine's own host took {beside.stolen / beside.whole:.0%} of its CPU time (steal)"
    if beside.own is None or beside.whole <= 0:
        return ""
    foreign = (beside.user - beside.own) / beside.whole * (cpus or os.cpu_count() or 1)
    return f"other programs used {foreign:.1f} CPUs" if foreign > MOST_FOREIGN else ""


def spent() -> Spent:
    """What this machine and this control group have spent."""
    machine = cpu_time()
    return Spent(machine.whole, machine.stolen, machine.user, _own())


def _own() -> float | None:
    groups = dict(line.split(":", 2)[1:] for line in _GROUPS.read_text().splitlines())
    for controllers, path in groups.items():
        if "cpuacct" in controllers.split(",") and path != "/":
            return _first(Path("/sys/fs/cgroup/cpuacct") / path.lstrip("/") / "cpuacct.stat", "user", TICK_S)
    if groups.get("", "/") != "/":
        return _first(Path("/sys/fs/cgroup") / groups[""].lstrip("/") / "cpu.stat", "user_usec", 1e-6)
    return None


def _first(path: Path, name: str, unit: float) -> float | None:
    try:
        found: Mapping[str, str] = dict(line.split(" ", 1) for line in path.read_text().splitlines())
        return float(found[name]) * unit
    except (OSError, KeyError, ValueError):
        return None
