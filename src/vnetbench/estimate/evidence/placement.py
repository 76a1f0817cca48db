"""Evidence of placement: the CPUs of the load's busiest threads and of packet processing.

Unpinned threads are placed by the scheduler anew in each trial. So these metrics distinguish trials of one
treatment rather than explain its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    largest,
    mean,
    percent,
    ratio,
    total_duration_s,
)
from vnetbench.estimate.evidence.kernels import INTERRUPT_TIME_COUNTERS, has_own_kernel
from vnetbench.estimate.evidence.metric import ENDPOINT_ROLES_WITH_ADJECTIVES, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import Sample

_BUSIEST_THREAD_CPU_NUMBER_COUNTER = "busiest_thread_cpu"
_BIDIRECTIONAL_NOTE = "With bidirectional streams, the thread is the endpoint's busiest one"
CPU_NUMBER_UNIT = "CPU number"
"""The unit of metrics that identify a CPU instead of measuring a quantity."""

PLACEMENT_EVIDENCE_METRICS = (
    EvidenceMetric(
        "threads_on_one_cpu_percent",
        "% of samples",
        "sending and receiving thread on one CPU",
        "share of the samples in which the busiest sending and the busiest receiving thread of a pair last "
        "ran on the same CPU. With bidirectional streams, these are the busiest threads of the two "
        "endpoints. Only for endpoints that share a kernel",
        (_BUSIEST_THREAD_CPU_NUMBER_COUNTER,),
    ),
    *(
        metric
        for endpoint, role in ENDPOINT_ROLES_WITH_ADJECTIVES
        for metric in (
            EvidenceMetric(
                f"{endpoint}_on_softirq_cpu_percent",
                "% of samples",
                f"packet processing on the CPU of the {role} thread",
                f"share of the samples in which the busiest {role} thread last ran on the CPU with the most "
                f"interrupt time. {_BIDIRECTIONAL_NOTE}",
                (_BUSIEST_THREAD_CPU_NUMBER_COUNTER, "cpu[].softirq_s", "cpu[].irq_s"),
            ),
            EvidenceMetric(
                f"{endpoint}_migrations_per_s",
                "1/s",
                f"{role} thread's CPU migrations",
                f"changes of the busiest {role} thread's CPU per second, counted between the ends of "
                f"successive samples. {_BIDIRECTIONAL_NOTE}",
                (_BUSIEST_THREAD_CPU_NUMBER_COUNTER,),
            ),
            EvidenceMetric(
                f"{endpoint}_cpu",
                CPU_NUMBER_UNIT,
                f"CPU of the {role} thread",
                f"CPU on which the first pair's busiest {role} thread last ran in most samples. "
                f"{_BIDIRECTIONAL_NOTE}",
                (_BUSIEST_THREAD_CPU_NUMBER_COUNTER,),
            ),
        )
    ),
    EvidenceMetric(
        "softirq_cpu",
        CPU_NUMBER_UNIT,
        "CPU with the most packet processing",
        "CPU of the first receiver's kernel that has the most interrupt time in most samples",
        ("cpu[].softirq_s", "cpu[].irq_s"),
    ),
)


def placement_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of PLACEMENT_EVIDENCE_METRICS."""
    part = data.steady_part
    values: EvidenceValues = {"threads_on_one_cpu_percent": mean(_same_cpu_percents_of_pairs(data))}
    for (name, _), endpoints in zip(
        ENDPOINT_ROLES_WITH_ADJECTIVES, (part.senders, part.receivers), strict=True
    ):
        by_endpoint = [samples for _, samples in endpoints]
        values |= {
            f"{name}_on_softirq_cpu_percent": mean(
                _thread_on_softirq_cpu_percent(samples, _kernel_samples(samples, part))
                for samples in by_endpoint
            ),
            f"{name}_migrations_per_s": largest(map(_migrations_per_s, by_endpoint)),
            f"{name}_cpu": _most_frequent_cpu(_busiest_thread_cpu_numbers(by_endpoint[0]))
            if by_endpoint
            else None,
        }
    first_receiver = part.receivers[0][1] if part.receivers else []
    softirq_cpus = [
        cpu for _, cpu in _sample_times_and_busiest_interrupt_cpus(_kernel_samples(first_receiver, part))
    ]
    return {**values, "softirq_cpu": _most_frequent_cpu(softirq_cpus)}


def _kernel_samples(samples: Sequence[Sample], part: SteadyPart) -> Sequence[Sample]:
    """Return the samples of an endpoint's kernel: its own, or that of the bench's machine."""
    return samples if has_own_kernel(samples) else part.host_samples


def _busiest_thread_cpu_numbers(samples: Sequence[Sample]) -> list[int]:
    return [
        int(x.counters[_BUSIEST_THREAD_CPU_NUMBER_COUNTER])
        for x in samples
        if _BUSIEST_THREAD_CPU_NUMBER_COUNTER in x.counters
    ]


def _same_cpu_percents_of_pairs(data: TrialData) -> Iterator[float | None]:
    """Yield the share of samples on the same CPU for each pair whose endpoints share a kernel."""
    for first, second in _samples_by_pair(data):
        if not (has_own_kernel(first) or has_own_kernel(second)):
            cpus = list(
                zip(_busiest_thread_cpu_numbers(first), _busiest_thread_cpu_numbers(second), strict=False)
            )
            yield percent(sum(one == other for one, other in cpus), len(cpus))


def _samples_by_pair(data: TrialData) -> list[tuple[Sequence[Sample], Sequence[Sample]]]:
    """Return the samples of both endpoints of each pair in the testbed's description.

    Without pairs in the description, two endpoints form a pair. Of more endpoints, senders and receivers are
    matched by their order, which is impossible for bidirectional endpoints.
    """
    part = data.steady_part
    by_pair: dict[frozenset[int], list[Sequence[Sample]]] = {}
    for (_, samples), port in zip(part.endpoints, data.ports, strict=False):
        by_pair.setdefault(port.pairs, []).append(samples)
    if len(part.endpoints) == 2 or frozenset() not in by_pair:
        return [(pair[0], pair[1]) for pair in by_pair.values() if len(pair) == 2]
    by_order = zip(part.senders, part.receivers, strict=False)
    return [(sender, receiver) for (_, sender), (_, receiver) in by_order if sender is not receiver]


def _thread_on_softirq_cpu_percent(samples: Sequence[Sample], kernel: Sequence[Sample]) -> float | None:
    """Return how often a thread ran on the softirq CPU of the kernel sample nearest in time."""
    softirq_cpus = _sample_times_and_busiest_interrupt_cpus(kernel)
    if not softirq_cpus:
        return None
    thread_cpus = [
        (x.end_s, x.counters[_BUSIEST_THREAD_CPU_NUMBER_COUNTER])
        for x in samples
        if _BUSIEST_THREAD_CPU_NUMBER_COUNTER in x.counters
    ]
    is_same = [min(softirq_cpus, key=lambda each: abs(each[0] - t_s))[1] == cpu for t_s, cpu in thread_cpus]
    return percent(sum(is_same), len(is_same))


def _sample_times_and_busiest_interrupt_cpus(kernel: Sequence[Sample]) -> list[tuple[float, int]]:
    """Return time and number of the CPU with the most interrupt time, for each sample that has any."""
    cpus = []
    for sample in kernel:
        interrupt_s = {int(cpu["cpu"]): _interrupt_cpu_time_s(cpu) for cpu in sample.cpu}
        if interrupt_s and max(interrupt_s.values()) > 0:
            cpus.append((sample.end_s, max(interrupt_s, key=lambda cpu: interrupt_s[cpu])))
    return cpus


def _interrupt_cpu_time_s(cpu: Mapping[str, float]) -> float:
    return sum(cpu.get(kind, 0.0) for kind in INTERRUPT_TIME_COUNTERS)


def _migrations_per_s(samples: Sequence[Sample]) -> float | None:
    cpus = _busiest_thread_cpu_numbers(samples)
    migrations = sum(one != other for one, other in pairwise(cpus))
    return ratio(migrations, total_duration_s(samples)) if cpus else None


def _most_frequent_cpu(cpus: Sequence[int]) -> float | None:
    return Counter(cpus).most_common(1)[0][0] if cpus else None
