"""Evidence of CPUs: how busy threads and CPUs are, and what keeps them from running."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vnetbench.estimate.time_series import Steady
from vnetbench.estimate.evidence.trial_data import Case
from vnetbench.estimate.evidence.aggregation import (
    Figures,
    most,
    number,
    over,
    per_s,
    percent,
    percent_of_time,
    plus,
    read_back,
    seconds_of,
    total,
)
from vnetbench.estimate.evidence.metric import Figure
from vnetbench.estimate.evidence.kernels import (
    IDLE,
    INTERRUPTS,
    Kernel,
    has_own_kernel,
    most_softirq,
)
from vnetbench.estimate.guests import EMULATOR_KINDS, added_up, owner_and_kind
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST, Sample, SideRecord

_THREAD = ("process_cpu_user_s", "process_cpu_system_s")
_OF_LINES = ("forward", "reverse")

_SIDES = (("sender", "sending"), ("receiver", "receiving"))

CPU_FIGURES = (
    *(
        figure
        for who, does in _SIDES
        for figure in (
            Figure(
                f"{who}_thread_busy_percent",
                "% of one CPU",
                f"{does} thread's CPU",
                f"CPU time of the busiest thread of the load at the {does} endpoint, with what the "
                "kernel did for packets in its turn; where it is not known, that of a process of one thread",
                ("busiest_thread_cpu_s", *_THREAD),
            ),
            Figure(
                f"{who}_thread_waiting_percent",
                "% of time",
                f"{does} thread's wait for a CPU",
                "for how much of the time the same thread could have run and had no CPU",
                ("busiest_thread_waited_s",),
            ),
            Figure(
                f"{who}_thread_runnable_percent",
                "% of time",
                f"{does} thread ran or waited for a CPU",
                "both together: near 100 of a thread that is never done, however much of a CPU it gets",
                ("busiest_thread_cpu_s", *_THREAD, "busiest_thread_waited_s"),
            ),
            Figure(
                f"{who}_throttled_percent",
                "% of time",
                f"{does} endpoint throttled",
                "for how much of the time the cgroup's CPU quota kept the endpoint from running, of several "
                "CPUs added up",
                ("cgroup_throttled_s",),
            ),
            Figure(
                f"{who}_throttled_periods_percent",
                "% of periods",
                f"{does} endpoint's periods throttled",
                "share of the periods of the cgroup's CPU quota in which that was used up",
                ("cgroup_throttled_periods", "cgroup_periods"),
            ),
            Figure(
                f"{who}_softirq_percent",
                "% of one CPU",
                f"packet processing in the {does} VM",
                f"time in interrupts of the CPU that has the most of it, in {does} endpoints with kernels of "
                "their own",
                ("cpu[].softirq_s", "cpu[].irq_s"),
            ),
        )
    ),
    Figure(
        "busiest_cpu_percent",
        "% of one CPU",
        "busiest CPU",
        "how busy the busiest CPU is, of all kernels that carry the load",
        ("cpu[]",),
    ),
    Figure(
        "busiest_cpu_softirq_percent",
        "% of one CPU",
        "packet processing on one CPU",
        "time in interrupts of the CPU that has the most of it",
        ("cpu[].softirq_s", "cpu[].irq_s"),
    ),
    Figure(
        "busiest_softirq_cpu_percent",
        "% of one CPU",
        "CPU with the most packet processing",
        "how busy the CPU is that has the most time in interrupts",
        ("cpu[]",),
    ),
    Figure(
        "processing_cpus",
        "1",
        "CPUs that could process packets",
        "how many CPUs the kernel has whose CPU has the most time in interrupts",
        ("cpu[]",),
    ),
    Figure(
        "other_cpus_idle_percent",
        "% of time",
        "other CPUs idle",
        "mean idle share of the other CPUs of the same kernel; absent where there is no other",
        ("cpu[].idle_s", "cpu[].iowait_s"),
    ),
    Figure(
        "steal_percent",
        "% of all CPUs",
        "steal",
        "time for which a hypervisor ran something else on the CPUs of a kernel that carries the load",
        ("cpu[].steal_s",),
    ),
    Figure(
        "worst_steal_percent",
        "% of one CPU",
        "steal of the worst CPU",
        "the same of the CPU that has the most of it",
        ("cpu[].steal_s",),
    ),
    Figure(
        "other_work_percent",
        "% of one CPU",
        "other work on the machine",
        "CPU time of processes that are neither the bench's own nor guests'; rather too little, since "
        "processing of packets counts as the bench's where both cannot be told apart",
        ("cpu[].user_s", "cpu[].nice_s", "cpu[].system_s", *_THREAD, "threads[].cpu_s"),
    ),
    Figure(
        "pressure_cpu_percent",
        "% of time",
        "CPU pressure",
        "for how much of the time something on the machine could have run and had no CPU",
        ("pressure_cpu_some_s",),
    ),
    Figure(
        "vcpu_busy_percent",
        "% of one CPU",
        "busiest vCPU",
        "time for which the host ran the vCPU thread that took the most",
        ("threads[].cpu_s",),
    ),
    Figure(
        "vcpu_waiting_percent",
        "% of time",
        "vCPU's wait for a CPU",
        "for how much of the time the vCPU thread that waited the most could have run and had no CPU of the "
        "host",
        ("threads[].waited_s",),
    ),
    Figure(
        "emulator_busy_percent",
        "% of one CPU",
        "busiest emulator thread",
        "time for which the host ran QEMU's main loop or the vhost thread that took the most",
        ("threads[].cpu_s",),
    ),
    Figure(
        "emulator_waiting_percent",
        "% of time",
        "emulator's wait for a CPU",
        "for how much of the time the one of these threads that waited the most had no CPU of the host",
        ("threads[].waited_s",),
    ),
    Figure(
        "delay_line_busy_percent",
        "% of one CPU",
        "busiest delay line thread",
        "CPU time of the thread of the bench's own delay line that took the most",
        ("threads[].cpu_s",),
    ),
    Figure(
        "delay_line_waiting_percent",
        "% of time",
        "delay line's wait for a CPU",
        "for how much of the time the one of these threads that waited the most had no CPU",
        ("threads[].waited_s",),
    ),
    Figure(
        "streams_per_thread",
        "1",
        "streams on one thread",
        "streams over threads of the load, at the endpoint where they are the most",
        ("load_threads", "threads"),
    ),
)


def cpu_evidence(case: Case) -> Figures:
    """The figures of CPU_FIGURES."""
    part, kernels = case.part, {kernel.name: kernel for kernel in case.kernels}
    figures: Figures = {}
    for (who, _), ends in zip(_SIDES, (part.senders, part.receivers), strict=True):
        figures |= _of_ends(who, ends, part, kernels)
    return {
        **figures,
        **_of_kernels(case.kernels),
        **_of_watched(part.host),
        "other_work_percent": most(_other_work(kernel, part) for kernel in case.kernels),
        "streams_per_thread": most(_streams_per_thread(side, samples, part) for side, samples in part.sides),
    }


def _of_ends(who: str, ends: Steady, part: SteadyPart, kernels: Mapping[str, Kernel]) -> Figures:
    own = [kernels[side.endpoint] for side, _ in ends if side.endpoint in kernels]
    return {
        f"{who}_thread_busy_percent": most(_thread_busy(side, x, part) for side, x in ends),
        f"{who}_thread_waiting_percent": most(percent_of_time(x, "busiest_thread_waited_s") for _, x in ends),
        f"{who}_thread_runnable_percent": most(
            plus(_thread_busy(side, x, part), percent_of_time(x, "busiest_thread_waited_s"))
            for side, x in ends
        ),
        f"{who}_throttled_percent": most(percent_of_time(x, "cgroup_throttled_s") for _, x in ends),
        f"{who}_throttled_periods_percent": most(
            percent(total(x, "cgroup_throttled_periods"), total(x, "cgroup_periods")) for _, x in ends
        ),
        f"{who}_softirq_percent": most_softirq(own),
    }


def _thread_busy(side: SideRecord, samples: Sequence[Sample], part: SteadyPart) -> float | None:
    told = percent_of_time(samples, "busiest_thread_cpu_s")
    is_alone = read_back(part.trial, "threads", side.endpoint) == 1
    return percent_of_time(samples, *_THREAD) if told is None and is_alone else told


def _streams_per_thread(side: SideRecord, samples: Sequence[Sample], part: SteadyPart) -> float | None:
    counted = most(x.counters.get("load_threads") for x in samples)
    threads = counted or number(read_back(part.trial, "threads", side.endpoint))
    streams = {(x.part, x.stream) for sample in samples for x in sample.streams}
    return over(len(streams), threads)


def _of_kernels(kernels: Sequence[Kernel]) -> Figures:
    every = [(kernel, cpu) for kernel in kernels for cpu in kernel.times]
    if not every:
        return {}
    kernel, busiest = max(every, key=lambda at: at[0].share(at[1], *INTERRUPTS))
    others = [kernel.share(cpu, *IDLE) for cpu in kernel.times if cpu != busiest]
    return {
        "busiest_cpu_percent": max(each.busy(cpu) for each, cpu in every),
        "busiest_cpu_softirq_percent": kernel.share(busiest, *INTERRUPTS),
        "busiest_softirq_cpu_percent": kernel.busy(busiest),
        "processing_cpus": float(len(kernel.times)),
        "other_cpus_idle_percent": over(sum(others), len(others)),
        "steal_percent": max(
            sum(each.share(cpu, "steal_s") for cpu in each.times) / len(each.times) for each in kernels
        ),
        "worst_steal_percent": max(each.share(cpu, "steal_s") for each, cpu in every),
        "pressure_cpu_percent": most(
            percent_of_time(each.samples, "pressure_cpu_some_s") for each in kernels
        ),
    }


def _other_work(kernel: Kernel, part: SteadyPart) -> float | None:
    """What processes of others took, in percent of one CPU.

    A process's time has what the kernel did for packets in its turn, and the CPUs' account of user and
    system has not. So the differences are too small, if anything, and none is less than nothing.
    """
    span_s = seconds_of(kernel.samples)
    on_it = [x for side, x in part.sides if side.endpoint == kernel.name]
    if kernel.name == HOST:
        on_it = [part.host, *(x for _, x in part.sides if not has_own_kernel(x))]
    own_user, own_system = (
        span_s * sum(per_s(samples, counter) or 0.0 for samples in on_it) for counter in _THREAD
    )
    if kernel.name == HOST:
        own_user += sum(sum(x.watched.threads.values()) for x in kernel.samples if x.watched)
        own_user += span_s * _bench_share(part)
    times = list(kernel.times.values())
    user = sum(of_cpu.get("user_s", 0.0) + of_cpu.get("nice_s", 0.0) for of_cpu in times) - own_user
    # A thread that is watched may have spent in the kernel what is not found among the time of users.
    system = sum(of_cpu.get("system_s", 0.0) for of_cpu in times) - own_system + min(0.0, user)
    return percent(max(0.0, user) + max(0.0, system), span_s)


def _bench_share(part: SteadyPart) -> float:
    bench_s = next((s.totals.get("bench_cpu_s") for s in part.trial.sides if s.endpoint == HOST), None)
    return over(number(bench_s), part.trial.idle_s + part.trial.duration_s) or 0.0


def _of_watched(host: Sequence[Sample]) -> Figures:
    """Of each kind of thread the one that ran, and the one that waited, for the most of the time."""
    seen = [x.watched for x in host if x.watched]
    span_s = seconds_of(x for x in host if x.watched)
    spent = {
        "busy": added_up(watched.threads for watched in seen),
        "waiting": added_up(watched.waited for watched in seen),
    }
    return {
        f"{name}_{does}_percent": percent(most(_of_kinds(by_thread, kinds)), span_s)
        for name, kinds in (("vcpu", ("vcpu",)), ("emulator", EMULATOR_KINDS), ("delay_line", _OF_LINES))
        for does, by_thread in spent.items()
    }


def _of_kinds(by_thread: Mapping[str, float], kinds: Collection[str]) -> list[float]:
    return [spent_s for thread, spent_s in by_thread.items() if owner_and_kind(thread)[1] in kinds]
