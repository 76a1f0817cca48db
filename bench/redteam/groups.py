"""Control groups of the red team: a cpuset for everything, and quotas for single processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "vnetbench-redteam-"
REALTIME_US = ("900000", "750000", "500000", "250000")
"""Real-time budgets to try: other groups of the machine may have taken a part of it."""
LARGEST_SHARES = "262144"
PERIOD_US = 100_000
UNUSED_CONTROLLERS = ("cpuset", "cpu", "cpuacct")
OTHER_HIERARCHIES = ("memory", "unified", "freezer")
"""Hierarchies in which single causes make groups."""


def _folder(controller: str) -> Path | None:
    """Return the mounted hierarchy of a controller, version 1 or 2."""
    if (CGROUPS / controller / "cgroup.procs").exists():
        return CGROUPS / controller
    if (CGROUPS / "cgroup.controllers").exists():
        return CGROUPS
    return None


@contextmanager
def confined(cpus: Sequence[int]) -> Iterator[Path | None]:
    """Move this process and its future children into a group of CPUs that runs before other work.

    Yields:
        The group whose CPU time is accounted, or None if the machine has no such groups. The CPUs are then
        only set by affinity.
    """
    before = os.sched_getaffinity(0)
    made: list[tuple[Path, Path]] = []
    accounting = None
    for controller in UNUSED_CONTROLLERS:
        parent = _folder(controller)
        group = parent / f"{PREFIX}{os.getpid()}" if parent else None
        if parent is None or group is None or group.exists():
            continue
        try:
            group.mkdir()
            made.append((parent, group))
            _configure(group, cpus)
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            continue
        if (group / "cpuacct.usage").exists() or (group / "cpu.stat").exists():
            accounting = group if accounting is None or controller == "cpuacct" else accounting
    os.sched_setaffinity(0, cpus)
    try:
        yield accounting
    finally:
        for parent, group in reversed(made):
            (parent / "cgroup.procs").write_text(str(os.getpid()))
            remove_group(group)
        os.sched_setaffinity(0, before)


def _configure(group: Path, cpus: Sequence[int]) -> None:
    settings = {
        "cpuset.cpus": ",".join(map(str, cpus)),
        "cpu.shares": LARGEST_SHARES,
        "cpu.weight": "10000",
    }
    for name, value in settings.items():
        if (group / name).exists():
            with suppress(OSError):
                (group / name).write_text(value)
    for budget in REALTIME_US if (group / "cpu.rt_runtime_us").exists() else ():
        try:
            (group / "cpu.rt_runtime_us").write_text(budget)
            break
        except OSError:
            continue
    mems = group / "cpuset.mems"
    if mems.exists():
        mems.write_text((group.parent / "cpuset.mems").read_text())


def free_real_time_us() -> int | None:
    """Return the real-time budget that a new group can get, in µs of each second.

    None means that the machine has no such budgets, and real-time programs need none. The groups of a
    hierarchy share the budget of its top, so another red team can have taken it.
    """
    top = CGROUPS / "cpu" / "cpu.rt_runtime_us"
    if not top.exists():
        return None
    taken = sum(int(each.read_text()) for each in top.parent.glob(f"*/{top.name}"))
    return int(top.read_text()) - taken


def remove_group(group: Path, timeout_s: float = 3.0) -> None:
    """Remove a group with its children; its processes go back to the parent group."""
    for child in group.iterdir():
        if child.is_dir():
            remove_group(child, timeout_s)
    deadline = time.monotonic() + timeout_s
    while group.exists():
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (group.parent / "cgroup.procs").write_text(pid)
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextmanager
def quota(name: str, pids: Sequence[int], percent_of_a_cpu: float) -> Iterator[Path]:
    """Limit the CPU time of processes together, by a group that only the red team knows."""
    parent = own_group("cpu")
    group = parent / f"{PREFIX}{os.getpid()}-{name}"
    group.mkdir()
    quota_us = max(round(percent_of_a_cpu / 100 * PERIOD_US), 1000)
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            with suppress(OSError):
                (group / "cpu.rt_runtime_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield group
    finally:
        remove_group(group)


@contextmanager
def cpuset(name: str, pids: Sequence[int], cpus: Sequence[int]) -> Iterator[Path]:
    """Keep processes on some CPUs, whatever affinity their threads ask for."""
    group = own_group("cpuset") / f"{PREFIX}{os.getpid()}-{name}"
    group.mkdir()
    try:
        _configure(group, cpus)
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield group
    finally:
        remove_group(group)


def make_group(
    stack: ExitStack, parent: Path, word: str, settings: Iterable[tuple[str, object]], pids: Iterable[int]
) -> Path:
    """Move processes into a new group with settings (file and value), which ends with the stack."""
    group = parent / f"{PREFIX}{os.getpid()}-{word}"
    group.mkdir()
    stack.callback(remove_group, group)
    for name, value in settings:
        (group / name).write_text(str(value))
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))
    return group


def own_group(controller: str) -> Path:
    """Return this process's group of version 1, or the top of version 2."""
    hierarchy = _folder(controller)
    if hierarchy is None:
        raise OSError(f"this machine has no control groups with the controller {controller}")
    if hierarchy == CGROUPS:
        return hierarchy
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return hierarchy / path.lstrip("/")
    return hierarchy


def used_cpu_s(group: Path) -> float:
    """Return the CPU time that the processes of a group have used."""
    if (group / "cpuacct.usage").exists():
        return int((group / "cpuacct.usage").read_text()) / 1e9
    for line in (group / "cpu.stat").read_text().splitlines():
        if line.startswith("usage_usec"):
            return int(line.split()[1]) / 1e6
    return 0.0


def remove_leftovers() -> list[str]:
    """Remove groups whose red team has ended. Returns their paths."""
    removed = []
    names = [name for name in (*UNUSED_CONTROLLERS, *OTHER_HIERARCHIES) if _folder(name)]
    for hierarchy in {folder for name in names for folder in (_folder(name), own_group(name))}:
        assert hierarchy
        for group in hierarchy.glob(f"{PREFIX}*"):
            pid = group.name.removeprefix(PREFIX).split("-")[0]
            if not Path(f"/proc/{pid}").exists():
                remove_group(group)
                removed.append(str(group))
    return removed
