"""Evidence of placement: on which CPUs the load's busiest threads ran, and where packets were processed.

Where nothing pins threads the scheduler puts them anew in each trial. So these figures rather tell trials of
one treatment apart than say what limits it.
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
from vnetbench.estimate.evidence.kernels import INTERRUPTS, has_own_kernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import Sample

_THREAD = "busiest_thread_cpu"
_SIDES = (("sender", "sending"), ("receiver", "receiving"))
_BOTH_WAYS = "; where streams go both ways of an end's busiest thread, whatever it does"
CPU_NUMBER = "CPU number"
"""The unit of figures that are names rather than sizes."""

PLACEMENT_METRICS = (
    EvidenceMetric(
        "ends_on_one_cpu_percent",
        "% of samples",
        "both threads on one CPU",
        "how often the busiest threads of both ends of a pair last ran on the same CPU: the sending and the "
        "receiving one, or where streams go both ways whichever of an end's did most; of endpoints that "
        "share a kernel",
        (_THREAD,),
    ),
    *(
        figure
        for who, does in _SIDES
        for figure in (
            EvidenceMetric(
                f"{who}_on_softirq_cpu_percent",
                "% of samples",
                f"packet processing on the CPU of the {does} thread",
                f"how often the CPU that spent the most in interrupts was the one that the busiest {does} "
                f"thread last ran on{_BOTH_WAYS}",
                (_THREAD, "cpu[].softirq_s", "cpu[].irq_s"),
            ),
            EvidenceMetric(
                f"{who}_moves_per_s",
                "1/s",
                f"{does} thread's moves",
                f"how often the busiest {does} thread was on another CPU at a sample's end than at the last"
                f"{_BOTH_WAYS}",
                (_THREAD,),
            ),
            EvidenceMetric(
                f"{who}_cpu",
                CPU_NUMBER,
                f"CPU of the {does} thread",
                f"the CPU that the busiest {does} thread last ran on, in most samples of the first pair"
                "; where streams go both ways of its first end's busiest thread, whatever it does",
                (_THREAD,),
            ),
        )
    ),
    EvidenceMetric(
        "softirq_cpu",
        CPU_NUMBER,
        "CPU of packet processing",
        "the CPU that spent the most in interrupts, in most samples; of the first receiver's kernel",
        ("cpu[].softirq_s", "cpu[].irq_s"),
    ),
)


def placement_evidence(case: TrialData) -> EvidenceValues:
    """The figures of PLACEMENT_FIGURES."""
    part = case.steady_part
    figures: EvidenceValues = {"ends_on_one_cpu_percent": mean(_on_one_cpu(case))}
    for (who, _), ends in zip(_SIDES, (part.senders, part.receivers), strict=True):
        sides = [samples for _, samples in ends]
        figures |= {
            f"{who}_on_softirq_cpu_percent": mean(_on_softirq_cpu(x, _kernel(x, part)) for x in sides),
            f"{who}_moves_per_s": largest(_moves(x) for x in sides),
            f"{who}_cpu": _usual(_thread_cpus(sides[0])) if sides else None,
        }
    first = part.receivers[0][1] if part.receivers else []
    return {**figures, "softirq_cpu": _usual([cpu for _, cpu in _softirq_cpus(_kernel(first, part))])}


def _kernel(samples: Sequence[Sample], part: SteadyPart) -> Sequence[Sample]:
    """The samples of the kernel that an endpoint runs on: its own, or the bench's machine."""
    return samples if has_own_kernel(samples) else part.host_samples


def _thread_cpus(samples: Sequence[Sample]) -> list[int]:
    return [int(x.counters[_THREAD]) for x in samples if _THREAD in x.counters]


def _on_one_cpu(case: TrialData) -> Iterator[float | None]:
    """Of each pair whose endpoints share a kernel."""
    for here, there in _ends_of_pairs(case):
        if not (has_own_kernel(here) or has_own_kernel(there)):
            both = list(zip(_thread_cpus(here), _thread_cpus(there), strict=False))
            yield percent(sum(one == other for one, other in both), len(both))


def _ends_of_pairs(case: TrialData) -> list[tuple[Sequence[Sample], Sequence[Sample]]]:
    """The samples of both ends of each pair, by what the file tells of the testbed.

    Where it tells of no pairs two ends are one, and of more each sender goes with the receiver at its place:
    ends that do both cannot be put together then.
    """
    part = case.steady_part
    by_pair: dict[frozenset[int], list[Sequence[Sample]]] = {}
    for (_, samples), port in zip(part.endpoints, case.ports, strict=False):
        by_pair.setdefault(port.pairs, []).append(samples)
    if len(part.endpoints) == 2 or frozenset() not in by_pair:
        return [(ends[0], ends[1]) for ends in by_pair.values() if len(ends) == 2]
    of_order = zip(part.senders, part.receivers, strict=False)
    return [(sending, receiving) for (_, sending), (_, receiving) in of_order if sending is not receiving]


def _on_softirq_cpu(samples: Sequence[Sample], kernel: Sequence[Sample]) -> float | None:
    """Samples of endpoint and kernel begin a moment apart: each goes with the nearest."""
    busiest = _softirq_cpus(kernel)
    told = [(x.t_s, x.counters[_THREAD]) for x in samples if _THREAD in x.counters]
    if not busiest:
        return None
    same = [min(busiest, key=lambda at: abs(at[0] - t_s))[1] == cpu for t_s, cpu in told]
    return percent(sum(same), len(same))


def _softirq_cpus(kernel: Sequence[Sample]) -> list[tuple[float, int]]:
    """When, and which CPU spent the most in interrupts; without samples in which none did."""
    found = []
    for sample in kernel:
        spent = {int(cpu["cpu"]): _interrupts(cpu) for cpu in sample.cpu}
        if spent and max(spent.values()) > 0:
            found.append((sample.t_s, max(spent, key=lambda cpu: spent[cpu])))
    return found


def _interrupts(cpu: Mapping[str, float]) -> float:
    return sum(cpu.get(kind, 0.0) for kind in INTERRUPTS)


def _moves(samples: Sequence[Sample]) -> float | None:
    cpus = _thread_cpus(samples)
    moved = sum(one != other for one, other in pairwise(cpus))
    return ratio(moved, total_duration_s(samples)) if cpus else None


def _usual(cpus: Sequence[int]) -> float | None:
    return Counter(cpus).most_common(1)[0][0] if cpus else None
