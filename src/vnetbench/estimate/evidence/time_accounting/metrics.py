"""Evidence of the time accounting: each use of time in percent, and the CPUs that the load may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.evidence.aggregation import EvidenceValues, ratio, total_of_counter
from vnetbench.estimate.evidence.kernels import Kernel, has_own_kernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.time_accounting.account import TimeShares, account_for_time
from vnetbench.estimate.evidence.time_accounting.cpu_use import CpuUse, allowed_cpus, measure_cpu_use
from vnetbench.estimate.evidence.time_accounting.time_uses import TIME_USES
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import HOST

_THREAD_COUNTERS = ("threads_cpu_s", "threads_waited_s", "load_threads")
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
        for use in TIME_USES.values()
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
    values: EvidenceValues = {
        f"time_{name}_percent": 100 * share for name, share in account_for_time(data).items()
    }
    uses = [(use, threads) for kernel in data.kernels for use, threads in _load_cpu_use(data, kernel)]
    if uses:
        use, threads = max(uses, key=lambda each: each[0].occupied)
        values |= {
            "load_cpus": float(len(use.cpus)),
            "load_cpus_occupied_percent": 100 * use.occupied,
            "load_cpus_load_percent": 100 * use.load,
            "load_cpus_programs_percent": 100 * use.programs,
            "load_cpus_packets_percent": 100 * use.packets,
            "load_cpus_hypervisor_percent": 100 * use.hypervisor,
            "threads_per_load_cpu": ratio(threads, len(use.cpus)),
        }
    return values


def time_shares(evidence: Mapping[str, float]) -> TimeShares:
    """Return the time shares that a trial's evidence contains; empty without them."""
    shares = {name: evidence.get(f"time_{name}_percent") for name in TIME_USES}
    return {name: percent / 100 for name, percent in shares.items() if percent is not None}


def _load_cpu_use(data: TrialData, kernel: Kernel) -> Iterator[tuple[CpuUse, float]]:
    """Yield the use of the CPUs that the load may use in a kernel, and the number of its load threads."""
    part = data.steady_part
    own = [
        (endpoint, samples)
        for endpoint, samples in part.endpoints
        if endpoint.name == kernel.name or (kernel.name == HOST and not has_own_kernel(samples))
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
