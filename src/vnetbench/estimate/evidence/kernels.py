"""The kernels that carry a load: the bench's own machine, guests, hosts; and what each of their CPUs did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.evidence.aggregation import largest
from vnetbench.estimate.guests import single_cpu_times, sum_by_name
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST, Sample

INTERRUPTS = ("softirq_s", "irq_s")
IDLE = ("idle_s", "iowait_s")


@dataclass(frozen=True)
class Kernel:
    """A kernel that carries the load, by its CPUs: the seconds that each spent, by kind."""

    name: str
    samples: Sequence[Sample]
    cpu_times: Mapping[int, Mapping[str, float]]

    def time_percent(self, cpu: int, *kinds: str) -> float:
        """Of a CPU's time, in percent."""
        of_cpu = self.cpu_times[cpu]
        return 100 * sum(of_cpu.get(kind, 0.0) for kind in kinds) / (sum(of_cpu.values()) or 1.0)

    def busy_percent(self, cpu: int) -> float:
        """Of a CPU's time, in percent; 0 of a CPU that tells of no time."""
        return self.time_percent(cpu, *(kind for kind in self.cpu_times[cpu] if kind not in IDLE))


def has_own_kernel(samples: Sequence[Sample]) -> bool:
    """Whether an endpoint tells of CPUs: where it shares the host's, that tells of them."""
    return any(x.cpu for x in samples)


def collect_kernels(part: SteadyPart) -> list[Kernel]:
    """The bench's own machine where it carries the load or its guests, and endpoints with own kernels."""
    own = [(s.name, x) for s, x in (*part.endpoints, *part.forwarders) if has_own_kernel(x)]
    if len(own) < len(part.endpoints) + len(part.forwarders) or any(x.observation for x in part.host_samples):
        own.append((HOST, part.host_samples))
    found = [Kernel(name, samples, times_by_cpu(samples)) for name, samples in own]
    return [kernel for kernel in found if kernel.cpu_times]


def max_softirq_percent(kernels: Iterable[Kernel]) -> float | None:
    """Time in interrupts of the CPU that has the most of it, of all of them, in percent."""
    return largest(kernel.time_percent(cpu, *INTERRUPTS) for kernel in kernels for cpu in kernel.cpu_times)


def times_by_cpu(samples: Sequence[Sample]) -> dict[int, dict[str, float]]:
    """CPU number to seconds by kind."""
    parts: dict[int, list[Mapping[str, float]]] = {}
    for sample in samples:
        for cpu in sample.cpu:
            parts.setdefault(int(cpu["cpu"]), []).append(single_cpu_times(cpu))
    return {number: sum_by_name(of_cpu) for number, of_cpu in parts.items()}
