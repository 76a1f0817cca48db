"""Limits the CPU time of each VM with a control group that has a quota.

The groups are in the hierarchy of the controller `cpu` as it is mounted, version 1 or 2
(Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst). A group's name
is the name of the VM's namespace and the identity of the bench's process, because all benches of a machine
share the hierarchy, also those with a private /run. Without a quota there is no group: a process in a group
competes for CPUs with the group's weight instead of its own.
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
from typing import Any, NamedTuple

from vnetbench.agents.client import AgentClient
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.knobs import merge_if_equal
from vnetbench.lab.netns.topology import namespace_name
from vnetbench.process import is_process_alive, read_own_process_identity, run_folder
from vnetbench.study.factors.testbed_factors import CPU_QUOTA
from vnetbench.study.model import Level

NO_QUOTA = "none"
DEFAULT_QUOTA_PERIOD_US = 100_000
"""The kernel's default period. The smallest quota is 1 ms of it, which is 1 % of a CPU."""
REALTIME_BUDGET_US_PER_SECOND = 100_000
"""Real-time budget per second and CPU for an agent's sampler. In version 1 a new group has no budget if the
kernel divides real-time bandwidth between groups (CONFIG_RT_GROUP_SCHED)."""
UNLIMITED_QUOTA_TEXTS = ("max", "-1")
"""How each version writes "no quota"."""
PROCS_FILE_NAME = "cgroup.procs"
REMOVAL_TIMEOUT_S = 3.0
NO_QUOTA_FIX = f'write {CPU_QUOTA.name} = "{NO_QUOTA}"'


class CpuWeightFile(NamedTuple):
    """The file of a group that holds its CPU weight.

    A group divides its weight between the CPUs that it runs on, so it gets the weight of one process for each
    CPU.
    """

    file_name: str
    weight_of_one_process: int
    max_weight_of_group: int


CPU_WEIGHT_FILE_BY_VERSION = {
    1: CpuWeightFile("cpu.shares", 1024, 262_144),
    2: CpuWeightFile("cpu.weight", 100, 10_000),
}


@dataclass(frozen=True)
class CgroupHierarchy:
    """The mounted hierarchy of the controller `cpu`."""

    mount_point: Path
    current_group: Path
    """The group of the process for which the hierarchy was read: the bench, unless stated otherwise."""
    version: int

    @property
    def parent_group(self) -> Path:
        """The group in which new groups are created.

        In version 1 this is the bench's own group, whose limits then hold for the VMs too. In version 2 it is
        the top, because a group with processes can have no controllers in its children.
        """
        return self.mount_point if self.version == 2 else self.current_group

    @property
    def quota_file_name(self) -> str:
        """Name of the file in a group that holds its quota."""
        return "cpu.max" if self.version == 2 else "cpu.cfs_quota_us"


def assign_vm_quotas(level: Level, endpoints: Iterable[Endpoint]) -> dict[str, Level]:
    """Return the quota of each VM for a level of `cpu_quota`: one for all VMs, or `85 %/none` for a pair."""
    first, _, second = str(level).partition("/")
    if not second:
        return {each.name: level for each in endpoints}
    by_side = {"a": CPU_QUOTA.value_type.parse(first), "b": CPU_QUOTA.value_type.parse(second)}
    return {each.name: by_side[each.side] for each in endpoints}


def set_quota_of_each_vm(
    testbed_name: str, pids: Mapping[str, int], quotas: Mapping[str, Level], thread_count: int
) -> Any:
    """Limit the CPU time of each VM to its own quota; see `set_cpu_quotas`.

    If the quotas differ, only some VMs are in a group. Each group then has the weight of `thread_count`
    processes, so that its threads compete with those of the other VMs as they do without a group.

    Returns:
        The quota that was read back, or that of each VM if they differ.
    """
    if len(set(quotas.values())) == 1:
        return set_cpu_quotas(testbed_name, pids, next(iter(quotas.values())))
    return merge_if_equal(
        {
            vm: set_cpu_quotas(testbed_name, {vm: pids[vm]}, quota, vm, thread_count)
            for vm, quota in quotas.items()
        }
    )


def set_cpu_quotas(
    testbed_name: str,
    pids: Mapping[str, int],
    level: Level,
    vm_pattern: str = "*",
    process_count: int | None = None,
) -> Level:
    """Limit the CPU time of each VM and return the level that was read back.

    Args:
        testbed_name: The testbed's name.
        pids: The agent's process id of each VM.
        level: A number of CPUs for each VM, or `none`.
        vm_pattern: Shell pattern of the VMs whose groups `none` removes.
        process_count: A group has the weight of so many processes; None: of one for each CPU.

    Raises:
        TreatmentRefused: if the machine cannot create a group, or the group does not take the quota.
    """
    hierarchy = find_cpu_hierarchy()
    if level == NO_QUOTA:
        if hierarchy:
            own_groups = f"{vm_pattern}.{read_own_process_identity()}"
            for group in find_groups(hierarchy, testbed_name, own_groups):
                _release_group(hierarchy, group)
        return NO_QUOTA
    request = CPU_QUOTA.format_as_assignment(level)
    if hierarchy is None:
        raise TreatmentRefused(
            f"{request}: this system has no control groups that limit CPU time",
            fix=f"enable the controller cpu in /sys/fs/cgroup/cgroup.subtree_control, or {NO_QUOTA_FIX}",
        )
    cpu_count = len(os.sched_getaffinity(0))
    if float(level) > cpu_count:
        raise TreatmentRefused(
            f"{request} limits nothing: this machine has only {cpu_count} CPUs",
            fix=NO_QUOTA_FIX,
        )
    quota_us = round(float(level) * DEFAULT_QUOTA_PERIOD_US)
    for vm, pid in pids.items():
        group = hierarchy.parent_group / namespace_name(testbed_name, f"{vm}.{read_own_process_identity()}")
        found = _limit_cpu_time_and_read_quota_back(
            hierarchy, group, pid, quota_us, process_count or cpu_count
        )
        if found != str(quota_us):
            raise TreatmentRefused(
                f"{request} did not take effect: {found} µs of {DEFAULT_QUOTA_PERIOD_US} µs were read back",
                where=str(group),
                fix=NO_QUOTA_FIX,
            )
    return quota_us / DEFAULT_QUOTA_PERIOD_US


def agent_pids(endpoints: Iterable[Endpoint], agents: Mapping[str, AgentClient]) -> dict[str, int]:
    """Return the process id of each VM's agent, by the VM's name."""
    return {each.name: int(agents[each.name].call("agent.hello")["pid"]) for each in endpoints}


def cpu_limits_if_changed(
    effective: Mapping[str, Any], endpoints: Iterable[Endpoint], agents: Mapping[str, AgentClient]
) -> dict[str, Any]:
    """Return the limits of the VMs' CPU time that no longer have a treatment's `effective` values."""
    if not CPU_QUOTA.is_present_in(effective):
        return {}
    return quota_if_changed(effective, agent_pids(endpoints, agents))


def quota_if_changed(effective: Mapping[str, Any], pids: Mapping[str, int]) -> dict[str, Any]:
    """Return the current quota if it differs from a treatment's `effective` values, else nothing."""
    found = {vm: level for vm, pid in pids.items() if (level := _read_quota_cpus(pid)) is not None}
    stored = effective[CPU_QUOTA.name]
    is_changed = any(
        level != (stored.get(vm) if isinstance(stored, Mapping) else stored) for vm, level in found.items()
    )
    return {CPU_QUOTA.name: merge_if_equal(found)} if is_changed else {}


def remove_groups_and_list_remaining(testbed_name: str) -> list[Path]:
    """Remove the groups of a testbed whose processes have ended; leave those of another running bench.

    Returns:
        The groups that could not be removed because a process in them does not end.
    """
    groups = _own_or_abandoned_groups(testbed_name)
    for group in groups:
        deadline = time.monotonic() + REMOVAL_TIMEOUT_S
        # A killed process stays in its group until the kernel has reaped it.
        while not _try_remove(group) and time.monotonic() < deadline:
            time.sleep(0.02)
    return [group for group in groups if group.exists()]


def testbeds_with_leftover_groups() -> set[str]:
    """Return the names of testbeds whose bench has ended without removing its groups."""
    own = read_own_process_identity()
    return {
        group.name.split(".")[1]
        for group in _own_or_abandoned_groups("*")
        if _group_owner_identity(group) != own
    }


def find_groups(hierarchy: CgroupHierarchy, testbed_name: str, part_pattern: str) -> list[Path]:
    """Return the groups of a testbed whose part of the name matches a shell pattern."""
    # Not Path.rglob: it raises if another bench removes a group during the walk.
    pattern = namespace_name(testbed_name, part_pattern)
    return [
        Path(folder, name)
        for folder, names, _ in os.walk(hierarchy.mount_point)
        for name in fnmatch.filter(names, pattern)
    ]


def _limit_cpu_time_and_read_quota_back(
    hierarchy: CgroupHierarchy, group: Path, pid: int, quota_us: int, weight_as_process_count: int
) -> str:
    """Create the group with a quota per period, move the process into it, and return the quota read back."""
    weight_file = CPU_WEIGHT_FILE_BY_VERSION[hierarchy.version]
    weight = min(weight_file.weight_of_one_process * weight_as_process_count, weight_file.max_weight_of_group)
    try:
        group.mkdir(exist_ok=True)
        (group / weight_file.file_name).write_text(str(weight))
        if hierarchy.version == 2:
            (group / "cpu.max").write_text(f"{quota_us} {DEFAULT_QUOTA_PERIOD_US}")
        else:
            _grant_realtime_budget(group)
            (group / "cpu.cfs_period_us").write_text(str(DEFAULT_QUOTA_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / PROCS_FILE_NAME).write_text(str(pid))
        return (group / hierarchy.quota_file_name).read_text().split()[0]
    except OSError as error:
        raise TreatmentRefused(
            f"{CPU_QUOTA.name}: cannot create a control group with a quota: {error.strerror}",
            where=str(group),
            fix="run with sudo on a kernel with CONFIG_CFS_BANDWIDTH, and request no more than the parent "
            f"groups have; or {NO_QUOTA_FIX}",
        ) from error


def _read_quota_cpus(pid: int) -> Level | None:
    """Return the CPUs that a process's quota allows, whichever program set it; None if unknown."""
    here, there = find_cpu_hierarchy(), find_cpu_hierarchy(pid)
    if here is None or there is None:
        return None
    if there.current_group == here.current_group:
        return NO_QUOTA  # A limit of the bench's own group applies to everything.
    try:
        if there.version == 2:
            quota, period = (there.current_group / "cpu.max").read_text().split()
        else:
            quota, period = (
                (there.current_group / f"cpu.cfs_{which}_us").read_text().strip()
                for which in ("quota", "period")
            )
    except OSError:
        return NO_QUOTA  # The top group has no such file.
    return NO_QUOTA if quota in UNLIMITED_QUOTA_TEXTS else int(quota) / int(period)


def _release_group(hierarchy: CgroupHierarchy, group: Path) -> None:
    """Move the processes of a group into the bench's group and remove the group."""
    try:
        for pid in (group / PROCS_FILE_NAME).read_text().split():
            with suppress(ProcessLookupError):  # The process has ended.
                (hierarchy.current_group / PROCS_FILE_NAME).write_text(pid)
        group.rmdir()
    except OSError as error:
        raise TreatmentRefused(
            f"{CPU_QUOTA.name}: cannot remove the quota of an earlier treatment: {error.strerror}",
            where=str(group),
            fix="run vnetbench lab clean when the campaign has ended",
        ) from error


def _grant_realtime_budget(group: Path) -> None:
    """Give the group's real-time threads a budget if its parent has one left.

    Without it the sampler reports that it has no real-time priority.
    """
    budget_file = group / "cpu.rt_runtime_us"
    with suppress(OSError):
        if budget_file.exists():
            budget_file.write_text(str(REALTIME_BUDGET_US_PER_SECOND))


def find_cpu_hierarchy(process: int | str = "self") -> CgroupHierarchy | None:
    """Return the hierarchy of the controller `cpu` and a process's group in it; None if there is none."""
    with suppress(OSError):
        mounts, groups = (Path("/proc", each).read_text() for each in ("self/mountinfo", f"{process}/cgroup"))
        return next(parse_hierarchies(mounts, groups), None)
    return None


def parse_hierarchies(mounts: str, groups: str) -> Iterator[CgroupHierarchy]:
    """Yield the usable hierarchies from mountinfo (proc(5)) and a process's cgroup file (cgroups(7))."""
    own = {names: group for _, names, group in (line.split(":", 2) for line in groups.splitlines())}
    for line in mounts.splitlines():
        mount_fields, _, system_fields = line.partition(" - ")
        root, mount_point = mount_fields.split(" ")[3:5]
        system, _, options = system_fields.split(" ")
        top = Path(mount_point)
        if system == "cgroup" and "cpu" in options.split(","):
            names = next((names for names in own if "cpu" in names.split(",")), None)
            yield CgroupHierarchy(top, top / relpath(own[names], root) if names else top, 1)
        elif system == "cgroup2":
            with suppress(OSError):
                if "cpu" in (top / "cgroup.subtree_control").read_text().split():
                    yield CgroupHierarchy(top, top / relpath(own.get("", root), root), 2)


def owner_pid(group: Path) -> int:
    """Return the process id of the bench that created a group, from the group's name."""
    return int(_group_owner_identity(group).partition(":")[0])


def _own_or_abandoned_groups(testbed_name: str) -> list[Path]:
    """Return this user's groups of a testbed that this bench, or one that has ended, created."""
    hierarchy = find_cpu_hierarchy()
    groups = find_groups(hierarchy, testbed_name, "*.[0-9]*") if hierarchy else []
    return [
        group
        for group in groups
        if _is_owned_by_this_user(group) and _is_own_or_abandoned(group) and not _is_in_another_run(group)
    ]


def _group_owner_identity(group: Path) -> str:
    """Return the identity of the process that created the group."""
    return group.name.rpartition(".")[2]


def _is_own_or_abandoned(group: Path) -> bool:
    bench = _group_owner_identity(group)
    return bench == read_own_process_identity() or not is_process_alive(bench)


def _is_in_another_run(group: Path) -> bool:
    """Return whether a process in the group sees another `/run`: only what is there can end it."""
    with suppress(OSError):
        folders = {run_folder(int(pid)) for pid in (group / PROCS_FILE_NAME).read_text().split()}
        return bool(folders - {None, run_folder(os.getpid())})
    return False


def _is_owned_by_this_user(group: Path) -> bool:
    with suppress(OSError):  # The group has been removed.
        return group.stat().st_uid == os.geteuid()
    return False


def _try_remove(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
