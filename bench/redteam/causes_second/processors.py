"""Causes that take CPU time away from the VMs, or stop them."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

from bench.redteam import confinement
from bench.redteam.causes_second import neighbours
from bench.redteam.causes_second.common import ALL_LOADS, CPU_TAKEN, background, copies, second
from bench.redteam.injections import after, in_turn, limit_files, spin_on_each_cpu
from bench.redteam.model import Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import Target

BOTH = ("a1", "b1")


def _kill_receiver(target: Target, value: Value, stack: ExitStack) -> None:
    target.log.append(f"host: kill -{value} the receiver's agent")
    os.kill(target.agents["b1"], signal.Signals[f"SIG{value}"])


def _limit_files(target: Target, value: Value, stack: ExitStack) -> None:
    for endpoint in BOTH:
        limit_files(target, endpoint, int(value))


CAUSES = (
    second(
        "archive-compression", "cpu", "A backup compresses data on the same CPUs",
        "gzip -9 of random data, several at once", (1, 2, 6), CPU_TAKEN, ALL_LOADS,
        copies(None, background("host", "exec gzip -9 -c /dev/urandom > /dev/null")),
    ),
    second(
        "short-commands", "cpu", "Scripts start commands that end at once",
        "shell loops of /bin/true", (1, 2, 5), CPU_TAKEN, ALL_LOADS,
        copies(None, background("host", "while :; do /bin/true; done")),
    ),
    second(
        "low-weight", "cpu", "The VMs have a lower CPU weight than busy programs",
        "cpu.shares of both agents, with a busy program on each CPU", (512, 128, 24), CPU_TAKEN, ALL_LOADS,
        in_turn(confinement.shares(BOTH), spin_on_each_cpu()),
    ),
    second(
        "urgent-slices", "cpu", "A program with high priority takes slices of 50 ms periods",
        "nice -n -15 on each CPU, busy for this share", (0.2, 0.45, 0.8), CPU_TAKEN, ALL_LOADS,
        spin_on_each_cpu("@v", 0.05, "nice -n -15"),
    ),
    second(
        "recurring-job", "cpu", "A job runs for a part of each second on every CPU",
        "busy programs with a period of 1 s", (0.25, 0.5, 0.8), CPU_TAKEN, ALL_LOADS,
        spin_on_each_cpu("@v", 1.0, "nice -n -5"),
    ),
    second(
        "bulk-neighbours", "cpu", "Two other VMs on the bridge exchange bulk data",
        "iperf3 between two more namespaces, with this number of flows", (1, 2, 8),
        ("other_programs", "shared_by_vms", "machine_busy", "other_load"), ALL_LOADS, neighbours.bulk_pair(),
    ),
    second(
        "quota-long-period", "cpu", "The receiver has a CPU quota in periods of 500 ms",
        "cpu.cfs_quota_us in percent of a CPU", (60, 30, 10), ("cpu_quota",), (tcp(1), rr(8), mixed(2)),
        confinement.quota(("b1",), 500_000),
    ),
    second(
        "quota-for-both", "cpu", "Both VMs share a CPU quota in periods of 10 ms",
        "cpu.cfs_quota_us in percent of a CPU", (110, 55, 15), ("cpu_quota",), (tcp(4), crr(4), rr(8)),
        confinement.quota(BOTH, 10_000),
    ),
    second(
        "frozen-receiver", "cpu", "Snapshots freeze the receiving VM for a part of each 400 ms",
        "cgroup.freeze for this many seconds", (0.02, 0.1, 0.3), ("process_stopped",),
        (tcp(4), rr(1), udp(2)),
        confinement.freezes(("b1",), 0.4),
    ),
    second(
        "crowded-cpu", "cpu", "Both VMs are confined to one CPU, and a program uses each CPU",
        "cpuset.cpus, and busy programs for this share", (0.1, 0.4, 0.8),
        ("cpu_set_changed", "cpus_full", *CPU_TAKEN), ALL_LOADS,
        in_turn(confinement.last_cpu(BOTH), spin_on_each_cpu("@v", 0.02)), min_cpus=2,
    ),
    second(
        "receiver-killed", "failure", "The system kills the receiving program 0.3 s after the load starts",
        "kill", ("TERM", "HUP", "KILL"), ("agent_gone", "server_failed", "connection_broken"),
        (tcp(1), rr(8), udp(2)), after(0.3, _kill_receiver), phase="load",
    ),
    second(
        "file-limit", "failure", "The VMs may open only this many further files",
        "prlimit --nofile of both agents", (6, 3, 0), ("system_refused", "server_failed", "no_connection"),
        (rr(8), tcp(8), crr(8)), _limit_files,
    ),
)  # fmt: skip
