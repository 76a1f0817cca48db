"""Evidence of CPUs: how busy threads and CPUs are, and what keeps them from running."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_total,
    knob_value,
    largest,
    percent,
    percent_of_time,
    rate_per_s,
    ratio,
    sum_known,
    to_number,
    total_duration_s,
)
from vnetbench.estimate.evidence.kernels import (
    IDLE,
    INTERRUPTS,
    Kernel,
    has_own_kernel,
    max_softirq_percent,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.guests import EMULATOR_KINDS, parse_thread_name, sum_by_name
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import HOST, EndpointRecord, Sample

_THREAD = ("process_cpu_user_s", "process_cpu_system_s")
_OF_LINES = ("forward", "reverse")

_SIDES = (("sender", "sending"), ("receiver", "receiving"))

CPU_METRICS = (
    *(
        figure
        for who, does in _SIDES
        for figure in (
            EvidenceMetric(
                f"{who}_thread_busy_percent",
                "% of one CPU",
                f"{does} thread's CPU",
                f"CPU time of the busiest thread of the load at the {does} endpoint, with what the "
                "kernel did for packets in its turn; where it is not known, that of a process of one thread",
                ("busiest_thread_cpu_s", *_THREAD),
            ),
            EvidenceMetric(
                f"{who}_thread_waiting_percent",
                "% of time",
                f"{does} thread's wait for a CPU",
                "for how much of the time the same thread could have run and had no CPU",
                ("busiest_thread_waited_s",),
            ),
            EvidenceMetric(
                f"{who}_thread_runnable_percent",
                "% of time",
                f"{does} thread ran or waited for a CPU",
                "both together: near 100 of a thread that is never done, however much of a CPU it gets",
                ("busiest_thread_cpu_s", *_THREAD, "busiest_thread_waited_s"),
            ),
            EvidenceMetric(
                f"{who}_throttled_percent",
                "% of time",
                f"{does} endpoint throttled",
                "for how much of the time the cgroup's CPU quota kept the endpoint from running, of several "
                "CPUs added up",
                ("cgroup_throttled_s",),
            ),
            EvidenceMetric(
                f"{who}_throttled_periods_percent",
                "% of periods",
                f"{does} endpoint's periods throttled",
                "share of the periods of the cgroup's CPU quota in which that was used up",
                ("cgroup_throttled_periods", "cgroup_periods"),
            ),
            EvidenceMetric(
                f"{who}_softirq_percent",
                "% of one CPU",
                f"packet processing in the {does} VM",
                f"time in interrupts of the CPU that has the most of it, in {does} endpoints with kernels of "
                "their own",
                ("cpu[].softirq_s", "cpu[].irq_s"),
            ),
        )
    ),
    EvidenceMetric(
        "busiest_cpu_percent",
        "% of one CPU",
        "busiest CPU",
        "how busy the busiest CPU is, of all kernels that carry the load",
        ("cpu[]",),
    ),
    EvidenceMetric(
        "busiest_cpu_softirq_percent",
        "% of one CPU",
        "packet processing on one CPU",
        "time in interrupts of the CPU that has the most of it",
        ("cpu[].softirq_s", "cpu[].irq_s"),
    ),
    EvidenceMetric(
        "busiest_softirq_cpu_percent",
        "% of one CPU",
        "CPU with the most packet processing",
        "how busy the CPU is that has the most time in interrupts",
        ("cpu[]",),
    ),
    EvidenceMetric(
        "processing_cpus",
        "1",
        "CPUs that could process packets",
        "how many CPUs the kernel has whose CPU has the most time in interrupts",
        ("cpu[]",),
    ),
    EvidenceMetric(
        "other_cpus_idle_percent",
        "% of time",
        "other CPUs idle",
        "mean idle share of the other CPUs of the same kernel; absent where there is no other",
        ("cpu[].idle_s", "cpu[].iowait_s"),
    ),
    EvidenceMetric(
        "steal_percent",
        "% of all CPUs",
        "steal",
        "time for which a hypervisor ran something else on the CPUs of a kernel that carries the load",
        ("cpu[].steal_s",),
    ),
    EvidenceMetric(
        "worst_steal_percent",
        "% of one CPU",
        "steal of the worst CPU",
        "the same of the CPU that has the most of it",
        ("cpu[].steal_s",),
    ),
    EvidenceMetric(
        "other_work_percent",
        "% of one CPU",
        "other work on the machine",
        "CPU time of processes that are neither the bench's own nor guests'; rather too little, since "
        "processing of packets counts as the bench's where both cannot be told apart",
        ("cpu[].user_s", "cpu[].nice_s", "cpu[].system_s", *_THREAD, "threads[].cpu_s"),
    ),
    EvidenceMetric(
        "pressure_cpu_percent",
        "% of time",
        "CPU pressure",
        "for how much of the time something on the machine could have run and had no CPU",
        ("pressure_cpu_some_s",),
    ),
    EvidenceMetric(
        "vcpu_busy_percent",
        "% of one CPU",
        "busiest vCPU",
        "time for which the host ran the vCPU thread that took the most",
        ("threads[].cpu_s",),
    ),
    EvidenceMetric(
        "vcpu_waiting_percent",
        "% of time",
        "vCPU's wait for a CPU",
        "for how much of the time the vCPU thread that waited the most could have run and had no CPU of the "
        "host",
        ("threads[].waited_s",),
    ),
    EvidenceMetric(
        "emulator_busy_percent",
        "% of one CPU",
        "busiest emulator thread",
        "time for which the host ran QEMU's main loop or the vhost thread that took the most",
        ("threads[].cpu_s",),
    ),
    EvidenceMetric(
        "emulator_waiting_percent",
        "% of time",
        "emulator's wait for a CPU",
        "for how much of the time the one of these threads that waited the most had no CPU of the host",
        ("threads[].waited_s",),
    ),
    EvidenceMetric(
        "delay_line_busy_percent",
        "% of one CPU",
        "busiest delay line thread",
        "CPU time of the thread of the bench's own delay line that took the most",
        ("threads[].cpu_s",),
    ),
    EvidenceMetric(
        "delay_line_waiting_percent",
        "% of time",
        "delay line's wait for a CPU",
        "for how much of the time the one of these threads that waited the most had no CPU",
        ("threads[].waited_s",),
    ),
    EvidenceMetric(
        "streams_per_thread",
        "1",
        "streams on one thread",
        "streams over threads of the load, at the endpoint where they are the most",
        ("load_threads", "threads"),
    ),
)


def cpu_evidence(case: TrialData) -> EvidenceValues:
    """The figures of CPU_FIGURES."""
    part, kernels = case.steady_part, {kernel.name: kernel for kernel in case.kernels}
    figures: EvidenceValues = {}
    for (who, _), ends in zip(_SIDES, (part.senders, part.receivers), strict=True):
        figures |= _of_ends(who, ends, part, kernels)
    return {
        **figures,
        **_of_kernels(case.kernels),
        **_of_watched(part.host_samples),
        "other_work_percent": largest(_other_work(kernel, part) for kernel in case.kernels),
        "streams_per_thread": largest(
            _streams_per_thread(side, samples, part) for side, samples in part.endpoints
        ),
    }


def _of_ends(
    who: str, ends: SteadySamples, part: SteadyPart, kernels: Mapping[str, Kernel]
) -> EvidenceValues:
    own = [kernels[side.name] for side, _ in ends if side.name in kernels]
    return {
        f"{who}_thread_busy_percent": largest(_thread_busy(side, x, part) for side, x in ends),
        f"{who}_thread_waiting_percent": largest(
            percent_of_time(x, "busiest_thread_waited_s") for _, x in ends
        ),
        f"{who}_thread_runnable_percent": largest(
            sum_known(_thread_busy(side, x, part), percent_of_time(x, "busiest_thread_waited_s"))
            for side, x in ends
        ),
        f"{who}_throttled_percent": largest(percent_of_time(x, "cgroup_throttled_s") for _, x in ends),
        f"{who}_throttled_periods_percent": largest(
            percent(counter_total(x, "cgroup_throttled_periods"), counter_total(x, "cgroup_periods"))
            for _, x in ends
        ),
        f"{who}_softirq_percent": max_softirq_percent(own),
    }


def _thread_busy(side: EndpointRecord, samples: Sequence[Sample], part: SteadyPart) -> float | None:
    told = percent_of_time(samples, "busiest_thread_cpu_s")
    is_alone = knob_value(part.trial, "threads", side.name) == 1
    return percent_of_time(samples, *_THREAD) if told is None and is_alone else told


def _streams_per_thread(side: EndpointRecord, samples: Sequence[Sample], part: SteadyPart) -> float | None:
    counted = largest(x.counters.get("load_threads") for x in samples)
    threads = counted or to_number(knob_value(part.trial, "threads", side.name))
    streams = {(x.load_part, x.stream_id) for sample in samples for x in sample.streams}
    return ratio(len(streams), threads)


def _of_kernels(kernels: Sequence[Kernel]) -> EvidenceValues:
    every = [(kernel, cpu) for kernel in kernels for cpu in kernel.cpu_times]
    if not every:
        return {}
    kernel, busiest = max(every, key=lambda at: at[0].time_percent(at[1], *INTERRUPTS))
    others = [kernel.time_percent(cpu, *IDLE) for cpu in kernel.cpu_times if cpu != busiest]
    return {
        "busiest_cpu_percent": max(each.busy_percent(cpu) for each, cpu in every),
        "busiest_cpu_softirq_percent": kernel.time_percent(busiest, *INTERRUPTS),
        "busiest_softirq_cpu_percent": kernel.busy_percent(busiest),
        "processing_cpus": float(len(kernel.cpu_times)),
        "other_cpus_idle_percent": ratio(sum(others), len(others)),
        "steal_percent": max(
            sum(each.time_percent(cpu, "steal_s") for cpu in each.cpu_times) / len(each.cpu_times)
            for each in kernels
        ),
        "worst_steal_percent": max(each.time_percent(cpu, "steal_s") for each, cpu in every),
        "pressure_cpu_percent": largest(
            percent_of_time(each.samples, "pressure_cpu_some_s") for each in kernels
        ),
    }


def _other_work(kernel: Kernel, part: SteadyPart) -> float | None:
    """What processes of others took, in percent of one CPU.

    A process's time has what the kernel did for packets in its turn, and the CPUs' account of user and
    system has not. So the differences are too small, if anything, and none is less than nothing.
    """
    span_s = total_duration_s(kernel.samples)
    on_it = [x for side, x in part.endpoints if side.name == kernel.name]
    if kernel.name == HOST:
        on_it = [part.host_samples, *(x for _, x in part.endpoints if not has_own_kernel(x))]
    own_user, own_system = (
        span_s * sum(rate_per_s(samples, counter) or 0.0 for samples in on_it) for counter in _THREAD
    )
    if kernel.name == HOST:
        own_user += sum(sum(x.observation.thread_cpu_s.values()) for x in kernel.samples if x.observation)
        own_user += span_s * _bench_share(part)
    times = list(kernel.cpu_times.values())
    user = sum(of_cpu.get("user_s", 0.0) + of_cpu.get("nice_s", 0.0) for of_cpu in times) - own_user
    # A thread that is watched may have spent in the kernel what is not found among the time of users.
    system = sum(of_cpu.get("system_s", 0.0) for of_cpu in times) - own_system + min(0.0, user)
    return percent(max(0.0, user) + max(0.0, system), span_s)


def _bench_share(part: SteadyPart) -> float:
    bench_s = next((s.totals.get("bench_cpu_s") for s in part.trial.endpoints if s.name == HOST), None)
    return ratio(to_number(bench_s), part.trial.idle_s + part.trial.duration_s) or 0.0


def _of_watched(host: Sequence[Sample]) -> EvidenceValues:
    """Of each kind of thread the one that ran, and the one that waited, for the most of the time."""
    seen = [x.observation for x in host if x.observation]
    span_s = total_duration_s(x for x in host if x.observation)
    spent = {
        "busy": sum_by_name(watched.thread_cpu_s for watched in seen),
        "waiting": sum_by_name(watched.thread_wait_s for watched in seen),
    }
    return {
        f"{name}_{does}_percent": percent(largest(_of_kinds(by_thread, kinds)), span_s)
        for name, kinds in (("vcpu", ("vcpu",)), ("emulator", EMULATOR_KINDS), ("delay_line", _OF_LINES))
        for does, by_thread in spent.items()
    }


def _of_kinds(by_thread: Mapping[str, float], kinds: Collection[str]) -> list[float]:
    return [spent_s for thread, spent_s in by_thread.items() if parse_thread_name(thread)[1] in kinds]
