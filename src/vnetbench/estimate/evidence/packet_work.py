"""Evidence of work per packet on the path: rules that each packet passes, and packets that a port splits."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    largest,
    ratio,
    sum_known_values,
    total_of_counter,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.queue_directions import DATA, direction
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import Sample

_SECONDS_PER_RULE = 10e-9
"""Rough CPU time of one rule that does not match: 5 to 20 ns on CPUs of the last ten years."""

PACKET_WORK_EVIDENCE_METRICS = (
    EvidenceMetric(
        "filter_work_percent",
        "% of work",
        "estimated work in firewall rules and filters",
        "packets per second of the busiest endpoint, times the number of firewall rules and filters of "
        "traffic control, times 10 ns, as a share of the CPU time of the load and of its packets. It is an "
        "upper limit, because a packet that an early rule accepts does not pass the others. At most 100 %",
        ("rx_packets", "tx_packets", "path_state.netfilter_rules", "path_state.tc_filters", "cpu"),
    ),
    EvidenceMetric(
        "split_at_port_ratio",
        "1",
        "packets into which a port splits a packet",
        "bytes per packet that the sender passes to its interface, divided by the bytes per packet that "
        "leave a port on the path in the direction of the data; of the port with the largest ratio",
        ("tx_bytes", "tx_packets", "interfaces[].tx_bytes", "interfaces[].tx_packets"),
    ),
)


def packet_work_evidence(data: TrialData, known: EvidenceValues) -> EvidenceValues:
    """Return the values of PACKET_WORK_EVIDENCE_METRICS.

    Args:
        data: The data of the trial.
        known: Values of PATH_STATE_EVIDENCE_METRICS and TIME_EVIDENCE_METRICS.
    """
    rules = sum_known_values(known.get("netfilter_rules"), known.get("tc_filters"))
    work_percent = sum_known_values(
        known.get("load_cpus_load_percent"), known.get("load_cpus_packets_percent")
    )
    packets_per_s = largest(
        counter_rate_per_s(samples, "rx_packets", "tx_packets") for _, samples in data.steady_part.endpoints
    )
    filter_work_percent = None
    if rules is not None and packets_per_s is not None and work_percent and known.get("load_cpus"):
        work_cpus = (known["load_cpus"] or 0.0) * work_percent / 100
        filter_work_percent = min(100.0, 100 * rules * packets_per_s * _SECONDS_PER_RULE / work_cpus)
    return {"filter_work_percent": filter_work_percent, "split_at_port_ratio": _split_at_port_ratio(data)}


def _split_at_port_ratio(data: TrialData) -> float | None:
    sent = largest(_bytes_per_packet_sent(samples) for _, samples in data.steady_part.senders)
    ports = data.ports[len(data.steady_part.endpoints) :]
    ratios = [
        ratio(sent, ratio(port.mean_rate("tx_bytes"), port.mean_rate("tx_packets")))
        for port in ports
        if direction(port) == DATA
    ]
    return largest(ratios)


def _bytes_per_packet_sent(samples: Sequence[Sample]) -> float | None:
    return ratio(total_of_counter(samples, "tx_bytes"), total_of_counter(samples, "tx_packets"))
