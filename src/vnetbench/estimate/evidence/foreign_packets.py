"""Evidence of foreign packets: those that the kernel processes and that are not the load's.

Each packet that an interface receives is processed once. So the packets that a kernel processed, less those
that the interfaces on the path received, belong to other traffic: copies that a switch floods or mirrors, or
the traffic of other programs on other interfaces.
"""

from __future__ import annotations

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    effective_knob_value,
    largest,
    total_duration_s,
    total_of_counter,
)
from vnetbench.estimate.evidence.kernels import INTERRUPT_TIME_COUNTERS, ObservedKernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import HOST
from vnetbench.study.factors.cpu_lists import parse_cpu_list

FOREIGN_PACKET_EVIDENCE_METRICS = (
    EvidenceMetric(
        "foreign_packets_percent",
        "% of packets",
        "processed packets of other traffic",
        "packets that a kernel processed and that no interface on the path received, as a share of all "
        "packets that it processed, of the kernel with the most",
        ("softnet_processed", "rx_packets", "interfaces[].rx_packets"),
    ),
    EvidenceMetric(
        "foreign_packet_work_percent",
        "% of these CPUs",
        "processing of other traffic's packets on the load's CPUs",
        "share of the time that the CPUs of the load spend in interrupts, times the share of foreign "
        "packets, of the kernel with the most",
        ("softnet_processed", "rx_packets", "interfaces[].rx_packets", "cpu[].softirq_s", "cpu[].irq_s"),
    ),
)


def foreign_packet_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of FOREIGN_PACKET_EVIDENCE_METRICS; None without the counters."""
    shares = {kernel.name: _foreign_share(data, kernel) for kernel in data.kernels}
    return {
        "foreign_packets_percent": largest(
            None if share is None else 100 * share for share in shares.values()
        ),
        "foreign_packet_work_percent": largest(
            None if (share := shares[kernel.name]) is None else share * _interrupt_percent(data, kernel)
            for kernel in data.kernels
        ),
    }


def _foreign_share(data: TrialData, kernel: ObservedKernel) -> float | None:
    """Return the share of the kernel's processed packets that are foreign, 0 to 1.

    Both counts are rates, because the endpoints' samples and the observer's do not end at the same time.
    """
    own = [
        (samples, total_of_counter(samples, "rx_packets"))
        for endpoint, samples in (*data.steady_part.endpoints, *data.steady_part.forwarding_guest_observers)
        if kernel.runs_endpoint(endpoint, samples)
    ]
    rates = [
        None if count is None else count / total_duration_s(samples) for samples, count in own if samples
    ]
    if kernel.name == HOST:
        observed = data.ports[len(data.steady_part.endpoints) :]
        if own and not observed:
            # The switch between these endpoints receives their packets, too.
            return None
        rates += [port.mean_rate("rx_packets") for port in observed]
    processed, duration_s = (
        total_of_counter(kernel.samples, "softnet_processed"),
        total_duration_s(kernel.samples),
    )
    known_rates = [rate for rate in rates if rate is not None]
    # Packets of an interface without a counter would look foreign.
    if not processed or not duration_s or not rates or len(known_rates) < len(rates):
        return None
    return max(0.0, 1 - sum(known_rates) * duration_s / processed)


def _interrupt_percent(data: TrialData, kernel: ObservedKernel) -> float:
    """Return the share of time that the CPUs which the load may use spend in interrupts, in percent."""
    values = [
        effective_knob_value(data.steady_part.trial, "thread_cpus", endpoint.name)
        for endpoint, samples in data.steady_part.endpoints
        if kernel.runs_endpoint(endpoint, samples)
    ]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value]) if text]
    allowed = {cpu for text in texts for cpu in parse_cpu_list(str(text))}
    cpus = sorted(
        allowed & set(kernel.cpu_seconds_by_cpu_and_state) or set(kernel.cpu_seconds_by_cpu_and_state)
    )
    return sum(kernel.time_percent(cpu, *INTERRUPT_TIME_COUNTERS) for cpu in cpus) / len(cpus)
