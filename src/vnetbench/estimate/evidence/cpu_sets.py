"""Evidence of the CPUs that threads may use: what is in their way wherever they go, how crowded it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    knob_value,
    largest,
    percent,
    percent_of_time,
    ratio,
    smallest,
    to_number,
)
from vnetbench.estimate.evidence.kernels import INTERRUPTS, Kernel, has_own_kernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import HOST
from vnetbench.study.factors.cpu_lists import parse_cpu_list

_SIDES = (("sender", "sending"), ("receiver", "receiving"))
_PROGRAMS = ("user_s", "nice_s")
"""What the load hardly takes: its time is the kernel's."""

CPU_SET_METRICS = (
    *(
        figure
        for who, does in _SIDES
        for figure in (
            EvidenceMetric(
                f"{who}_cpus_shared_percent",
                "% of one CPU",
                f"packet processing on the {does} thread's CPU",
                f"time in interrupts of the CPU that has the least of it, of those that a {does} thread may "
                "use: it cannot run where there is less. Not told of a kernel with one CPU: there is no "
                "other",
                ("cpu[].softirq_s", "cpu[].irq_s", "thread_cpus"),
            ),
            EvidenceMetric(
                f"{who}_cpus_other_work_percent",
                "% of one CPU",
                f"other work on the {does} thread's CPU",
                "time that programs other than the endpoint's took, of the CPU that has the least of it, "
                "likewise",
                ("cpu[].user_s", "cpu[].nice_s", "process_cpu_user_s", "thread_cpus"),
            ),
            EvidenceMetric(
                f"{who}_cpus_percent",
                "% of all CPUs",
                f"CPUs for the {does} thread",
                f"share of its kernel's CPUs that a {does} thread may use, of the thread that has the fewest",
                ("thread_cpus",),
            ),
        )
    ),
    EvidenceMetric(
        "threads_per_cpu",
        "1",
        "threads on one CPU",
        "threads of the load (with guests: vCPUs) for each of the host's CPUs that they may use, where they "
        "are the most crowded",
        ("thread_cpus", "vcpu_pin"),
    ),
)


def cpu_set_evidence(case: TrialData) -> EvidenceValues:
    """The figures of PLACE_FIGURES."""
    kernels = {kernel.name: kernel for kernel in case.kernels}
    figures: EvidenceValues = {"threads_per_cpu": _threads_per_cpu(case.steady_part)}
    for (who, _), ends in zip(_SIDES, (case.steady_part.senders, case.steady_part.receivers), strict=True):
        figures |= _of_ends(who, ends, case.steady_part, kernels)
    return figures


def _of_ends(
    who: str, ends: SteadySamples, part: SteadyPart, kernels: Mapping[str, Kernel]
) -> EvidenceValues:
    places = [
        (
            kernel,
            [cpu for cpu in cpus if cpu in kernel.cpu_times],
            percent_of_time(samples, "process_cpu_user_s"),
        )
        for side, samples in ends
        if (kernel := kernels.get(side.name, kernels.get(HOST)))
        for cpus in _cpus_of_threads(part, side.name)
    ]
    return {
        f"{who}_cpus_shared_percent": largest(
            smallest(kernel.time_percent(cpu, *INTERRUPTS) for cpu in cpus)
            for kernel, cpus, _ in places
            if len(kernel.cpu_times) > 1
        ),
        f"{who}_cpus_other_work_percent": largest(
            smallest(max(0.0, kernel.time_percent(cpu, *_PROGRAMS) - (own or 0.0)) for cpu in cpus)
            for kernel, cpus, own in places
        ),
        f"{who}_cpus_percent": smallest(
            percent(len(cpus), len(kernel.cpu_times)) for kernel, cpus, _ in places
        ),
    }


def _threads_per_cpu(part: SteadyPart) -> float | None:
    places = list(_on_host(part))
    return largest(
        ratio(sum(set(one) <= set(cpus) for one in places), len(cpus)) for cpus in dict.fromkeys(places)
    )


def _on_host(part: SteadyPart) -> Iterator[tuple[int, ...]]:
    """The host's CPUs that each thread of the load, or vCPU, may use."""
    for side, samples in (*part.endpoints, *part.forwarders):
        vcpus = knob_value(part.trial, "vcpu_pin", side.name)
        if has_own_kernel(samples) and isinstance(vcpus, list):
            yield from (parse_cpu_list(str(cpus)) for cpus in vcpus)
    for side, samples in part.endpoints:
        if has_own_kernel(samples):
            continue
        places = _cpus_of_threads(part, side.name)
        threads = to_number(knob_value(part.trial, "threads", side.name)) or len(places)
        yield from places if len(places) > 1 else places * int(threads)


def _cpus_of_threads(part: SteadyPart, endpoint: str) -> list[tuple[int, ...]]:
    """The CPUs that each of an endpoint's threads may use; of threads that are placed alike one for all."""
    found = knob_value(part.trial, "thread_cpus", endpoint)
    return [parse_cpu_list(str(cpus)) for cpus in (found if isinstance(found, list) else [found]) if cpus]
