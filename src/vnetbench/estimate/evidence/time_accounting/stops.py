"""Stops of an agent's process: time in which nothing lets it run, although a CPU is free.

A signal (SIGSTOP), a debugger, a frozen control group or a suspended VM stops the threads of the load
together with the agent's own sampler. The time by which its samples are late is therefore a lower bound of
the stops: a stop between two samples leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import median, total_duration_s
from vnetbench.estimate.evidence.kernels import ObservedKernel, has_own_kernel
from vnetbench.results.records import EndpointRecord, Sample, mapping_or_empty

_MAX_SCHEDULING_DELAY_S = 4e-3
"""A sampler can be so late without any stop: by a tick of a kernel with 250 Hz, about a time slice."""


def process_stopped_share(
    endpoint: EndpointRecord,
    samples: Sequence[Sample],
    kernel: ObservedKernel,
    cpu_wait_share: float,
    idle_cpu_share: float,
) -> float:
    """Return the share of the time in which the endpoint's process was stopped, 0 to 1.

    What delays the observer on the same kernel, too, stops the whole machine and not the process. A full CPU
    or a quota does not delay a sampler of real-time priority. It can delay any other sampler as long as the
    load's threads wait.

    Args:
        endpoint: The endpoint.
        samples: Its samples.
        kernel: The kernel that it runs on.
        cpu_wait_share: Share of the time in which a thread of the load waits for a CPU.
        idle_cpu_share: Share of the time in which the CPUs that the threads may use are idle.
    """
    has_observer = not has_own_kernel(samples)
    # The observer's interval is that of all agents, also if most samples of this one are late.
    interval_s = median(x.interval_s for x in (kernel.samples if has_observer else samples)) or 0.0
    late = _lateness_share_of_duration(samples, interval_s)
    if has_observer:
        late -= _lateness_share_of_duration(kernel.samples, interval_s)
    is_realtime = bool(mapping_or_empty(endpoint.totals.get("instrument")).get("sampler_realtime"))
    if not (is_realtime and has_observer):
        late = min(late - cpu_wait_share, idle_cpu_share)
    return min(1.0, max(0.0, late))


def _lateness_share_of_duration(samples: Sequence[Sample], interval_s: float) -> float:
    """Return the time by which samples are late, as a share of their duration.

    Small delays of every sample, as on a busy machine or in a guest, would add up to a long stop.
    """
    duration_s = total_duration_s(samples)
    delays_s = [x.interval_s - interval_s for x in samples]
    late_s = sum(delay_s for delay_s in delays_s if delay_s > _MAX_SCHEDULING_DELAY_S)
    return late_s / duration_s if duration_s else 0.0
