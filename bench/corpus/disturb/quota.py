"""A CPU quota on a VM that the study does not ask for: on its agent, or on its guest's QEMU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.scene import Disturb, Scene
from vnetbench.lab import cpu_quota
from vnetbench.lab.guest.testbed import GuestTestbed

THROTTLED = "throttled_s"
"""What it tells: for how long the VM's threads were stopped."""
APART = "quota_apart_s"
"""And the VM's user time where its group stands beside the one of the bench, which then does not count it: of
version 2 groups with a quota are at the top."""


def quota(endpoint: str, cpus: float) -> Disturb:
    """The endpoint's process gets so many CPU seconds a second."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        pids = {endpoint: _process_of(scene, endpoint)}
        try:
            cpu_quota.set_quota(scene.name, pids, cpus)
            yield
        finally:
            try:
                _tell(scene, endpoint)
            finally:
                cpu_quota.set_quota(scene.name, pids, cpu_quota.NONE)

    return disturb


def _process_of(scene: Scene, endpoint: str) -> int:
    """Its QEMU, else its agent."""
    if isinstance(scene.bed, GuestTestbed):
        return next(each.process.pid for each in scene.bed.running if each.guest.name == endpoint)
    return int(scene.bed.agents[endpoint].call("agent.hello")["pid"])


def _tell(scene: Scene, endpoint: str) -> None:
    """What the endpoint's group has counted (Documentation/scheduler/sched-bwc.rst), if it has one."""
    throttled_s = 0.0
    if hierarchy := cpu_quota.find_hierarchy():
        for group in cpu_quota.find_groups(hierarchy, scene.name, f"{endpoint}.*"):
            found = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
            throttled_s += int(found.get("throttled_usec", 0)) / 1e6
            throttled_s += int(found.get("throttled_time", 0)) / 1e9
            if not group.is_relative_to(hierarchy.current_group):
                scene.told[APART] += int(found.get("user_usec", 0)) / 1e6
    scene.told[THROTTLED] += throttled_s
