"""Evidence of the CPUs that threads may use: what is in their way wherever they go, how crowded it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.time_series import Steady
from vnetbench.estimate.evidence.trial_data import Case
from vnetbench.estimate.evidence.aggregation import (
    Figures,
    least,
    most,
    number,
    over,
    percent,
    percent_of_time,
    read_back,
)
from vnetbench.estimate.evidence.metric import Figure
from vnetbench.estimate.evidence.kernels import INTERRUPTS, Kernel, has_own_kernel
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST
from vnetbench.study.factors.cpu_lists import cpu_list

_SIDES = (("sender", "sending"), ("receiver", "receiving"))
_PROGRAMS = ("user_s", "nice_s")
"""What the load hardly takes: its time is the kernel's."""

PLACE_FIGURES = (
    *(
        figure
        for who, does in _SIDES
        for figure in (
            Figure(
                f"{who}_cpus_shared_percent",
                "% of one CPU",
                f"packet processing on the {does} thread's CPU",
                f"time in interrupts of the CPU that has the least of it, of those that a {does} thread may "
                "use: it cannot run where there is less. Not told of a kernel with one CPU: there is no "
                "other",
                ("cpu[].softirq_s", "cpu[].irq_s", "thread_cpus"),
            ),
            Figure(
                f"{who}_cpus_other_work_percent",
                "% of one CPU",
                f"other work on the {does} thread's CPU",
                "time that programs other than the endpoint's took, of the CPU that has the least of it, "
                "likewise",
                ("cpu[].user_s", "cpu[].nice_s", "process_cpu_user_s", "thread_cpus"),
            ),
            Figure(
                f"{who}_cpus_percent",
                "% of all CPUs",
                f"CPUs for the {does} thread",
                f"share of its kernel's CPUs that a {does} thread may use, of the thread that has the fewest",
                ("thread_cpus",),
            ),
        )
    ),
    Figure(
        "threads_per_cpu",
        "1",
        "threads on one CPU",
        "threads of the load (with guests: vCPUs) for each of the host's CPUs that they may use, where they "
        "are the most crowded",
        ("thread_cpus", "vcpu_pin"),
    ),
)


def place_evidence(case: Case) -> Figures:
    """The figures of PLACE_FIGURES."""
    kernels = {kernel.name: kernel for kernel in case.kernels}
    figures: Figures = {"threads_per_cpu": _threads_per_cpu(case.part)}
    for (who, _), ends in zip(_SIDES, (case.part.senders, case.part.receivers), strict=True):
        figures |= _of_ends(who, ends, case.part, kernels)
    return figures


def _of_ends(who: str, ends: Steady, part: SteadyPart, kernels: Mapping[str, Kernel]) -> Figures:
    places = [
        (kernel, [cpu for cpu in cpus if cpu in kernel.times], percent_of_time(samples, "process_cpu_user_s"))
        for side, samples in ends
        if (kernel := kernels.get(side.endpoint, kernels.get(HOST)))
        for cpus in _cpus_of_threads(part, side.endpoint)
    ]
    return {
        f"{who}_cpus_shared_percent": most(
            least(kernel.share(cpu, *INTERRUPTS) for cpu in cpus)
            for kernel, cpus, _ in places
            if len(kernel.times) > 1
        ),
        f"{who}_cpus_other_work_percent": most(
            least(max(0.0, kernel.share(cpu, *_PROGRAMS) - (own or 0.0)) for cpu in cpus)
            for kernel, cpus, own in places
        ),
        f"{who}_cpus_percent": least(percent(len(cpus), len(kernel.times)) for kernel, cpus, _ in places),
    }


def _threads_per_cpu(part: SteadyPart) -> float | None:
    places = list(_on_host(part))
    return most(
        over(sum(set(one) <= set(cpus) for one in places), len(cpus)) for cpus in dict.fromkeys(places)
    )


def _on_host(part: SteadyPart) -> Iterator[tuple[int, ...]]:
    """The host's CPUs that each thread of the load, or vCPU, may use."""
    for side, samples in (*part.sides, *part.between):
        vcpus = read_back(part.trial, "vcpu_pin", side.endpoint)
        if has_own_kernel(samples) and isinstance(vcpus, list):
            yield from (cpu_list(str(cpus)) for cpus in vcpus)
    for side, samples in part.sides:
        if has_own_kernel(samples):
            continue
        places = _cpus_of_threads(part, side.endpoint)
        threads = number(read_back(part.trial, "threads", side.endpoint)) or len(places)
        yield from places if len(places) > 1 else places * int(threads)


def _cpus_of_threads(part: SteadyPart, endpoint: str) -> list[tuple[int, ...]]:
    """The CPUs that each of an endpoint's threads may use; of threads that are placed alike one for all."""
    found = read_back(part.trial, "thread_cpus", endpoint)
    return [cpu_list(str(cpus)) for cpus in (found if isinstance(found, list) else [found]) if cpus]
