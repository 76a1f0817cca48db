"""Control groups for agents, for the second and the third set: quotas, freezing, shares, memory and CPUs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.redteam import groups
from bench.redteam.model import Inject, Value
from bench.redteam.target import Target


def join(
    target: Target,
    stack: ExitStack,
    controller: str,
    endpoints: Sequence[str],
    settings: Mapping[str, object],
) -> Path:
    """Move the agents of some endpoints into a new group, which ends with the injection.

    Args:
        target: The testbed.
        stack: Ends the group.
        controller: `cpu`, `cpuset` or `memory` of version 1, or `unified` of version 2.
        endpoints: Endpoints whose agents join.
        settings: File to value, written in this order before the agents join.
    """
    parent = groups.CGROUPS / "unified" if controller == "unified" else groups.own_group(controller)
    target.log += [f"host: echo {value} > {controller}/{name}" for name, value in settings.items()]
    target.log += [f"host: {endpoint}'s agent joins the group" for endpoint in endpoints]
    agents = [target.agents[endpoint] for endpoint in endpoints]
    return groups.make_group(stack, parent, "agents", settings.items(), agents)


TCP_MEMORY_FILE = "memory.kmem.tcp.limit_in_bytes"
"""Limit of the memory of TCP buffers."""


def quota(endpoints: Sequence[str], period_us: int) -> Inject:
    """Return an injection of a CPU quota in percent of one CPU, for some agents together."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        limit_us = round(float(value) / 100 * period_us)
        settings = {"cpu.rt_runtime_us": 0, "cpu.cfs_period_us": period_us, "cpu.cfs_quota_us": limit_us}
        join(target, stack, "cpu", endpoints, settings)

    return inject


def shares(endpoints: Sequence[str]) -> Inject:
    """Return an injection of a low CPU weight for some agents together."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        join(target, stack, "cpu", endpoints, {"cpu.shares": value})

    return inject


def last_cpu(endpoints: Sequence[str]) -> Inject:
    """Return an injection that leaves only the last CPU of the shape to some agents."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        memory_nodes = (groups.CGROUPS / "cpuset" / "cpuset.mems").read_text().strip()
        settings = {"cpuset.mems": memory_nodes, "cpuset.cpus": target.cpus[-1]}
        join(target, stack, "cpuset", endpoints, settings)

    return inject


def memory_limit(file: str, endpoints: Sequence[str]) -> Inject:
    """Return an injection of a limit in bytes of the memory controller (version 1) for some agents."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        join(target, stack, "memory", endpoints, {file: value})

    return inject


def freezes(endpoints: Sequence[str], period_s: float) -> Inject:
    """Return an injection that freezes agents for some seconds in every period, as snapshots of VMs do."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        group = join(target, stack, "unified", endpoints, {})
        stopped = threading.Event()
        target.log.append(f"host: cgroup.freeze for {value} s of {period_s} s")

        def loop() -> None:
            while not stopped.wait(period_s - float(value)):
                (group / "cgroup.freeze").write_text("1")
                stopped.wait(float(value))
                (group / "cgroup.freeze").write_text("0")

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        stack.callback(thread.join, 5)
        stack.callback(stopped.set)

    return inject
