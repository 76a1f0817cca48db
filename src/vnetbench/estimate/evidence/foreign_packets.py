"""Evidence of foreign packets: those that the kernel processes and that are not the load's.

Each packet that an interface receives is processed once, and again by each interface above it. So the packets
that a kernel processed, less those that the interfaces on the path received, belong to other traffic: copies
that a switch floods or mirrors, or the traffic of other programs on other interfaces.
"""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    effective_knob_value,
    largest,
    total_duration_s,
    total_of_counter,
)
from vnetbench.estimate.evidence.kernels import INTERRUPT_TIME_COUNTERS, ObservedKernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.path_interfaces import count_stacked_interfaces, list_interfaces
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import HOST
from vnetbench.study.factors.cpu_lists import parse_cpu_list

_THREAD_TIME_COUNTERS = ("user_s", "nice_s", "system_s")

FOREIGN_PACKET_EVIDENCE_METRICS = (
    EvidenceMetric(
        "foreign_packets_percent",
        "% of packets",
        "processed packets of other traffic",
        "packets that a kernel processed and that no interface on the path received, as a share of all "
        "packets that it processed, of the kernel with the most. Absent for endpoints on one kernel, such as "
        "containers, because no agent sees what connects them",
        ("softnet_processed", "rx_packets", "interfaces[].rx_packets", "path_state.interfaces"),
    ),
    EvidenceMetric(
        "foreign_packet_work_percent",
        "% of these CPUs",
        "processing of other traffic's packets on the load's CPUs",
        "share of the time that CPUs which work for the load spend in interrupts for foreign packets: mean "
        "over the CPUs by the work that they do for the load, of its threads or of its packets, whichever "
        "gives more, of the kernel with the most",
        (
            "softnet_processed",
            "cpu[].softnet_processed",
            "rx_packets",
            "interfaces[].rx_packets",
            "path_state.interfaces",
            "cpu[].softirq_s",
            "cpu[].irq_s",
            "cpu[].user_s",
            "cpu[].system_s",
        ),
    ),
)


def foreign_packet_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of FOREIGN_PACKET_EVIDENCE_METRICS; None without the counters."""
    own_packets = {
        kernel.endpoint_or_host: _count_load_packet_passes(data, kernel) for kernel in data.kernels
    }
    return {
        "foreign_packets_percent": largest(
            None
            if (share := _foreign_share(kernel, own_packets[kernel.endpoint_or_host])) is None
            else 100 * share
            for kernel in data.kernels
        ),
        "foreign_packet_work_percent": largest(
            _foreign_work_percent(data, kernel, own_packets[kernel.endpoint_or_host])
            for kernel in data.kernels
        ),
    }


def _count_load_packet_passes(data: TrialData, kernel: ObservedKernel) -> float | None:
    """Return how often the kernel processed packets of the load; None if an interface is not counted.

    Both counts are rates, because the endpoints' samples and the observer's do not end at the same time.
    Interfaces above each other, such as a VLAN over a bond, process each packet once each.
    """
    own = [
        (
            count_stacked_interfaces(
                list_interfaces(endpoint), data.interface_by_endpoint.get(endpoint.name, "")
            ),
            samples,
        )
        for endpoint, samples in (*data.steady_part.endpoints, *data.steady_part.forwarding_guest_observers)
        if kernel.runs_endpoint(endpoint, samples)
    ]
    rates = [
        None if (count := total_of_counter(samples, "rx_packets")) is None
        else levels * count / total_duration_s(samples)
        for levels, samples in own
        if samples
    ]  # fmt: skip
    if kernel.is_shared:
        # What connects these endpoints on their machine processes the packets too, and no agent sees it.
        return None
    if kernel.endpoint_or_host == HOST:
        observed = data.ports[len(data.steady_part.endpoints) :]
        if own and not observed:
            # The switch between these endpoints receives their packets, too.
            return None
        rates += [port.mean_rate("rx_packets") for port in observed]
    known_rates = [rate for rate in rates if rate is not None]
    # Packets of an interface without a counter would look foreign.
    if not rates or len(known_rates) < len(rates):
        return None
    return sum(known_rates) * total_duration_s(kernel.samples)


def _foreign_share(kernel: ObservedKernel, own_packets: float | None) -> float | None:
    """Return the share of the kernel's processed packets that are foreign, 0 to 1."""
    processed = total_of_counter(kernel.samples, "softnet_processed")
    return None if own_packets is None or not processed else max(0.0, 1 - own_packets / processed)


def _foreign_work_percent(data: TrialData, kernel: ObservedKernel, own_packets: float | None) -> float | None:
    """Return the share of time that CPUs which work for the load spend on foreign packets, in percent.

    A CPU works for the load if it runs its threads, or processes its packets. Which CPU does so is not
    counted. Threads run where the CPUs of the load have time outside of interrupts. The load's packets are
    processed there as far as packets are processed there, and the rest of them on the other CPUs.
    """
    share = _foreign_share(kernel, own_packets)
    if share is None or own_packets is None:
        return None
    interrupts = {
        cpu: kernel.time_percent(cpu, *INTERRUPT_TIME_COUNTERS) for cpu in kernel.cpu_seconds_by_cpu_and_state
    }
    threads = _shares_of(
        {cpu: kernel.time_percent(cpu, *_THREAD_TIME_COUNTERS) for cpu in _cpus_allowed_to_load(data, kernel)}
    )
    processed = _processed_by_cpu(kernel)
    if not processed:
        return share * sum(threads[cpu] * interrupts[cpu] for cpu in threads)
    own = {cpu: min(count, own_packets * threads.get(cpu, 0.0)) for cpu, count in processed.items()}
    others = _shares_of({cpu: count - own[cpu] for cpu, count in processed.items()})
    rest = max(0.0, min(own_packets, sum(processed.values())) - sum(own.values()))
    own = {cpu: own[cpu] + rest * others[cpu] for cpu in processed}
    foreign = {
        cpu: interrupts.get(cpu, 0.0) * max(0.0, 1 - own[cpu] / count)
        for cpu, count in processed.items()
        if count
    }
    return max(
        sum(weights.get(cpu, 0.0) * percent for cpu, percent in foreign.items())
        for weights in (threads, _shares_of(own))
    )


def _shares_of(values: Mapping[int, float]) -> dict[int, float]:
    """Return each value as a share of their sum; equal shares of a sum of 0."""
    total = sum(values.values())
    return {key: value / total if total else 1 / len(values) for key, value in values.items()}


def _processed_by_cpu(kernel: ObservedKernel) -> dict[int, float]:
    """Return the packets that each CPU processed; empty if the agent does not count them for each CPU."""
    packets: dict[int, float] = {}
    for sample in kernel.samples:
        for cpu in sample.cpu:
            if "softnet_processed" in cpu:
                number = int(cpu["cpu"])
                packets[number] = packets.get(number, 0.0) + cpu["softnet_processed"]
    return packets


def _cpus_allowed_to_load(data: TrialData, kernel: ObservedKernel) -> list[int]:
    """Return the CPUs of the kernel that the load's threads may use."""
    values = [
        effective_knob_value(data.steady_part.trial, "thread_cpus", endpoint.name)
        for endpoint, samples in data.steady_part.endpoints
        if kernel.runs_endpoint(endpoint, samples)
    ]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value]) if text]
    allowed = {cpu for text in texts for cpu in parse_cpu_list(str(text))}
    return sorted(
        allowed & set(kernel.cpu_seconds_by_cpu_and_state) or set(kernel.cpu_seconds_by_cpu_and_state)
    )
