"""Causes that take CPU time from the load, limit it, or move it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from bench.redteam.causes.common import CPU_TAKEN, programs
from bench.redteam.groups import cpuset, quota
from bench.redteam.injections import in_turn
from bench.redteam.model import Cause, Inject, Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import Target

ANY_LOAD = (tcp(1), rr(1), tcp(4), crr(1), mixed(1), rr(4))
TCP_AND_RR = (tcp(1), rr(2), tcp(2), crr(2))
SHARED_PERIOD_S = 0.4
SENDER_PAUSED = ("process_stopped", "load_paused")
RECEIVER_PAUSED = ("process_stopped",)
"""load_paused is about the program that sends."""


def _prefixed(prefix: str, words: str, each_cpu: bool = False) -> Inject:
    """Return an injection of helper programs that a tool such as chrt or taskset starts."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        count = 1 if each_cpu else int(value)
        for cpu in target.cpus if each_cpu else target.cpus[:1]:
            for _ in range(count):
                line = prefix.format(cpu=cpu, v=value)
                target.program_with(stack, line, words.format(v=value))

    return inject


def _limit(endpoints: Sequence[str]) -> Inject:
    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for endpoint in endpoints:
            group = stack.enter_context(quota(endpoint, [target.agents[endpoint]], float(value)))
            target.log.append(f"host: cpu quota {value} % of a CPU for {endpoint} in {group.name}")

    return inject


def _pause(endpoint: str) -> Inject:
    """Return an injection that stops an agent for some milliseconds of every 250."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        pid, pause_s = target.agents[endpoint], float(value) / 1000
        stopped = cycle((True, False))
        target.log.append(f"host: kill -STOP/-CONT {endpoint}'s agent, {value} of 250 ms")

        def toggle() -> float:
            stop = next(stopped)
            os.kill(pid, signal.SIGSTOP if stop else signal.SIGCONT)
            return pause_s if stop else 0.25 - pause_s

        stack.callback(_continue, pid)
        target.repeat(stack, toggle)

    return inject


def _continue(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def _threads(pid: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


def _pin(endpoints: Sequence[str]) -> Inject:
    """Return an injection that keeps agents on one CPU, whatever the intensity.

    A cpuset, because agents set their own affinity.
    """

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        pids = [target.agents[endpoint] for endpoint in endpoints]
        group = stack.enter_context(cpuset("pin", pids, target.cpus[:1]))
        target.log.append(f"host: cpuset {target.cpus[0]} for {', '.join(endpoints)} in {group.name}")

    return inject


def _share_one_cpu(target: Target, value: Value, stack: ExitStack) -> None:
    """Keep both agents on one CPU for `value` milliseconds of each period, and on all CPUs for the rest."""
    pids = [target.agents[endpoint] for endpoint in target.endpoints]
    group = stack.enter_context(cpuset("share", pids, target.cpus))
    shared_s = float(value) / 1000
    steps = ((target.cpus[:1], shared_s), (target.cpus, SHARED_PERIOD_S - shared_s))
    turns = cycle([step for step in steps if step[1] > 0])
    target.log.append(f"host: cpuset {target.cpus[0]} for {value} of 400 ms, both agents, in {group.name}")

    def switch() -> float:
        cpus, wait_s = next(turns)
        (group / "cpuset.cpus").write_text(",".join(map(str, cpus)))
        return wait_s

    target.repeat(stack, switch)


def _migrate(target: Target, value: Value, stack: ExitStack) -> None:
    """Move every thread of the agents to the next CPU, every `value` milliseconds."""
    turns = cycle(target.cpus)
    target.log.append(f"host: taskset of the agents' threads to the next CPU every {value} ms")

    def move() -> float:
        cpu = next(turns)
        for number, pid in enumerate(target.agents[name] for name in target.endpoints):
            for thread in _threads(pid):
                chosen = target.cpus[(target.cpus.index(cpu) + number) % len(target.cpus)]
                os.sched_setaffinity(thread, [chosen])
        return float(value) / 1000

    target.repeat(stack, move)


def _renice(target: Target, value: Value, stack: ExitStack) -> None:
    for endpoint in target.endpoints:
        for thread in _threads(target.agents[endpoint]):
            target.run("host", f"renice -n {value} -p {thread}")
    for _ in target.cpus:
        target.program(stack, "host", "spin 1.0 0.01")


def _come_and_go(target: Target, value: Value, stack: ExitStack) -> None:
    """Two hogs per CPU for `value` of every 1.6 seconds, so that some trials have them and some do not."""
    running: list[ExitStack] = []

    def toggle() -> float:
        if running:
            running.pop().close()
            return 1.6 - float(value)
        hogs = ExitStack()
        for _ in range(2 * len(target.cpus)):
            target.program(hogs, "host", "spin 1.0 0.01")
        running.append(hogs)
        return float(value)

    def stop() -> None:
        while running:
            running.pop().close()

    stack.callback(stop)
    target.repeat(stack, toggle)


def _writers(target: Target, value: Value, stack: ExitStack) -> None:
    for number in range(int(value)):
        path = Path(f"/var/tmp/vnetbench-redteam-{os.getpid()}-{number}")
        stack.callback(path.unlink, missing_ok=True)
        target.program(stack, "host", f"write {path} 64")


def _hog(name: str, description: str, method: str, intensities: tuple[Value, ...], inject: Inject) -> Cause:
    return Cause(name, "cpu", description, method, intensities, CPU_TAKEN, ANY_LOAD, inject)


CAUSES = (
    _hog("hog-unpinned", "busy programs", "N busy loops", (1, 2, 6), programs("host", "spin 1.0 0.01")),
    _hog(
        "hog-one-cpu", "busy programs on one CPU", "N busy loops, taskset to the first CPU", (1, 2, 5),
        _prefixed("taskset -c {cpu}", "spin 1.0 0.01"),
    ),
    _hog(
        "hog-realtime", "a real-time program on every CPU", "chrt -f 30, a duty of each 10 ms",
        (0.2, 0.45, 0.7), _prefixed("chrt -f 30 taskset -c {cpu}", "spin {v} 0.01", each_cpu=True),
    ),
    _hog(
        "hog-realtime-coarse", "a real-time program with long turns", "chrt -r 30, a duty of each 200 ms",
        (0.15, 0.3, 0.6), _prefixed("chrt -r 30 taskset -c {cpu}", "spin {v} 0.2", each_cpu=True),
    ),
    _hog(
        "hog-bursty", "programs that are busy a third of the time", "N loops, 100 ms on and 200 ms off",
        (2, 4, 8), programs("host", "spin 0.333 0.3"),
    ),
    _hog(
        "hog-niced", "many programs at low priority", "nice -n 10, N busy loops", (4, 8, 16),
        _prefixed("nice -n 10", "spin 1.0 0.01"),
    ),
    _hog("hog-kernel", "programs in system calls", "N loops of pipe writes", (1, 3, 6),
         programs("host", "syscalls")),
    _hog("hog-memory", "programs that copy memory", "N loops that copy 64 MiB", (1, 2, 4),
         programs("host", "memory 64")),
    _hog("fork-storm", "programs that start processes", "N loops of fork", (1, 2, 5),
         programs("host", "forks")),
    _hog("wakeups", "many timers", "N threads that wake every 200 us", (10, 40, 120),
         programs("host", "wakeups {v}", count=2)),
    _hog("disk-writers", "programs that write files", "N writers of 64 MiB with fsync", (1, 2, 4), _writers),
    Cause(
        "hog-comes-and-goes", "cpu", "hogs that are there in some trials only",
        "two hogs per CPU for N s of every 1.6 s", (0.4, 0.8, 1.2), (*CPU_TAKEN, "two_modes"), TCP_AND_RR,
        _come_and_go,
    ),
    Cause(
        "agents-reniced", "cpu", "the load has a lower priority than another program",
        "renice of the agents, and a busy loop per CPU", (2, 6, 19), CPU_TAKEN, TCP_AND_RR, _renice,
    ),
    Cause("quota-both", "cpu", "a CPU quota for each VM", "cpu.cfs_quota_us of a group for each agent",
          (40, 20, 8), ("cpu_quota",), ANY_LOAD, _limit(("a1", "b1"))),
    Cause("quota-sender", "cpu", "a CPU quota for the sender", "cpu.cfs_quota_us of a group for its agent",
          (30, 15, 6), ("cpu_quota",), TCP_AND_RR, _limit(("a1",))),
    Cause("quota-receiver", "cpu", "a CPU quota for the receiver",
          "cpu.cfs_quota_us of a group for its agent", (20, 10, 4), ("cpu_quota",), TCP_AND_RR,
          _limit(("b1",))),
    Cause("agents-on-one-cpu", "cpu", "both VMs were pinned to one of several CPUs",
          "a cpuset of the first CPU for both agents, for N of every 400 ms", (100, 200, 400),
          ("shared_by_vms", "cpus_full", "cpu_set_changed"), (tcp(2), tcp(4), rr(4), tcp(1)), _share_one_cpu,
          min_cpus=2, phase="load"),
    Cause("receiver-beside-hog", "cpu", "the receiver is pinned to a CPU that hogs use",
          "a cpuset for its agent and taskset of N hogs to the first CPU", (1, 2, 4), CPU_TAKEN, TCP_AND_RR,
          in_turn(_pin(("b1",)), _prefixed("taskset -c {cpu}", "spin 1.0 0.01")), min_cpus=2, phase="load"),
    Cause("sender-beside-hog", "cpu", "the sender is pinned to a CPU that hogs use",
          "a cpuset for its agent and taskset of N hogs to the first CPU", (1, 2, 4), CPU_TAKEN, TCP_AND_RR,
          in_turn(_pin(("a1",)), _prefixed("taskset -c {cpu}", "spin 1.0 0.01")), min_cpus=2, phase="load"),
    Cause("thread-migration", "cpu", "threads move between CPUs all the time",
          "taskset of every thread every N ms", (50, 10, 2), ("missing:thread_migration",), TCP_AND_RR,
          _migrate, min_cpus=2),
    Cause("pause-sender", "cpu", "the sender's process is stopped again and again",
          "kill -STOP and -CONT of its agent, N of every 250 ms", (50, 100, 180), SENDER_PAUSED,
          (tcp(1), rr(1), udp(1), tcp(4)), _pause("a1")),
    Cause("pause-receiver", "cpu", "the receiver's process is stopped again and again",
          "kill -STOP and -CONT of its agent, N of every 250 ms", (50, 100, 180), RECEIVER_PAUSED,
          (tcp(1), rr(1), tcp(4), udp(1)), _pause("b1")),
)  # fmt: skip
