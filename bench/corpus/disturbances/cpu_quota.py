"""A CPU quota on a VM's agent, or on its QEMU process, which the study does not contain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.lab import control_groups
from vnetbench.lab.guest.testbed import GuestTestbed

THROTTLED_S = "throttled_s"
"""Name of a measurement: the time in seconds for which the quota stopped the VM's threads."""
EXTERNAL_USER_S = "quota_apart_s"
"""Name of a measurement: the VM's user time in seconds, if its group is outside the group of the bench. With
cgroup version 2, groups with a quota are at the top level, so the group of the bench does not count them."""


def vm_cpu_quota(endpoint: str, cpus: float) -> Disturbance:
    """Limit the endpoint's process to `cpus` CPU seconds per second."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        pids = {endpoint: _find_pid(target, endpoint)}
        try:
            control_groups.set_cpu_quotas(target.testbed_name, pids, cpus)
            yield
        finally:
            try:
                _measure_quota(target, endpoint)
            finally:
                control_groups.set_cpu_quotas(target.testbed_name, pids, control_groups.NO_QUOTA)

    return disturb


def _find_pid(target: DisturbanceTarget, endpoint: str) -> int:
    """Return the process ID of the endpoint's QEMU, or of its agent without QEMU."""
    if isinstance(target.testbed, GuestTestbed):
        return next(each.process.pid for each in target.testbed.running if each.guest.name == endpoint)
    return int(target.testbed.agents[endpoint].call("agent.hello")["pid"])


def _measure_quota(target: DisturbanceTarget, endpoint: str) -> None:
    """Add the counters of the endpoint's control group (Documentation/scheduler/sched-bwc.rst), if any."""
    throttled_s = 0.0
    if hierarchy := control_groups.find_cpu_hierarchy():
        for group in control_groups.find_groups(hierarchy, target.testbed_name, f"{endpoint}.*"):
            counters = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
            throttled_s += int(counters.get("throttled_usec", 0)) / 1e6
            throttled_s += int(counters.get("throttled_time", 0)) / 1e9
            if not group.is_relative_to(hierarchy.current_group):
                target.measurements[EXTERNAL_USER_S] += int(counters.get("user_usec", 0)) / 1e6
    target.measurements[THROTTLED_S] += throttled_s
