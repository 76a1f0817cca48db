"""Evidence of costly packet processing: interrupt time beyond what packets and their bytes usually cost.

Rules that follow connections or read the payload cost far more than rules that compare a few header fields,
and no counter says which kind a rule is. The interrupt time contains the work of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    largest,
    ratio,
    sum_known_values,
    total_of_counter,
)
from vnetbench.estimate.evidence.kernels import IDLE_TIME_COUNTERS, INTERRUPT_TIME_COUNTERS, ObservedKernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.time_accounting.cpu_use import allowed_cpus
from vnetbench.estimate.evidence.trial_data import TrialData

_USUAL_SECONDS_PER_PACKET = 10e-6
"""Interrupt time per packet that is still usual: ten times what CPUs of the last ten years need."""
_USUAL_SECONDS_PER_BYTE = 1e-9
"""Time to read or copy a byte once, at 1 GB/s."""
_STEAL_TIME_COUNTERS = ("steal_s",)

INTERRUPT_WORK_EVIDENCE_METRICS = (
    EvidenceMetric(
        "costly_interrupt_work_percent",
        "% of work",
        "costly packet processing",
        "interrupt time beyond 10 µs per processed packet and 1 ns per byte, as a share of the time in "
        "which the CPUs that the load may use are busy, of the kernel with the most. The time for the bytes "
        "is limited to the CPU time outside of interrupts: to copy the data there costs at least as much as "
        "to pass it on",
        (
            "softnet_processed",
            "rx_bytes",
            "rx_packets",
            "cpu[].softnet_processed",
            "cpu[].softirq_s",
            "cpu[].irq_s",
            "cpu[].user_s",
            "cpu[].system_s",
        ),
    ),
)


def interrupt_work_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of INTERRUPT_WORK_EVIDENCE_METRICS."""
    return {
        "costly_interrupt_work_percent": largest(
            _costly_interrupt_percent(data, each) for each in data.kernels
        )
    }


def _costly_interrupt_percent(data: TrialData, kernel: ObservedKernel) -> float | None:
    """Return the unusual interrupt time in percent of the work of the load's CPUs; None without counters."""
    cpus = _cpus_allowed_to_load(data, kernel)
    packets, bytes_per_packet = _processed_packets(kernel, cpus), _bytes_per_received_packet(data, kernel)
    if packets is None or bytes_per_packet is None:
        return None
    times = [kernel.cpu_seconds_by_cpu_and_state[cpu] for cpu in cpus]
    interrupts_s = sum(each.get(kind, 0.0) for each in times for kind in INTERRUPT_TIME_COUNTERS)
    no_work = (*IDLE_TIME_COUNTERS, *_STEAL_TIME_COUNTERS)
    work_s = sum(seconds for each in times for kind, seconds in each.items() if kind not in no_work)
    bytes_s = min(packets * bytes_per_packet * _USUAL_SECONDS_PER_BYTE, work_s - interrupts_s)
    usual_s = packets * _USUAL_SECONDS_PER_PACKET + bytes_s
    share = ratio(max(0.0, interrupts_s - usual_s), work_s)
    return None if share is None else 100 * share


def _cpus_allowed_to_load(data: TrialData, kernel: ObservedKernel) -> list[int]:
    """Return the CPUs that the load may use on a kernel; all of a kernel that only forwards."""
    part = data.steady_part
    allowed = {
        cpu
        for endpoint, samples in part.endpoints
        if kernel.runs_endpoint(endpoint, samples)
        for cpu in allowed_cpus(part, endpoint, kernel)
    }
    return sorted(allowed or kernel.cpu_seconds_by_cpu_and_state)


def _processed_packets(kernel: ObservedKernel, cpus: Sequence[int]) -> float | None:
    """Return the packets that these CPUs processed; those of all CPUs if the agent does not divide them."""
    counted = [
        cpu["softnet_processed"]
        for sample in kernel.samples
        for cpu in sample.cpu
        if cpu["cpu"] in cpus and "softnet_processed" in cpu
    ]
    return sum(counted) if counted else total_of_counter(kernel.samples, "softnet_processed")


def _bytes_per_received_packet(data: TrialData, kernel: ObservedKernel) -> float | None:
    """Return the mean size of the packets that the endpoints on a kernel receive; None without any."""
    own = [
        samples for endpoint, samples in data.steady_part.endpoints if kernel.runs_endpoint(endpoint, samples)
    ]
    received_bytes, packets = (
        sum_known_values(*(total_of_counter(samples, name) for samples in own))
        for name in ("rx_bytes", "rx_packets")
    )
    return ratio(received_bytes, packets)
