"""Evidence of CPU sets: what else runs on the CPUs that the load's threads may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    effective_knob_value,
    largest,
    percent,
    percent_of_sampled_time,
    ratio,
    smallest,
    to_number,
)
from vnetbench.estimate.evidence.kernels import INTERRUPT_TIME_COUNTERS, ObservedKernel, has_own_kernel
from vnetbench.estimate.evidence.metric import ENDPOINT_ROLES_WITH_ADJECTIVES, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import HOST
from vnetbench.study.factors.cpu_lists import parse_cpu_list

_USER_TIME_COUNTERS = ("user_s", "nice_s")
"""The load itself uses little user time: most of its CPU time is in the kernel."""

CPU_SET_EVIDENCE_METRICS = (
    *(
        metric
        for endpoint, role in ENDPOINT_ROLES_WITH_ADJECTIVES
        for metric in (
            EvidenceMetric(
                f"{endpoint}_cpus_softirq_percent",
                "% of one CPU",
                f"least packet processing on the {role} thread's CPUs",
                "time that one CPU spends in interrupts, of the CPU with the least among those that a "
                f"{role} thread may use. Absent for a kernel with one CPU",
                ("cpu[].softirq_s", "cpu[].irq_s", "thread_cpus"),
            ),
            EvidenceMetric(
                f"{endpoint}_cpus_other_work_percent",
                "% of one CPU",
                f"least work of other programs on the {role} thread's CPUs",
                "time that one CPU spends on other programs, of the CPU with the least among those that a "
                f"{role} thread may use",
                ("cpu[].user_s", "cpu[].nice_s", "process_cpu_user_s", "thread_cpus"),
            ),
            EvidenceMetric(
                f"{endpoint}_cpus_percent",
                "% of all CPUs",
                f"CPUs that the {role} thread may use",
                f"share of its kernel's CPUs that a {role} thread may use, of the thread with the fewest "
                "CPUs",
                ("thread_cpus",),
            ),
        )
    ),
    EvidenceMetric(
        "threads_per_cpu",
        "1",
        "load threads per CPU",
        "number of load threads (with guests: vCPUs) per host CPU that they may use, for the CPU set with "
        "the most",
        ("thread_cpus", "vcpu_pin"),
    ),
)


def cpu_set_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of CPU_SET_EVIDENCE_METRICS."""
    part, kernels = data.steady_part, {kernel.endpoint_or_host: kernel for kernel in data.kernels}
    values: EvidenceValues = {"threads_per_cpu": _max_threads_per_allowed_cpu(part)}
    for (name, _), endpoints in zip(
        ENDPOINT_ROLES_WITH_ADJECTIVES, (part.senders, part.receivers), strict=True
    ):
        values |= _endpoint_cpu_set_values(name, endpoints, part, kernels)
    return values


def _endpoint_cpu_set_values(
    prefix: str, endpoints: SteadySamples, part: SteadyPart, kernels: Mapping[str, ObservedKernel]
) -> EvidenceValues:
    # One entry for each thread: its kernel, its CPUs, and the user time of its process.
    threads = [
        (
            kernel,
            [cpu for cpu in cpus if cpu in kernel.cpu_seconds_by_cpu_and_state],
            percent_of_sampled_time(samples, "process_cpu_user_s"),
        )
        for endpoint, samples in endpoints
        if (kernel := kernels.get(endpoint.name, kernels.get(HOST)))
        for cpus in _allowed_thread_cpu_sets(part, endpoint.name)
    ]
    return {
        f"{prefix}_cpus_softirq_percent": largest(
            smallest(kernel.time_percent(cpu, *INTERRUPT_TIME_COUNTERS) for cpu in cpus)
            for kernel, cpus, _ in threads
            if len(kernel.cpu_seconds_by_cpu_and_state) > 1
        ),
        f"{prefix}_cpus_other_work_percent": largest(
            smallest(
                max(0.0, kernel.time_percent(cpu, *_USER_TIME_COUNTERS) - (own_percent or 0.0))
                for cpu in cpus
            )
            for kernel, cpus, own_percent in threads
        ),
        f"{prefix}_cpus_percent": smallest(
            percent(len(cpus), len(kernel.cpu_seconds_by_cpu_and_state)) for kernel, cpus, _ in threads
        ),
    }


def _max_threads_per_allowed_cpu(part: SteadyPart) -> float | None:
    cpu_sets = list(_allowed_host_cpus_of_each_thread(part))
    return largest(
        ratio(sum(set(each) <= set(cpus) for each in cpu_sets), len(cpus)) for cpus in dict.fromkeys(cpu_sets)
    )


def _allowed_host_cpus_of_each_thread(part: SteadyPart) -> Iterator[tuple[int, ...]]:
    """Yield the host CPUs that each thread of the load, or each vCPU, may use."""
    for endpoint, samples in (*part.endpoints, *part.forwarding_guest_observers):
        vcpus = effective_knob_value(part.trial, "vcpu_pin", endpoint.name)
        if has_own_kernel(samples) and isinstance(vcpus, list):
            yield from (parse_cpu_list(str(cpus)) for cpus in vcpus)
    for endpoint, samples in part.endpoints:
        if has_own_kernel(samples):
            continue
        cpu_sets = _allowed_thread_cpu_sets(part, endpoint.name)
        threads = to_number(effective_knob_value(part.trial, "threads", endpoint.name)) or len(cpu_sets)
        yield from cpu_sets if len(cpu_sets) > 1 else cpu_sets * int(threads)


def _allowed_thread_cpu_sets(part: SteadyPart, endpoint: str) -> list[tuple[int, ...]]:
    """Return the CPUs that each of an endpoint's threads may use; a single entry if all are equal."""
    value = effective_knob_value(part.trial, "thread_cpus", endpoint)
    return [parse_cpu_list(str(cpus)) for cpus in (value if isinstance(value, list) else [value]) if cpus]
