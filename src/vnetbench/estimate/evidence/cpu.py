"""Evidence of CPUs: how busy threads and CPUs are, and what keeps threads from running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    effective_knob_value,
    largest,
    limit_waiting_to_time_not_busy_percent,
    percent_at_most_100,
    percent_of_sampled_time,
    ratio,
    sum_known_values,
    to_number,
    total_duration_s,
    total_of_counter,
)
from vnetbench.estimate.evidence.kernels import (
    IDLE_TIME_COUNTERS,
    INTERRUPT_TIME_COUNTERS,
    ObservedKernel,
    max_softirq_percent,
)
from vnetbench.estimate.evidence.metric import ENDPOINT_ROLES_WITH_ADJECTIVES, EvidenceMetric
from vnetbench.estimate.evidence.other_work import PROCESS_CPU_TIME_COUNTERS, other_work_cpus
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.guests import EMULATOR_THREAD_KINDS, split_owner_and_thread_kind, sum_values_by_name
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import EndpointRecord, Sample

_THREAD_KINDS_BY_METRIC_PREFIX = {
    "vcpu": ("vcpu",),
    "emulator": EMULATOR_THREAD_KINDS,
    "delay_line": ("forward", "reverse"),
}
"""Prefix of the metrics' names to the kinds of observed threads."""


CPU_EVIDENCE_METRICS = (
    *(
        metric
        for endpoint, role in ENDPOINT_ROLES_WITH_ADJECTIVES
        for metric in (
            EvidenceMetric(
                f"{endpoint}_thread_busy_percent",
                "% of one CPU",
                f"{role} thread's CPU",
                f"CPU time of the load's busiest thread at the {role} endpoint, including the packet "
                "processing that the kernel does in its context. If the thread's time is unknown, the CPU "
                "time of a process with one thread",
                ("busiest_thread_cpu_s", *PROCESS_CPU_TIME_COUNTERS),
            ),
            EvidenceMetric(
                f"{endpoint}_thread_waiting_percent",
                "% of time",
                f"{role} thread's time waiting for a CPU",
                f"share of the time in which the load's busiest thread at the {role} endpoint was runnable "
                "and had no CPU",
                ("busiest_thread_waited_s",),
            ),
            EvidenceMetric(
                f"{endpoint}_thread_runnable_percent",
                "% of time",
                f"{role} thread's time on a CPU or waiting for one",
                f"share of the time in which the load's busiest thread at the {role} endpoint ran or waited "
                "for a CPU. It is near 100 for a thread that always has work",
                ("busiest_thread_cpu_s", *PROCESS_CPU_TIME_COUNTERS, "busiest_thread_waited_s"),
            ),
            EvidenceMetric(
                f"{endpoint}_throttled_percent",
                "% of time",
                f"time in which the CPU quota stopped the {role} endpoint",
                f"share of the time in which the CPU quota of its cgroup kept the {role} endpoint from "
                "running, summed over CPUs and limited to 100",
                ("cgroup_throttled_s",),
            ),
            EvidenceMetric(
                f"{endpoint}_throttled_periods_percent",
                "% of periods",
                f"quota periods in which the CPU quota stopped the {role} endpoint",
                f"share of the quota periods in which the cgroup of the {role} endpoint used up its CPU "
                "quota",
                ("cgroup_throttled_periods", "cgroup_periods"),
            ),
            EvidenceMetric(
                f"{endpoint}_softirq_percent",
                "% of one CPU",
                f"packet processing on one CPU of the {role} VM",
                f"time that one CPU of a {role} endpoint with its own kernel spends in interrupts, of the "
                "CPU with the most",
                ("cpu[].softirq_s", "cpu[].irq_s"),
            ),
        )
    ),
    EvidenceMetric(
        "busiest_cpu_percent",
        "% of one CPU",
        "busy time of the busiest CPU",
        "share of the time in which the busiest CPU of all kernels that carry the load was busy",
        ("cpu[]",),
    ),
    EvidenceMetric(
        "busiest_cpu_softirq_percent",
        "% of one CPU",
        "packet processing on one CPU",
        "time that one CPU spends in interrupts, of the CPU with the most",
        ("cpu[].softirq_s", "cpu[].irq_s"),
    ),
    EvidenceMetric(
        "softirq_cpu_busy_percent",
        "% of one CPU",
        "busy time of the CPU with the most packet processing",
        "share of the time in which the CPU with the most interrupt time was busy",
        ("cpu[]",),
    ),
    EvidenceMetric(
        "softirq_kernel_cpus",
        "1",
        "CPUs that could process packets",
        "number of CPUs of the kernel whose CPU has the most interrupt time",
        ("cpu[]",),
    ),
    EvidenceMetric(
        "other_cpus_idle_percent",
        "% of time",
        "idle time of the other CPUs",
        "mean idle time of all CPUs except the one with the most interrupt time, in that CPU's kernel. "
        "Absent with one CPU",
        ("cpu[].idle_s", "cpu[].iowait_s"),
    ),
    EvidenceMetric(
        "steal_percent",
        "% of all CPUs",
        "steal time of all CPUs",
        "time in which a hypervisor ran other work on the CPUs of a kernel that carries the load (steal), "
        "of the kernel with the most",
        ("cpu[].steal_s",),
    ),
    EvidenceMetric(
        "worst_steal_percent",
        "% of one CPU",
        "steal time of the CPU with the most",
        "time in which a hypervisor ran other work on one CPU (steal), of the CPU with the most",
        ("cpu[].steal_s",),
    ),
    EvidenceMetric(
        "other_work_cpus",
        "CPUs",
        "other work on the machine",
        "CPU time of processes other than the bench and its guests, as a number of CPUs. It is a lower "
        "bound, because packet processing that cannot be separated counts as the bench's",
        ("cpu[].user_s", "cpu[].nice_s", "cpu[].system_s", *PROCESS_CPU_TIME_COUNTERS, "threads[].cpu_s"),
    ),
    EvidenceMetric(
        "pressure_cpu_percent",
        "% of time",
        "CPU pressure",
        "share of the time in which a task on the machine was runnable and had no CPU",
        ("pressure_cpu_some_s",),
    ),
    EvidenceMetric(
        "vcpu_busy_percent",
        "% of one CPU",
        "CPU time of the busiest vCPU",
        "CPU time of the vCPU thread that used the most, measured on the host",
        ("threads[].cpu_s",),
    ),
    EvidenceMetric(
        "vcpu_waiting_percent",
        "% of time",
        "longest wait of a vCPU for a CPU",
        "share of the time in which a vCPU thread was runnable and had no host CPU, of the thread with the "
        "most",
        ("threads[].waited_s",),
    ),
    EvidenceMetric(
        "emulator_busy_percent",
        "% of one CPU",
        "CPU time of the busiest emulator thread",
        "CPU time of the QEMU main loop or vhost thread that used the most",
        ("threads[].cpu_s",),
    ),
    EvidenceMetric(
        "emulator_waiting_percent",
        "% of time",
        "longest wait of an emulator thread for a CPU",
        "share of the time in which a QEMU main loop or vhost thread was runnable and had no CPU, of the "
        "thread with the most",
        ("threads[].waited_s",),
    ),
    EvidenceMetric(
        "delay_line_busy_percent",
        "% of one CPU",
        "CPU time of the busiest delay line thread",
        "CPU time of the thread that used the most, among those that run the bench's delay lines",
        ("threads[].cpu_s",),
    ),
    EvidenceMetric(
        "delay_line_waiting_percent",
        "% of time",
        "longest wait of a delay line thread for a CPU",
        "share of the time in which a delay line thread was runnable and had no CPU, of the thread with the "
        "most",
        ("threads[].waited_s",),
    ),
    EvidenceMetric(
        "streams_per_thread",
        "1",
        "streams per thread",
        "number of streams per thread of the load, at the endpoint with the most",
        ("load_threads", "threads"),
    ),
)


def cpu_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of CPU_EVIDENCE_METRICS."""
    part, kernels = data.steady_part, {kernel.endpoint_or_host: kernel for kernel in data.kernels}
    values: EvidenceValues = {}
    for (name, _), endpoints in zip(
        ENDPOINT_ROLES_WITH_ADJECTIVES, (part.senders, part.receivers), strict=True
    ):
        values |= _endpoint_cpu_values(name, endpoints, part, kernels)
    return {
        **values,
        **_kernel_cpu_values(data.kernels),
        **_busiest_thread_values_by_kind(part.host_samples),
        "other_work_cpus": largest(other_work_cpus(kernel, part) for kernel in data.kernels),
        "streams_per_thread": largest(
            _streams_per_thread(endpoint, samples, part) for endpoint, samples in part.endpoints
        ),
    }


def _endpoint_cpu_values(
    prefix: str, endpoints: SteadySamples, part: SteadyPart, kernels: Mapping[str, ObservedKernel]
) -> EvidenceValues:
    own_kernels = [kernels[endpoint.name] for endpoint, _ in endpoints if endpoint.name in kernels]
    busy = [_busiest_thread_cpu_percent(endpoint, samples, part) for endpoint, samples in endpoints]
    # In each sample, another thread can be the busiest: its waits can then add up to more than the time.
    waiting = [
        limit_waiting_to_time_not_busy_percent(
            percent_of_sampled_time(samples, "busiest_thread_waited_s"), own_busy
        )
        for (_, samples), own_busy in zip(endpoints, busy, strict=True)
    ]
    return {
        f"{prefix}_thread_busy_percent": largest(busy),
        f"{prefix}_thread_waiting_percent": largest(waiting),
        f"{prefix}_thread_runnable_percent": largest(map(sum_known_values, busy, waiting)),
        f"{prefix}_throttled_percent": largest(
            percent_of_sampled_time(x, "cgroup_throttled_s") for _, x in endpoints
        ),
        f"{prefix}_throttled_periods_percent": largest(
            percent_at_most_100(
                total_of_counter(x, "cgroup_throttled_periods"), total_of_counter(x, "cgroup_periods")
            )
            for _, x in endpoints
        ),
        f"{prefix}_softirq_percent": max_softirq_percent(own_kernels),
    }


def _busiest_thread_cpu_percent(
    endpoint: EndpointRecord, samples: Sequence[Sample], part: SteadyPart
) -> float | None:
    thread_percent = percent_of_sampled_time(samples, "busiest_thread_cpu_s")
    if thread_percent is None and effective_knob_value(part.trial, "threads", endpoint.name) == 1:
        return percent_of_sampled_time(samples, *PROCESS_CPU_TIME_COUNTERS)
    return thread_percent


def _streams_per_thread(
    endpoint: EndpointRecord, samples: Sequence[Sample], part: SteadyPart
) -> float | None:
    counted_threads = largest(x.counters.get("load_threads") for x in samples)
    threads = counted_threads or to_number(effective_knob_value(part.trial, "threads", endpoint.name))
    streams = {(x.load_part, x.stream_id) for sample in samples for x in sample.streams}
    return ratio(len(streams), threads)


def _kernel_cpu_values(kernels: Sequence[ObservedKernel]) -> EvidenceValues:
    cpus = [(kernel, cpu) for kernel in kernels for cpu in kernel.cpu_seconds_by_cpu_and_state]
    if not cpus:
        return {}
    kernel, softirq_cpu = max(cpus, key=lambda each: each[0].time_percent(each[1], *INTERRUPT_TIME_COUNTERS))
    others_idle = [
        kernel.time_percent(cpu, *IDLE_TIME_COUNTERS)
        for cpu in kernel.cpu_seconds_by_cpu_and_state
        if cpu != softirq_cpu
    ]
    return {
        "busiest_cpu_percent": max(each.busy_percent(cpu) for each, cpu in cpus),
        "busiest_cpu_softirq_percent": kernel.time_percent(softirq_cpu, *INTERRUPT_TIME_COUNTERS),
        "softirq_cpu_busy_percent": kernel.busy_percent(softirq_cpu),
        "softirq_kernel_cpus": float(len(kernel.cpu_seconds_by_cpu_and_state)),
        "other_cpus_idle_percent": ratio(sum(others_idle), len(others_idle)),
        "steal_percent": max(
            sum(each.time_percent(cpu, "steal_s") for cpu in each.cpu_seconds_by_cpu_and_state)
            / len(each.cpu_seconds_by_cpu_and_state)
            for each in kernels
        ),
        "worst_steal_percent": max(each.time_percent(cpu, "steal_s") for each, cpu in cpus),
        "pressure_cpu_percent": largest(
            percent_of_sampled_time(each.samples, "pressure_cpu_some_s") for each in kernels
        ),
    }


def _busiest_thread_values_by_kind(host_samples: Sequence[Sample]) -> EvidenceValues:
    """Return the largest running and waiting time among the threads of each kind."""
    observations = [x.observation for x in host_samples if x.observation]
    duration_s = total_duration_s(x for x in host_samples if x.observation)
    times = {
        "busy": sum_values_by_name(each.thread_cpu_s for each in observations),
        "waiting": sum_values_by_name(each.thread_wait_s for each in observations),
    }
    return {
        f"{prefix}_{state}_percent": percent_at_most_100(
            largest(
                time_s
                for thread, time_s in by_thread.items()
                if split_owner_and_thread_kind(thread)[1] in kinds
            ),
            duration_s,
        )
        for prefix, kinds in _THREAD_KINDS_BY_METRIC_PREFIX.items()
        for state, by_thread in times.items()
    }
