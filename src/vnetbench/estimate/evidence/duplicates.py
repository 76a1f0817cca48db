"""Evidence of duplicates: packets that arrive twice although they were sent once."""

from __future__ import annotations

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    percent,
    sum_known_values,
    total_of_counter,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData

DUPLICATE_EVIDENCE_METRICS = (
    EvidenceMetric(
        "duplicated_percent",
        "%",
        "packets that arrived twice",
        "share of the segments that the receiver reported as duplicates (D-SACK) although the sender had not "
        "retransmitted them, or share of the datagrams that arrived more than once. For connections of one "
        "request: duplicates that the sinks' network namespaces count, minus all retransmissions",
        ("dsack_dups", "retransmits", "segments_out", "duplicates", "tcp_duplicates_received"),
    ),
)


def duplicate_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of DUPLICATE_EVIDENCE_METRICS."""
    percents = (
        _duplicated_datagrams_percent(data),
        _segments_duplicated_by_network_percent(data),
        _duplicated_packets_percent(data),
    )
    return {"duplicated_percent": next((each for each in percents if each is not None), None)}


def _duplicated_datagrams_percent(data: TrialData) -> float | None:
    return data.metrics.get("duplicate_percent")


def _segments_duplicated_by_network_percent(data: TrialData) -> float | None:
    """Return the share of segments that the network duplicated; None without streams.

    Linux compares the same two counters, and ignores duplicates in excess of its own retransmissions
    (net/ipv4/tcp_input.c, tcp_dsack_seen).
    """
    reported = sum_known_values(*(flow.total("dsack_dups") for flow in data.tcp_senders))
    retransmits = sum_known_values(*(flow.total("retransmits") for flow in data.tcp_senders))
    sent = sum_known_values(*(flow.total("segments_out") for flow in data.tcp_senders))
    return None if reported is None else percent(max(0.0, reported - (retransmits or 0.0)), sent)


def _duplicated_packets_percent(data: TrialData) -> float | None:
    """Return the share of packets, after aggregation (GRO), that the sinks got twice; None if unknown."""
    sinks = [x for _, samples in data.steady_part.receivers for x in samples]
    every = [x for _, samples in data.steady_part.endpoints for x in samples]
    arrived_twice = total_of_counter(sinks, "tcp_duplicates_received")
    if arrived_twice is None:
        return None
    retransmits = total_of_counter(every, "tcp_segments_retransmitted") or 0.0
    return percent(max(0.0, arrived_twice - retransmits), total_of_counter(sinks, "tcp_in_segments"))
