"""The kernels that carry a load, of the bench's machine, guests and hosts, with the work of each CPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.evidence.aggregation import largest
from vnetbench.estimate.guests import cpu_seconds_by_state, sum_values_by_name
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST, EndpointRecord, Sample

INTERRUPT_TIME_COUNTERS = ("softirq_s", "irq_s")
IDLE_TIME_COUNTERS = ("idle_s", "iowait_s")


@dataclass(frozen=True)
class ObservedKernel:
    """A kernel that carries the load."""

    endpoint_or_host: str
    """Where its CPUs were read."""
    samples: Sequence[Sample]
    cpu_seconds_by_cpu_and_state: Mapping[int, Mapping[str, float]]
    """CPU number to seconds by kind of work."""
    endpoints: frozenset[str] = frozenset()
    """The endpoints on this kernel that report its CPUs: several if they are containers of one machine."""

    @property
    def is_shared(self) -> bool:
        """Whether several endpoints with agents of their own run on this kernel."""
        return len(self.endpoints) > 1

    def runs_endpoint(self, endpoint: EndpointRecord, samples: Sequence[Sample]) -> bool:
        """Return whether an endpoint with these samples runs on this kernel."""
        return endpoint.name in self.endpoints or (
            self.endpoint_or_host == HOST and not has_own_kernel(samples)
        )

    def time_percent(self, cpu: int, *kinds: str) -> float:
        """Return the share of a CPU's time spent on these kinds of work, in percent."""
        times = self.cpu_seconds_by_cpu_and_state[cpu]
        return 100 * sum(times.get(kind, 0.0) for kind in kinds) / (sum(times.values()) or 1.0)

    def busy_percent(self, cpu: int) -> float:
        """Return the share of a CPU's time that was not idle, in percent; 0 for a CPU without times."""
        return self.time_percent(
            cpu, *(kind for kind in self.cpu_seconds_by_cpu_and_state[cpu] if kind not in IDLE_TIME_COUNTERS)
        )


def has_own_kernel(samples: Sequence[Sample]) -> bool:
    """Return whether an endpoint reports CPUs of its own instead of sharing the host's."""
    return any(x.cpu for x in samples)


def collect_kernels(
    part: SteadyPart, kernel_id_by_endpoint: Mapping[str, str] | None = None
) -> list[ObservedKernel]:
    """Return the kernel of each endpoint with its own, and the host's if it carries the load or its guests.

    Args:
        part: The steady part of the trial.
        kernel_id_by_endpoint: Identity of each endpoint's kernel. Endpoints with the same one share it.
    """
    endpoints = (*part.endpoints, *part.forwarding_guest_observers)
    by_name = [(endpoint.name, samples) for endpoint, samples in endpoints if has_own_kernel(samples)]
    if len(by_name) < len(endpoints) or any(x.observation for x in part.host_samples):
        by_name.append((HOST, part.host_samples))
    ids = {name: (kernel_id_by_endpoint or {}).get(name, name) for name, _ in by_name}
    kernels = [
        ObservedKernel(
            name,
            samples,
            _sum_cpu_seconds_by_cpu_and_state(samples),
            frozenset(each for each in ids if ids[each] == ids[name] and each != HOST),
        )
        for name, samples in by_name
    ]
    return [kernel for kernel in kernels if kernel.cpu_seconds_by_cpu_and_state]


def max_softirq_percent(kernels: Iterable[ObservedKernel]) -> float | None:
    """Return the interrupt time of the CPU that has the most of it, over all kernels, in percent."""
    return largest(
        kernel.time_percent(cpu, *INTERRUPT_TIME_COUNTERS)
        for kernel in kernels
        for cpu in kernel.cpu_seconds_by_cpu_and_state
    )


def _sum_cpu_seconds_by_cpu_and_state(samples: Sequence[Sample]) -> dict[int, dict[str, float]]:
    parts: dict[int, list[Mapping[str, float]]] = {}
    for sample in samples:
        for cpu in sample.cpu:
            parts.setdefault(int(cpu["cpu"]), []).append(cpu_seconds_by_state(cpu))
    return {number: sum_values_by_name(times) for number, times in parts.items()}
