"""The CPU time that the processes of a VM may use: a control group for each VM, with a quota.

The groups are in the hierarchy of the controller `cpu` as it is mounted, version 1 or 2
(Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst). They have the names of the
VMs' namespaces, and behind it which process the bench is: all benches of a machine share the hierarchy, also
those that have a /run of their own. Without a quota there is no group: a process in one competes with others
for CPUs as its group does, and not as itself.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.knobs import where_alike
from vnetbench.lab.netns.topology import namespace
from vnetbench.process import is_alive, this_process
from vnetbench.study.factors.registry import format_level
from vnetbench.study.model import Level

FACTOR, NONE = "cpu_quota", "none"
PERIOD_US = 100_000
"""The kernel's default. No quota is less than 1 ms of it: that is 1 % of a CPU."""
SAMPLER_US = 100_000
"""Of a second of each CPU, for an agent's sampler: a group of version 1 has no time for real-time threads at
first, where the kernel shares that out."""
WEIGHTS = {1: ("cpu.shares", 1024, 262_144), 2: ("cpu.weight", 100, 10_000)}
"""By version: the file, the weight of a process, and the most that a group can have. A group's is shared by
the CPUs that it runs on, so it has a process's for each."""
UNLIMITED = ("max", "-1")
"""A group's quota where it has none, of either version."""
PROCESSES = "cgroup.procs"
EMPTYING_TIMEOUT_S = 3.0
TAKE_NONE = 'take cpu_quota = "none"'


@dataclass(frozen=True)
class Hierarchy:
    """Where the groups of the controller `cpu` are."""

    top: Path
    own: Path
    """The group that the bench is in, and what it starts."""
    version: int

    @property
    def place(self) -> Path:
        """Where groups are made: in the bench's own, whose limits hold for them too. Of version 2 at the top:
        a group with processes can have none with controllers below it."""
        return self.top if self.version == 2 else self.own

    @property
    def quota_file(self) -> str:
        """The file of a group that has its quota."""
        return "cpu.max" if self.version == 2 else "cpu.cfs_quota_us"


def apply(testbed: str, pids: Mapping[str, int], level: Level) -> Level:
    """Let the processes of each VM use so many CPUs at most; the level that was read back.

    Raises TreatmentRefused where no group can be made, or it does not take the quota.
    """
    hierarchy = mounted()
    if level == NONE:
        if hierarchy:
            for group in groups_of(hierarchy, testbed, f"*.{this_process()}"):
                _release(hierarchy, group)
        return NONE
    asked = f"{FACTOR} = {format_level(FACTOR, level)}"
    if hierarchy is None:
        raise TreatmentRefused(
            f"{asked}: this system offers no control groups that limit CPU time",
            fix=f"have the controller cpu in /sys/fs/cgroup/cgroup.subtree_control, or {TAKE_NONE}",
        )
    cpus = len(os.sched_getaffinity(0))
    if float(level) > cpus:
        raise TreatmentRefused(f"{asked}: of {cpus} CPUs that would limit nothing", fix=TAKE_NONE)
    quota_us = round(float(level) * PERIOD_US)
    for vm, pid in pids.items():
        group = hierarchy.place / namespace(testbed, f"{vm}.{this_process()}")
        found = _limited(hierarchy, group, pid, quota_us, cpus)
        if found != str(quota_us):
            raise TreatmentRefused(
                f"{asked} did not take effect: {found} µs of {PERIOD_US} were read back",
                where=str(group),
                fix=TAKE_NONE,
            )
    return quota_us / PERIOD_US


def pids_of(endpoints: Iterable[Endpoint], agents: Mapping[str, AgentClient]) -> dict[str, int]:
    """The processes that a quota is for, by their VMs."""
    return {each.name: int(agents[each.name].call("agent.hello")["pid"]) for each in endpoints}


def changed_since(effective: Mapping[str, Any], pids: Mapping[str, int]) -> dict[str, Any]:
    """The quota as it now is, where it is no longer as a treatment's `effective` says."""
    found = {vm: level for vm, pid in pids.items() if (level := _level_of(pid)) is not None}
    is_changed = any(level != effective[FACTOR] for level in found.values())
    return {FACTOR: where_alike(found)} if is_changed else {}


def remove(testbed: str) -> list[Path]:
    """Remove the groups of a testbed whose processes have been ended, but those of another bench at work.

    Returns those that stay, since a process in them does not end.
    """
    groups = _removable(testbed)
    for group in groups:
        deadline = time.monotonic() + EMPTYING_TIMEOUT_S
        # A process that was killed is in its group until it is gone for good.
        while not _removed(group) and time.monotonic() < deadline:
            time.sleep(0.02)
    return [group for group in groups if group.exists()]


def left() -> set[str]:
    """The testbeds of which a bench that is gone has left groups."""
    return {group.name.split(".")[1] for group in _removable("*") if _bench_of(group) != this_process()}


def groups_of(hierarchy: Hierarchy, testbed: str, part: str) -> list[Path]:
    """Those of parts of a testbed, as a shell matches names; groups of others may come and go meanwhile."""
    # Path.rglob would end with an error then.
    form = namespace(testbed, part)
    return [
        Path(place, name)
        for place, names, _ in os.walk(hierarchy.top)
        for name in fnmatch.filter(names, form)
    ]


def _limited(hierarchy: Hierarchy, group: Path, pid: int, quota_us: int, cpus: int) -> str:
    """Have a group with that quota of each period, and the process in it; the quota that was read back."""
    weight, of_process, most = WEIGHTS[hierarchy.version]
    try:
        group.mkdir(exist_ok=True)
        (group / weight).write_text(str(min(of_process * cpus, most)))
        if hierarchy.version == 2:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            _let_sampler_run(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / PROCESSES).write_text(str(pid))
        return (group / hierarchy.quota_file).read_text().split()[0]
    except OSError as error:
        raise TreatmentRefused(
            f"{FACTOR}: no control group with a quota can be made: {error.strerror}",
            where=str(group),
            fix="run with sudo, on a kernel with CONFIG_CFS_BANDWIDTH, and ask for no more than the groups "
            f"around it have; or {TAKE_NONE}",
        ) from error


def _level_of(pid: int) -> Level | None:
    """By the group that a process is in, whoever made it; None where nobody can tell."""
    here, there = mounted(), mounted(pid)
    if here is None or there is None:
        return None
    if there.own == here.own:
        return NONE  # what the bench's own group has holds for all
    try:
        if there.version == 2:
            quota, period = (there.own / "cpu.max").read_text().split()
        else:
            quota, period = (
                (there.own / f"cpu.cfs_{which}_us").read_text().strip() for which in ("quota", "period")
            )
    except OSError:
        return NONE  # the top has no such file
    return NONE if quota in UNLIMITED else int(quota) / int(period)


def _release(hierarchy: Hierarchy, group: Path) -> None:
    """Let the processes of a group run as the bench does, and remove it."""
    try:
        for pid in (group / PROCESSES).read_text().split():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                (hierarchy.own / PROCESSES).write_text(pid)
        group.rmdir()
    except OSError as error:
        raise TreatmentRefused(
            f"{FACTOR}: the quota of a former treatment cannot be taken away: {error.strerror}",
            where=str(group),
            fix="vnetbench lab clean, once the campaign is over",
        ) from error


def _let_sampler_run(group: Path) -> None:
    """Give its real-time threads some time, where there is some left; a sampler says if it has no rank."""
    share = group / "cpu.rt_runtime_us"
    with suppress(OSError):
        if share.exists():
            share.write_text(str(SAMPLER_US))


def mounted(process: int | str = "self") -> Hierarchy | None:
    """The hierarchy in which the controller `cpu` is, if any has it; `own` is then the group of a process."""
    with suppress(OSError):
        mounts, groups = (Path("/proc", each).read_text() for each in ("self/mountinfo", f"{process}/cgroup"))
        return next(hierarchies(mounts, groups), None)
    return None


def hierarchies(mounts: str, groups: str) -> Iterator[Hierarchy]:
    """Those in which a group can have the controller, by mountinfo (proc(5)) and cgroup (cgroups(7))."""
    own = {names: group for _, names, group in (line.split(":", 2) for line in groups.splitlines())}
    for line in mounts.splitlines():
        place, _, kind = line.partition(" - ")
        root, mount = place.split(" ")[3:5]
        system, _, options = kind.split(" ")
        top = Path(mount)
        if system == "cgroup" and "cpu" in options.split(","):
            names = next((names for names in own if "cpu" in names.split(",")), None)
            yield Hierarchy(top, top / relpath(own[names], root) if names else top, 1)
        elif system == "cgroup2":
            with suppress(OSError):
                if "cpu" in (top / "cgroup.subtree_control").read_text().split():
                    yield Hierarchy(top, top / relpath(own.get("", root), root), 2)


def _removable(testbed: str) -> list[Path]:
    """This user's groups of a testbed that are this bench's, or of one that is gone."""
    hierarchy = mounted()
    groups = groups_of(hierarchy, testbed, "*.[0-9]*") if hierarchy else []
    return [group for group in groups if _is_this_users(group) and _bench_is_over(group)]


def _bench_of(group: Path) -> str:
    """The identity of its process."""
    return group.name.rpartition(".")[2]


def _bench_is_over(group: Path) -> bool:
    bench = _bench_of(group)
    return bench == this_process() or not is_alive(bench)


def _is_this_users(group: Path) -> bool:
    with suppress(OSError):  # it is gone meanwhile
        return group.stat().st_uid == os.geteuid()
    return False


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
