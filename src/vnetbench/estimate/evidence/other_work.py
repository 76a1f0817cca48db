"""CPU time of foreign processes, as a lower bound from the times of CPUs and of the bench's own processes."""

from __future__ import annotations

from vnetbench.estimate.evidence.aggregation import counter_rate_per_s, ratio, to_number, total_duration_s
from vnetbench.estimate.evidence.kernels import ObservedKernel
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST

PROCESS_CPU_TIME_COUNTERS = ("process_cpu_user_s", "process_cpu_system_s")


def other_work_cpus(kernel: ObservedKernel, part: SteadyPart) -> float | None:
    """Return the CPU time of foreign processes as a number of CPUs.

    A process's time includes packet processing of the kernel in its context; the CPUs' user and system times
    do not. So the difference is rather too small. It is never negative.
    """
    duration_s = total_duration_s(kernel.samples)
    own_processes = [
        samples for endpoint, samples in part.endpoints if kernel.runs_endpoint(endpoint, samples)
    ]
    if kernel.endpoint_or_host == HOST:
        own_processes.append(part.host_samples)
    own_user_s, own_system_s = (
        duration_s * sum(counter_rate_per_s(samples, counter) or 0.0 for samples in own_processes)
        for counter in PROCESS_CPU_TIME_COUNTERS
    )
    if kernel.endpoint_or_host == HOST:
        own_user_s += sum(sum(x.observation.thread_cpu_s.values()) for x in kernel.samples if x.observation)
        own_user_s += duration_s * _cpus_used_by_bench(part)
    by_cpu = kernel.cpu_seconds_by_cpu_and_state.values()
    user_s = sum(times.get("user_s", 0.0) + times.get("nice_s", 0.0) for times in by_cpu) - own_user_s
    # Observed threads count as user time here. Their time in the kernel makes `user_s` negative: move it.
    system_s = sum(times.get("system_s", 0.0) for times in by_cpu) - own_system_s + min(0.0, user_s)
    return ratio(max(0.0, user_s) + max(0.0, system_s), duration_s)


def _cpus_used_by_bench(part: SteadyPart) -> float:
    totals = next((each.totals for each in part.trial.endpoints if each.name == HOST), {})
    return ratio(to_number(totals.get("bench_cpu_s")), part.trial.idle_s + part.trial.duration_s) or 0.0
