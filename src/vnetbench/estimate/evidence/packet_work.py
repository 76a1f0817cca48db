"""Evidence of work per packet on the path: rules that each packet passes, and packets that a port splits."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    largest,
    percent,
    ratio,
    smallest,
    sum_known_values,
    total_of_counter,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.queue_directions import DATA, classify_port_direction
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import Sample

_SECONDS_PER_RULE = 10e-9
"""Rough CPU time of one firewall rule that does not match: 5 to 20 ns on CPUs of the last ten years."""
_SECONDS_PER_FILTER = 3 * _SECONDS_PER_RULE
"""Rough CPU time of one filter of traffic control that does not match: each is an indirect call."""
_IP_AND_TCP_HEADER_BYTES = 60
"""IPv6 and TCP without options. With IPv4, segments can be 20 bytes larger."""

PACKET_WORK_EVIDENCE_METRICS = (
    EvidenceMetric(
        "filter_work_percent",
        "% of work",
        "estimated work in firewall rules and filters",
        "packets per second of the busiest endpoint, times 10 ns for each firewall rule and 30 ns for each "
        "filter of traffic control, as a share of the CPU time of the load and of its packets. It is an "
        "upper limit, because a packet that an early rule accepts skips the later rules. At most 100 %",
        ("rx_packets", "tx_packets", "path_state.netfilter_rules", "path_state.tc_filters", "cpu"),
    ),
    EvidenceMetric(
        "segment_share_of_mtu_percent",
        "% of the MTU",
        "size of TCP segments",
        "maximum segment size as a share of what the MTU of the endpoints' interfaces and half of the "
        "receive window permit. It is small if a firewall clamps it, or if the route or a hop has a smaller "
        "MTU. At most 100 %",
        ("mss", "mss_bytes", "mtu", "snd_wnd_bytes"),
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
        known: Values of PATH_STATE_, PACKET_, WINDOW_ and TIME_EVIDENCE_METRICS.
    """
    rules, filters = known.get("netfilter_rules"), known.get("tc_filters")
    seconds_per_packet = sum_known_values(
        None if rules is None else rules * _SECONDS_PER_RULE,
        None if filters is None else filters * _SECONDS_PER_FILTER,
    )
    work_percent = sum_known_values(
        known.get("load_cpus_load_percent"), known.get("load_cpus_packets_percent")
    )
    packets_per_s = largest(
        counter_rate_per_s(samples, "rx_packets", "tx_packets") for _, samples in data.steady_part.endpoints
    )
    filter_work_percent = None
    if (
        seconds_per_packet is not None
        and packets_per_s is not None
        and work_percent
        and known.get("load_cpus")
    ):
        work_cpus = (known["load_cpus"] or 0.0) * work_percent / 100
        filter_work_percent = min(100.0, 100 * seconds_per_packet * packets_per_s / work_cpus)
    segment_percent = percent(known.get("mss_bytes"), _permitted_segment_bytes(known))
    return {
        "filter_work_percent": filter_work_percent,
        "segment_share_of_mtu_percent": None if segment_percent is None else min(100.0, segment_percent),
        "split_at_port_ratio": _split_at_port_ratio(data),
    }


def _permitted_segment_bytes(known: EvidenceValues) -> float | None:
    """Return the segment size that the MTU and the receive window permit; None without an MTU.

    Linux sends no segment above half of the largest window (include/net/tcp.h, tcp_bound_to_half_wnd).
    """
    mtu_bytes, window_bytes = known.get("mtu_bytes"), known.get("peer_window_bytes")
    if mtu_bytes is None:
        return None
    return smallest((mtu_bytes - _IP_AND_TCP_HEADER_BYTES, window_bytes / 2 if window_bytes else None))


def _split_at_port_ratio(data: TrialData) -> float | None:
    sent = largest(_bytes_per_packet_sent(samples) for _, samples in data.steady_part.senders)
    ports = data.ports[len(data.steady_part.endpoints) :]
    ratios = [
        ratio(sent, ratio(port.mean_rate("tx_bytes"), port.mean_rate("tx_packets")))
        for port in ports
        if classify_port_direction(port) == DATA
    ]
    return largest(ratios)


def _bytes_per_packet_sent(samples: Sequence[Sample]) -> float | None:
    return ratio(total_of_counter(samples, "tx_bytes"), total_of_counter(samples, "tx_packets"))
