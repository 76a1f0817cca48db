"""Evidence of the time accounting: each use of time in percent, and the CPUs that the load may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.evidence.aggregation import EvidenceValues, ratio, total_of_counter
from vnetbench.estimate.evidence.kernels import ObservedKernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.time_accounting.account import (
    TimeShares,
    account_for_time,
    share_of_requested_load_sent,
)
from vnetbench.estimate.evidence.time_accounting.cpu_use import CpuTimeShares, allowed_cpus, measure_cpu_use
from vnetbench.estimate.evidence.time_accounting.time_uses import (
    RECEIVER,
    RUNNING,
    SENDER,
    TIME_USE_BY_NAME,
    WAIT_REASONS,
)
from vnetbench.estimate.evidence.trial_data import TrialData

_THREAD_COUNTERS = ("threads_cpu_s", "threads_waited_s", "load_threads")
_MIN_MESSAGE_TIME_S = 0.1
"""Time of messages in a trial from which on a tick of the kernel (1 to 10 ms) is a small share of it."""
_WITHOUT_PAUSES = " (of a load with a rate: without the pauses between its messages)"
_CPU_COUNTERS = ("cpu[]", "threads_cpu_s", "thread_cpus", "processes[]")

TIME_EVIDENCE_METRICS = (
    *(
        EvidenceMetric(
            f"time_{use.name}_percent",
            "% of time",
            use.label,
            f"share of the time of a stream or request in which {use.meaning}. All these shares together "
            "are 100 %",
            _THREAD_COUNTERS,
        )
        for use in TIME_USE_BY_NAME.values()
    ),
    *(
        EvidenceMetric(
            f"{name}_time_percent",
            "% of time",
            label,
            f"share of the time of a stream or request{extent} in which {meaning}, of sender, receiver and "
            "network together",
            _THREAD_COUNTERS,
        )
        for name, label, meaning, extent in (
            ("cpu_work", "CPU work of the load", "CPUs work for the load or its packets", ""),
            ("packets", "packet processing", "CPUs process packets outside of the load's threads", ""),
            (
                "programs",
                "waiting for other programs",
                "a thread waits for a CPU that other programs use",
                _WITHOUT_PAUSES,
            ),
            ("quota", "stopped by a CPU quota", "a CPU quota stops a thread", _WITHOUT_PAUSES),
            (
                "hypervisor",
                "waiting for the hypervisor",
                "the hypervisor runs other work on a thread's CPU",
                "",
            ),
            ("stopped", "stopped processes", "something stops a process of the load", ""),
        )
    ),
    EvidenceMetric(
        "load_cpus",
        "1",
        "CPUs that the load may use",
        "number of CPUs that the load's threads may use, of the kernel whose CPUs are occupied most",
        ("thread_cpus",),
    ),
    EvidenceMetric(
        "load_cpus_occupied_percent",
        "% of these CPUs",
        "occupied time of the load's CPUs",
        "share of the time in which the CPUs that the load may use are not idle, of the kernel with the most",
        _CPU_COUNTERS,
    ),
    *(
        EvidenceMetric(
            f"load_cpus_{work}_percent",
            "% of these CPUs",
            f"{label} on the load's CPUs",
            f"share of the time that {meaning} takes on the CPUs that the load may use, of the kernel whose "
            "CPUs are occupied most",
            _CPU_COUNTERS,
        )
        for work, label, meaning in (
            ("load", "the load", "the load itself"),
            ("programs", "other programs", "the work of other programs"),
            ("packets", "packet processing", "packet processing outside of the load's threads"),
            ("hypervisor", "steal", "other work of the hypervisor (steal)"),
        )
    ),
    EvidenceMetric(
        "idle_cpus_elsewhere",
        "CPUs",
        "idle CPUs that the load may not use",
        "idle time of the CPUs that the load may not use, as a number of CPUs",
        ("cpu[].idle_s", "thread_cpus"),
    ),
    EvidenceMetric(
        "threads_per_load_cpu",
        "1",
        "load threads per CPU",
        "number of the load's threads for each CPU that they may use, of the kernel whose CPUs are occupied "
        "most",
        ("load_threads", "thread_cpus"),
    ),
)


def time_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of TIME_EVIDENCE_METRICS."""
    shares = account_for_time(data)
    values: EvidenceValues = {
        **{f"time_{name}_percent": 100 * share for name, share in shares.items()},
        **{
            f"{name}_time_percent": 100 * share
            for name, share in _sum_uses_over_endpoints_and_network(
                shares, _share_of_messages(data, shares)
            ).items()
        },
    }
    uses = [
        (use, threads, kernel)
        for kernel in data.kernels
        for use, threads in _load_cpu_use_and_thread_count(data, kernel)
    ]
    if uses:
        use, threads, kernel = max(uses, key=lambda each: each[0].occupied_share)
        elsewhere = [cpu for cpu in kernel.cpu_seconds_by_cpu_and_state if cpu not in use.cpus]
        idle_elsewhere = sum(1 - kernel.busy_percent(cpu) / 100 for cpu in elsewhere)
        values |= {
            "load_cpus": float(len(use.cpus)),
            "load_cpus_occupied_percent": 100 * use.occupied_share,
            "load_cpus_load_percent": 100 * use.load,
            "load_cpus_programs_percent": 100 * use.programs,
            "load_cpus_packets_percent": 100 * use.packets,
            "load_cpus_hypervisor_percent": 100 * use.hypervisor,
            "threads_per_load_cpu": ratio(threads, len(use.cpus)),
            "idle_cpus_elsewhere": idle_elsewhere,
        }
    return values


def _share_of_messages(data: TrialData, shares: TimeShares) -> float | None:
    """Return the share of the time in which a message of a load with a rate is on its way; 1 without a rate.

    What delays a message delays it also if the load pauses long before the next one. It is None if messages
    take so little time that a single tick of the kernel is a large share of it.
    """
    if not share_of_requested_load_sent(data):
        return 1.0
    share = 1 - shares.get("load_pause", 0.0)
    return share if share * data.steady_part.duration_s >= _MIN_MESSAGE_TIME_S else None


def _sum_uses_over_endpoints_and_network(shares: TimeShares, share_of_messages: float | None) -> TimeShares:
    """Return the sums of those uses that belong to sender, receiver and network together.

    A thread waits for a CPU or a quota only when a message is due. A hypervisor or a signal stops a process
    at any time, mostly in a pause, so these two relate to all of the time.

    Args:
        shares: All uses of time.
        share_of_messages: Share of the time to which the waits of threads relate, above 0; None without these
            waits.
    """
    if not shares:
        return {}
    sums = {
        reason: shares[f"{SENDER}_{reason}"] + shares[f"{RECEIVER}_{reason}"]
        for reason in (RUNNING, *WAIT_REASONS)
    }
    packets = sums["packets"] + shares["packet_processing"]
    return {
        "cpu_work": sums[RUNNING] + sums["load"] + packets,
        "packets": packets,
        **{reason: sums[reason] for reason in ("hypervisor", "stopped")},
        **{
            reason: min(1.0, sums[reason] / share_of_messages)
            for reason in ("programs", "quota")
            if share_of_messages is not None
        },
    }


def time_shares(evidence: Mapping[str, float]) -> TimeShares:
    """Return the time shares that a trial's evidence contains; empty without them."""
    shares = {name: evidence.get(f"time_{name}_percent") for name in TIME_USE_BY_NAME}
    return {name: percent / 100 for name, percent in shares.items() if percent is not None}


def _load_cpu_use_and_thread_count(
    data: TrialData, kernel: ObservedKernel
) -> Iterator[tuple[CpuTimeShares, float]]:
    """Yield the use of the CPUs that the load may use in a kernel, and the number of its load threads."""
    part = data.steady_part
    own = [
        (endpoint, samples) for endpoint, samples in part.endpoints if kernel.runs_endpoint(endpoint, samples)
    ]
    cpus = sorted({cpu for endpoint, _ in own for cpu in allowed_cpus(part, endpoint, kernel)})
    if not any(total_of_counter(samples, "threads_cpu_s") for _, samples in own):
        return
    use = measure_cpu_use(part, kernel, cpus)
    if use is not None:
        threads = (
            max((x.counters.get("load_threads", 0.0) for x in samples), default=0.0) for _, samples in own
        )
        yield use, sum(threads)
