"""The time of an endpoint's load threads: running, waiting for a CPU by reason, and sleeping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.evidence.aggregation import (
    percent_of_sampled_time,
    total_duration_s,
    total_of_counter,
)
from vnetbench.estimate.evidence.kernels import ObservedKernel
from vnetbench.estimate.evidence.time_accounting.cpu_use import (
    CpuTimeShares,
    allowed_cpus,
    largest_programs_share,
    measure_cpu_use,
    vcpu_host_cpus,
)
from vnetbench.estimate.evidence.time_accounting.stops import process_stopped_share
from vnetbench.estimate.evidence.time_accounting.time_uses import STOPPED, WAIT_REASONS
from vnetbench.estimate.guests import split_owner_and_thread_kind
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import HOST, EndpointRecord, Sample


@dataclass(frozen=True)
class ThreadTime:
    """How the load's threads of one role spend their time, mean of the threads. Shares, 0 to 1."""

    running_share: float
    waiting_share_by_reason: Mapping[str, float]
    """Reason (`WAIT_REASONS`) to the share of the time in which a thread has work and does not run."""
    thread_count: float

    @property
    def active_share(self) -> float:
        """Share of the time in which a thread has work: it runs, waits for a CPU or is stopped."""
        return min(1.0, self.running_share + sum(self.waiting_share_by_reason.values()))

    @property
    def sleeping_share(self) -> float:
        """Share of the time in which a thread has nothing to do or its call blocks."""
        return 1 - self.active_share


TIME_OF_UNSEEN_THREADS = ThreadTime(0.0, dict.fromkeys(WAIT_REASONS, 0.0), 0.0)
"""Threads whose time is unknown: they count as sleeping."""


def mean_thread_time(
    part: SteadyPart, endpoints: SteadySamples, kernels: Mapping[str, ObservedKernel]
) -> ThreadTime | None:
    """Return the mean over the load threads of these endpoints; None without the threads' times."""
    times = []
    for endpoint, samples in endpoints:
        kernel = kernels.get(endpoint.name, kernels.get(HOST))
        time = _endpoint_thread_time(part, endpoint, samples, kernel) if kernel is not None else None
        if time is not None:
            times.append(_move_vcpu_waiting_from_running(part, endpoint.name, time, kernels.get(HOST)))
    count = sum(each.thread_count for each in times)
    if not count:
        return None
    return ThreadTime(
        sum(each.running_share * each.thread_count for each in times) / count,
        {
            reason: sum(each.waiting_share_by_reason[reason] * each.thread_count for each in times) / count
            for reason in WAIT_REASONS
        },
        count,
    )


def _move_vcpu_waiting_from_running(
    part: SteadyPart, guest: str, time: ThreadTime, host: ObservedKernel | None
) -> ThreadTime:
    """Move the time in which a guest's vCPUs wait for a CPU of the host from running to waiting.

    A guest counts this time as running, because it does not see the host.
    """
    ran_s, waited_s = _vcpu_ran_and_waited_s(part, guest)
    if host is None or not waited_s:
        return time
    cpus = vcpu_host_cpus(part, guest, host)
    use = measure_cpu_use(part, host, cpus)
    if use is None:
        return time
    share = waited_s / (ran_s + waited_s)
    own_share = ran_s / total_duration_s(host.samples) / len(cpus)
    by_reason = _split_waiting_by_reason(share, use, own_share, largest_programs_share(part, host, cpus))
    waiting = {
        reason: time.waiting_share_by_reason[reason] + time.running_share * by_reason[reason]
        for reason in WAIT_REASONS
    }
    return ThreadTime(time.running_share * (1 - share), waiting, time.thread_count)


def _vcpu_ran_and_waited_s(part: SteadyPart, guest: str) -> tuple[float, float]:
    """Return the seconds in which a guest's vCPUs ran and waited for a CPU of the host; 0 if unknown."""
    observations = [x.observation for x in part.host_samples if x.observation]
    ran_s, waited_s = (
        sum(
            time_s
            for times in by_observation
            for thread, time_s in times.items()
            if split_owner_and_thread_kind(thread) == (guest, "vcpu")
        )
        for by_observation in (
            [x.thread_cpu_s for x in observations],
            [x.thread_wait_s for x in observations],
        )
    )
    return ran_s, waited_s


def _endpoint_thread_time(
    part: SteadyPart, endpoint: EndpointRecord, samples: Sequence[Sample], kernel: ObservedKernel
) -> ThreadTime | None:
    duration_s = total_duration_s(samples)
    ran_s, waited_s = (total_of_counter(samples, f"threads_{state}_s") for state in ("cpu", "waited"))
    count = max((x.counters.get("load_threads", 0.0) for x in samples), default=0.0)
    if ran_s is None or duration_s <= 0 or count < 1:
        return None
    cpus = allowed_cpus(part, endpoint, kernel)
    use = measure_cpu_use(part, kernel, cpus)
    if use is None:
        return None
    running = min(1.0, ran_s / duration_s / count)
    waiting = min(1 - running, (waited_s or 0.0) / duration_s / count)
    throttled_s = total_of_counter(samples, "cgroup_throttled_s") or 0.0
    quota = min(waiting, throttled_s / duration_s / min(count, len(cpus)))
    most_programs = largest_programs_share(part, kernel, cpus)
    by_reason = _split_waiting_by_reason(waiting - quota, use, running / len(cpus), most_programs)
    by_reason["quota"] += quota
    # A thread's own time contains what the hypervisor took from its CPU.
    taken = running * use.hypervisor / (use.occupied_share or 1.0) if use.hypervisor else 0.0
    by_reason["hypervisor"] += taken
    stopped = process_stopped_share(endpoint, samples, kernel, waiting, use.idle)
    # No thread is runnable while the process is stopped. Interrupts alone delay the sampler otherwise.
    runnable_percent = percent_of_sampled_time(samples, "busiest_thread_cpu_s", "busiest_thread_waited_s")
    by_reason[STOPPED] = min(1 - running - waiting, 1 - (runnable_percent or 0.0) / 100, stopped)
    return ThreadTime(running - taken, by_reason, count)


def _split_waiting_by_reason(
    waiting_share: float, use: CpuTimeShares, own_thread_cpu_share: float, max_programs_share: float
) -> dict[str, float]:
    """Divide the time that threads wait for a CPU by what uses their CPUs meanwhile.

    A thread can wait only while other work occupies its CPUs. Waiting beyond that time comes from a quota
    that this machine does not show, such as that of the VM.

    Args:
        waiting_share: Share of the time in which a thread waits.
        use: Use of the CPUs that it may use.
        own_thread_cpu_share: The part of these CPUs' time that one thread itself uses.
        max_programs_share: Share of time that other programs take on the CPU where they take most.
    """
    others = {
        reason: use.cpu_time_share_of(reason) for reason in ("load", "programs", "packets", "hypervisor")
    }
    others["load"] = max(0.0, others["load"] + use.instrument - own_thread_cpu_share)
    total = sum(others.values())
    # A program may stay on one of the CPUs, and the thread on the same one. Other work moves.
    explained = min(waiting_share, total - others["programs"] + max(others["programs"], max_programs_share))
    split = {reason: explained * share / total if total else 0.0 for reason, share in others.items()}
    return {reason: split.get(reason, 0.0) for reason in WAIT_REASONS} | {"quota": waiting_share - explained}
