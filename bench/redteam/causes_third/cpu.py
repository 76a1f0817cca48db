"""Causes of the third set that take CPU time or memory from the load."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial

from bench.redteam import confinement, groups
from bench.redteam.causes_third.common import CHANGES_MIDWAY, CPU_TAKEN, EARLY_S, background, third
from bench.redteam.injections import after, alternate, in_turn, spin_on_each_cpu
from bench.redteam.model import Inject, Value, crr, mixed, rr, tcp, udp, udp_flood
from bench.redteam.runner import PROCESS_START_S
from bench.redteam.target import InjectionError, Target

FREEZER = groups.CGROUPS / "freezer"
NEIGHBOURS = ("redteam-n1", "redteam-n2")


def quota_with_period(endpoint: str) -> Inject:
    """Return an injection of a quota; the value's words are the quota and the period in microseconds."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        quota_us, period_us = str(value).split()
        settings = {"cpu.cfs_period_us": period_us, "cpu.cfs_quota_us": quota_us}
        confinement.join(target, stack, "cpu", (endpoint,), settings)

    return inject


def freeze(target: Target, value: Value, stack: ExitStack) -> None:
    """Freeze the receiver's agent again and again. The value's words are the seconds frozen and thawed."""
    frozen_s, thawed_s = map(float, str(value).split())
    state = groups.make_group(stack, FREEZER, "freeze", (), [target.agents["b1"]]) / "freezer.state"

    def thaw() -> None:
        with suppress(OSError):
            state.write_text("THAWED")

    stack.callback(thaw)
    target.log.append(f"host: freezer of b1: {frozen_s} s frozen, {thawed_s} s thawed")
    write = state.write_text
    alternate(target, stack, partial(write, "THAWED"), thawed_s, partial(write, "FROZEN"), frozen_s)


def one_cpu(target: Target, value: Value, stack: ExitStack) -> None:
    """Keep the agents that the value names on the first CPU."""
    pids = [target.agents[endpoint] for endpoint in str(value).split()]
    stack.enter_context(groups.cpuset("late", pids, target.cpus[:1]))


def guests_next_door(target: Target, value: Value, stack: ExitStack) -> None:
    """Run bulk TCP between two namespaces that have nothing to do with the testbed."""
    first, second = NEIGHBOURS
    for name in NEIGHBOURS:
        target.run("host", f"ip netns add {name}")
        stack.callback(_delete_namespace, target, name)
    target.run("host", f"ip -n {first} link add eth0 type veth peer name eth0 netns {second}")
    for number, name in enumerate(NEIGHBOURS, start=1):
        target.run("host", f"ip -n {name} address add 172.31.9.{number}/24 dev eth0")
        target.run("host", f"ip -n {name} link set eth0 up")
    target.spawn(stack, "host", f"ip netns exec {second} iperf3 -s")
    target.spawn(
        stack,
        "host",
        f"ip netns exec {first} sh -c 'sleep 0.3; exec iperf3 -c 172.31.9.2 -t 60 -P {value}'",
    )


def _delete_namespace(target: Target, name: str) -> None:
    with suppress(InjectionError):
        target.run("host", f"ip netns delete {name}")


def finish_after(seconds: float, part: Inject) -> Inject:
    """Return an injection that ends some seconds after the first bytes of the load."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        inner = stack.enter_context(ExitStack())
        earlier_count = len(target.processes)
        part(target, value, inner)
        target.check_processes(PROCESS_START_S)
        del target.processes[earlier_count:]  # They end before the run does, and that is no error.
        after(seconds, lambda *_: inner.close(), first_bytes=True)(target, value, stack)

    return inject


def renice(target: Target, value: Value, stack: ExitStack) -> None:
    """Give the sender's agent the lowest scheduling class."""
    target.run("host", f"chrt --idle --all-tasks --pid 0 {target.agents['a1']}")


def poll(target: Target, value: Value, stack: ExitStack) -> None:
    """Start real-time programs. The value's words are their share of a CPU and the number of CPUs."""
    duty, count = str(value).split()
    for cpu in target.cpus[: int(count)]:
        target.program_with(stack, f"chrt -f 40 taskset -c {cpu}", f"spin {duty} 0.05")


CAUSES = (
    third(
        "compression",
        "cpu",
        "A backup compresses files on the same CPUs.",
        "gzip, with a number and a nice value",
        ("2 4", "6 0"),
        CPU_TAKEN,
        (tcp(4), crr(4)),
        background("host", "nice -n @2 sh -c 'exec gzip -9 </dev/urandom'", "@1"),
    ),
    third(
        "long-quota",
        "cpu",
        "The receiver's VM has a CPU quota with a long period.",
        "cpu.cfs_quota_us",
        ("150000 500000", "50000 500000"),
        ("cpu_quota",),
        (rr(4), tcp(2)),
        quota_with_period("b1"),
    ),
    third(
        "snapshot-freeze",
        "cpu",
        "Snapshots freeze the receiver's VM again and again.",
        "control group freezer",
        ("0.15 0.5", "0.5 0.5"),
        ("process_stopped",),
        (crr(8), tcp(4)),
        freeze,
    ),
    third(
        "idle-class",
        "cpu",
        "The sender has the scheduling class idle, and other programs use most of each CPU.",
        "chrt --idle, and busy programs",
        ("0.5", "0.95"),
        CPU_TAKEN,
        (rr(8), tcp(1)),
        in_turn(renice, spin_on_each_cpu("@v")),
    ),
    third(
        "guests-next-door",
        "cpu",
        "Two other guests of the host exchange bulk data.",
        "iperf3 between two further namespaces",
        (1, 6),
        (*CPU_TAKEN, "shared_by_vms"),
        (mixed(2), rr(4)),
        guests_next_door,
    ),
    third(
        "cpus-removed-midway",
        "cpu",
        "Shortly after the load starts, VMs lose all CPUs but one.",
        "a control group with one CPU",
        ("b1", "a1 b1"),
        ("cpu_set_changed", "shared_by_vms", *CHANGES_MIDWAY),
        (tcp(8), tcp(2)),
        after(EARLY_S, one_cpu, first_bytes=True),
        min_cpus=2,
    ),
    third(
        "poll-mode",
        "cpu",
        "A real-time program polls, on one CPU or on both.",
        "chrt --fifo",
        ("0.6 1", "0.85 2"),
        CPU_TAKEN,
        (rr(1), udp(4)),
        poll,
    ),
    third(
        "hogs-until-late",
        "cpu",
        "Busy programs run until the middle of the last trial.",
        "busy programs",
        ("0.6", "1.0"),
        (*CPU_TAKEN, *CHANGES_MIDWAY),
        (rr(2), tcp(8)),
        finish_after(3.15, in_turn(spin_on_each_cpu("@v"), spin_on_each_cpu("@v"), spin_on_each_cpu("@v"))),
    ),
    third(
        "socket-memory",
        "cpu",
        "The receiver's container may use little memory for TCP buffers.",
        "memory.kmem.tcp.limit_in_bytes",
        (1_000_000, 65_536),
        ("receive_window", "missing:socket_memory"),
        (tcp(4), tcp(8)),
        confinement.memory_limit(confinement.TCP_MEMORY_FILE, ("b1",)),
    ),
    third(
        "memory-limit",
        "cpu",
        "The receiver's container has too little memory.",
        "memory.limit_in_bytes",
        (3_000_000, 400_000),
        ("agent_gone", "missing:memory_limit"),
        (mixed(4), tcp(1)),
        confinement.memory_limit("memory.limit_in_bytes", ("b1",)),
    ),
    third(
        "slow-datagram-reader",
        "cpu",
        "The receiver has too little CPU time for its datagrams.",
        "a CPU quota",
        ("45000 100000", "15000 100000"),
        ("cpu_quota", "overflow"),
        (udp_flood(2), udp_flood(4)),
        quota_with_period("b1"),
    ),
)
