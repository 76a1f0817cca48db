"""Causes in the CPUs: too little CPU time, or several threads on one CPU."""

from __future__ import annotations

from bench.corpus.disturbance import Disturbance
from bench.corpus.disturbances.busy_processes import busy_processes
from bench.corpus.disturbances.cpu_quota import THROTTLED_S, vm_cpu_quota
from bench.corpus.disturbances.gso_size import limited_gso_size
from bench.corpus.effect_checks import (
    require_all,
    require_cpu_idle,
    require_cpu_use,
    require_disturbance_value,
    require_slowdown,
)
from bench.corpus.scenario import Levels, Scenario, make_strengths

ONE_CPU_PER_VM = {"cpus": "0/1"}
"""Each endpoint has its own CPU, and the sender's CPU processes the packets."""
MANY_FRAMES = limited_gso_size(5)
SIZES = ("1 MiB", "512 KiB", "256 KiB", "384 KiB")


def _messages(size: str) -> Levels:
    return {"message_size": size}


def _processes_on_cpu(cpu: int, count: int) -> Disturbance:
    return busy_processes(count, frozenset({cpu}))


RECIPES = (
    Scenario(
        ("sender_cpu",),
        "its own CPU",
        make_strengths(SIZES, "messages of {}", _messages),
        ("bridge", "direct", "router", "jumbo6"),
        require_cpu_use("CPU 0", 0.9),
        levels={**ONE_CPU_PER_VM, "irq_cpus": "off"},
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        ("receiver_cpu",),
        "copies, and the sender does not",
        make_strengths(SIZES, "messages of {}", _messages),
        ("bridge", "direct", "router", "jumbo6"),
        require_all(require_cpu_use("CPU 1", 0.85), require_cpu_idle("CPU 0", 0.25)),
        levels={**ONE_CPU_PER_VM, "irq_cpus": "off", "send_mode": "sendfile", "receive_mode": "copy"},
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        ("receive_processing",),
        "RPS onto one CPU",
        make_strengths(
            (3, 6, 9, 4), "{} streams, all packets on CPU 3", lambda n: {"streams": n, "irq_cpus": "3"}
        ),
        ("bridge", "direct", "router", "jumbo6"),
        require_all(require_slowdown(0.1), require_cpu_use("CPU 3", 0.85)),
        levels={"cpus": "0-2"},
        control_levels={"irq_cpus": "off"},
        preparation=(MANY_FRAMES,),
    ),
    Scenario(
        ("shared_with_packets",),
        "RPS onto the receiver's CPU",
        make_strengths((2, 4, 8, 6), "{} streams", lambda n: {"streams": n, "irq_cpus": "1"}),
        ("bridge", "direct", "macvlan", "router", "jumbo6"),
        require_all(
            require_cpu_use("CPU 1", 0.9), require_cpu_use("softirq CPU 1", 0.25), require_cpu_use("b1", 0.25)
        ),
        levels={"cpus": "0,2-3/1"},
        control_levels={"irq_cpus": "off"},
        preparation=(MANY_FRAMES,),
    ),
    Scenario(
        ("shared_by_vms",),
        "pairs of VMs on one CPU",
        make_strengths((2, 3, 4, 5), "{} pairs on CPU 0", lambda pairs: {"pairs": pairs, "cpus": "0"}),
        ("bridge", "direct", "router", "jumbo6"),
        require_slowdown(0.1),
        control_levels={"cpus": "any"},
    ),
    Scenario(
        ("shared_by_vms",),
        "another process on the sender's CPU",
        make_strengths((1, 2, 4, 3), "{} processes", disturbance=lambda count: _processes_on_cpu(0, count)),
        ("bridge", "direct", "router", "jumbo6"),
        require_slowdown(0.1),
        levels=ONE_CPU_PER_VM,
    ),
    Scenario(
        ("shared_by_vms",),
        "another process on the receiver's CPU",
        make_strengths((1, 2, 4, 3), "{} processes", disturbance=lambda count: _processes_on_cpu(1, count)),
        ("macvlan", "router", "jumbo6"),
        require_slowdown(0.1),
        levels=ONE_CPU_PER_VM,
    ),
    Scenario(
        ("cpu_quota",),
        "the sender's",
        make_strengths(
            (0.5, 0.35, 0.15, 0.25), "{} of a CPU", disturbance=lambda cpus: vm_cpu_quota("a1", cpus)
        ),
        ("bridge", "macvlan", "router", "jumbo6"),
        require_all(require_slowdown(0.1), require_disturbance_value(THROTTLED_S, 0.1)),
        levels=ONE_CPU_PER_VM,
    ),
    Scenario(
        ("cpu_quota",),
        "the receiver's",
        make_strengths(
            (0.3, 0.2, 0.1, 0.15), "{} of a CPU", disturbance=lambda cpus: vm_cpu_quota("b1", cpus)
        ),
        ("bridge", "direct", "router", "jumbo6"),
        require_all(require_slowdown(0.1), require_disturbance_value(THROTTLED_S, 0.1)),
        levels={**ONE_CPU_PER_VM, "receive_mode": "copy"},
    ),
    Scenario(
        ("too_few_threads",),
        "one for all",
        make_strengths((4, 8, 16, 12), "{} streams", lambda n: {"streams": n, "threads": 1}),
        ("bridge", "direct", "router", "jumbo6"),
        require_slowdown(0.15),
        control_levels={"threads": "auto"},
    ),
)
