"""Use of CPUs: which part of the time of a set of CPUs each kind of work takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.evidence.aggregation import (
    effective_knob_value,
    to_number,
    total_duration_s,
    total_of_counter,
    total_of_known_counters,
)
from vnetbench.estimate.evidence.kernels import INTERRUPT_TIME_COUNTERS, ObservedKernel
from vnetbench.estimate.evidence.other_programs import (
    is_kernel_thread,
    list_processes,
    programs_interval_s,
)
from vnetbench.estimate.evidence.other_work import other_work_cpus
from vnetbench.estimate.guests import split_owner_and_thread_kind
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST, EndpointRecord
from vnetbench.study.factors.cpu_lists import parse_cpu_list

_BUSY_TIME_COUNTERS = ("user_s", "nice_s", "system_s", "irq_s", "softirq_s")


@dataclass(frozen=True)
class CpuTimeShares:
    """What a set of CPUs of one kernel is used for. All values are shares of the set's time, 0 to 1.

    The shares add up to 1. CPU times of the kernel count ticks, so that each share can be wrong by about
    one tick (1 to 10 ms) for each CPU.
    """

    cpus: tuple[int, ...]
    load: float
    """Threads of the load, virtual CPUs and the threads that emulate their devices."""
    instrument: float
    """The bench and other threads of its agents."""
    programs: float
    """Other programs."""
    packets: float
    """Packet processing and interrupts outside of the load's threads, and what no program accounts for."""
    hypervisor: float
    """Time that a hypervisor took away (steal)."""
    idle: float

    @property
    def occupied_share(self) -> float:
        """Share of the time in which the CPUs were not idle."""
        return 1 - self.idle

    def cpu_time_share_of(self, reason: str) -> float:
        """Return the share of the CPUs' time that work of this kind takes (`WAIT_REASONS`)."""
        return float(getattr(self, reason))


def allowed_cpus(part: SteadyPart, endpoint: EndpointRecord, kernel: ObservedKernel) -> tuple[int, ...]:
    """Return the CPUs of the kernel that one of the endpoint's load threads may use."""
    value = effective_knob_value(part.trial, "thread_cpus", endpoint.name)
    texts = value if isinstance(value, list) else [value]
    allowed = {cpu for text in texts if text for cpu in parse_cpu_list(str(text))}
    known = set(kernel.cpu_seconds_by_cpu_and_state)
    return tuple(sorted(allowed & known or known))


def measure_cpu_use(part: SteadyPart, kernel: ObservedKernel, cpus: Sequence[int]) -> CpuTimeShares | None:
    """Return the use of some CPUs of a kernel; None without CPU times.

    Args:
        part: The steady part of the trial.
        kernel: The kernel with the times of its CPUs.
        cpus: The CPUs of the set.
    """
    capacity_s = total_duration_s(kernel.samples) * len(cpus)
    if capacity_s <= 0:
        return None
    times = [kernel.cpu_seconds_by_cpu_and_state[cpu] for cpu in cpus]
    busy = sum(each.get(kind, 0.0) for each in times for kind in _BUSY_TIME_COUNTERS) / capacity_s
    hypervisor = min(1.0, sum(each.get("steal_s", 0.0) for each in times) / capacity_s)
    load = _load_cpu_s(part, kernel, cpus) / capacity_s
    instrument = _instrument_cpu_s(part, kernel, cpus) / capacity_s
    # Threads' times are exact, those of CPUs count ticks: threads decide where both differ.
    occupied = min(1 - hypervisor, max(busy, load + instrument))
    load = min(load, occupied)
    instrument = min(instrument, occupied - load)
    rest = occupied - load - instrument
    programs = min(rest, _other_programs_cpu_s(part, kernel, cpus, rest * capacity_s) / capacity_s)
    return CpuTimeShares(
        cpus=tuple(cpus),
        load=load,
        instrument=instrument,
        programs=programs,
        packets=rest - programs,
        hypervisor=hypervisor,
        idle=max(0.0, 1 - hypervisor - occupied),
    )


def _load_cpu_s(part: SteadyPart, kernel: ObservedKernel, cpus: Sequence[int]) -> float:
    """Return the CPU time of the load's threads on these CPUs, and on a host that of its guests."""
    total_s = 0.0
    for endpoint, samples in part.endpoints:
        if kernel.runs_endpoint(endpoint, samples):
            share = _share_of_allowed_cpus_in_set(allowed_cpus(part, endpoint, kernel), cpus)
            total_s += share * (total_of_counter(samples, "threads_cpu_s") or 0.0)
    if kernel.endpoint_or_host == HOST:
        for x in part.host_samples:
            for thread, time_s in x.observation.thread_cpu_s.items() if x.observation else ():
                guest, kind = split_owner_and_thread_kind(thread)
                pinned = (
                    vcpu_host_cpus(part, guest, kernel)
                    if kind == "vcpu"
                    else kernel.cpu_seconds_by_cpu_and_state
                )
                total_s += _share_of_allowed_cpus_in_set(pinned, cpus) * time_s
    return total_s


def vcpu_host_cpus(part: SteadyPart, guest: str, host: ObservedKernel) -> tuple[int, ...]:
    """Return the host's CPUs that a guest's vCPUs may use."""
    pinned = effective_knob_value(part.trial, "vcpu_pin", guest)
    texts = pinned if isinstance(pinned, list) else [pinned]
    allowed = {cpu for text in texts if isinstance(text, str) and text for cpu in parse_cpu_list(text)}
    return tuple(
        sorted(allowed & set(host.cpu_seconds_by_cpu_and_state) or set(host.cpu_seconds_by_cpu_and_state))
    )


def largest_programs_share(part: SteadyPart, kernel: ObservedKernel, cpus: Sequence[int]) -> float:
    """Return the share of time that other programs take on the one CPU where they take most, 0 to 1."""
    uses = (measure_cpu_use(part, kernel, (cpu,)) for cpu in cpus)
    return max((use.programs for use in uses if use is not None), default=0.0)


def _instrument_cpu_s(part: SteadyPart, kernel: ObservedKernel, cpus: Sequence[int]) -> float:
    """Return the CPU time of the agents besides the load's threads, and of the bench, on these CPUs."""
    total_s = 0.0
    for endpoint, samples in part.endpoints:
        process_s = total_of_known_counters(samples, "process_cpu_user_s", "process_cpu_system_s")
        threads_s = total_of_counter(samples, "threads_cpu_s")
        if kernel.runs_endpoint(endpoint, samples) and process_s is not None and threads_s is not None:
            share = _share_of_allowed_cpus_in_set(allowed_cpus(part, endpoint, kernel), cpus)
            total_s += share * max(0.0, process_s - threads_s)
    if kernel.endpoint_or_host == HOST:
        observer_s = total_of_known_counters(part.host_samples, "process_cpu_user_s", "process_cpu_system_s")
        totals = next((each.totals for each in part.trial.endpoints if each.name == HOST), {})
        trial_s = part.trial.idle_s + part.trial.duration_s
        bench_s = (
            (to_number(totals.get("bench_cpu_s")) or 0.0) * part.duration_s / trial_s if trial_s else 0.0
        )
        total_s += len(cpus) / len(kernel.cpu_seconds_by_cpu_and_state) * ((observer_s or 0.0) + bench_s)
    return total_s


def _other_programs_cpu_s(
    part: SteadyPart, kernel: ObservedKernel, cpus: Sequence[int], unattributed_cpu_s: float
) -> float:
    """Return the CPU time of other programs on these CPUs.

    The list of processes is exact, but misses programs that ended within the trial, such as the commands of a
    script. The kernel processes packets in interrupts and in its own threads. So what the load, the
    instrument, interrupts and threads of the kernel did not use is a lower bound of the programs' time.
    Interrupts within the load's threads make it smaller. The kernel counts interrupts in ticks, so that the
    bound may contain some of them. So it is at most the time of foreign processes in user mode and in system
    calls, less that of listed programs that may not use these CPUs. An older file has no list, and only the
    first bound.
    """
    endpoint = next((each for each in part.trial.endpoints if each.name == kernel.endpoint_or_host), None)
    processes = None if endpoint is None else list_processes(endpoint, has_shared_kernel=kernel.is_shared)
    scale = 0.0
    if endpoint is not None and processes is not None and part.trial.duration_s > 0:
        scale = part.duration_s / programs_interval_s(part.trial, endpoint)
    listed_s, kernel_threads_s = (
        scale
        * sum(_process_cpu_s(each, cpus) for each in processes or () if is_kernel_thread(each) == wanted)
        for wanted in (False, True)
    )
    interrupts_s = sum(
        kernel.cpu_seconds_by_cpu_and_state[cpu].get(kind, 0.0)
        for cpu in cpus
        for kind in INTERRUPT_TIME_COUNTERS
    )
    unlisted_s = max(0.0, unattributed_cpu_s - interrupts_s - kernel_threads_s)
    if processes is None:
        return unlisted_s
    elsewhere_s = scale * sum(
        to_number(each.get("cpu_s")) or 0.0 for each in processes if not _process_share(each, cpus)
    )
    other_s = (other_work_cpus(kernel, part) or 0.0) * total_duration_s(kernel.samples)
    return max(listed_s, min(unlisted_s, max(0.0, other_s - elsewhere_s)))


def _process_cpu_s(process: Mapping[str, Any], cpus: Sequence[int]) -> float:
    return _process_share(process, cpus) * (to_number(process.get("cpu_s")) or 0.0)


def _process_share(process: Mapping[str, Any], cpus: Sequence[int]) -> float:
    """Return the share of a process's allowed CPUs that belong to a set; 1 if they are unknown."""
    allowed = process.get("cpus")
    if not isinstance(allowed, str) or not allowed:
        return 1.0
    return _share_of_allowed_cpus_in_set(parse_cpu_list(allowed), cpus)


def _share_of_allowed_cpus_in_set(allowed: Iterable[int], cpu_set: Sequence[int]) -> float:
    """Return the share of a thread's allowed CPUs that belong to a set: 1 if all do."""
    allowed = set(allowed)
    return len(allowed & set(cpu_set)) / len(allowed) if allowed else 0.0
