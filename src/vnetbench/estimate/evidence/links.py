"""Evidence of links: queues, foreign traffic, and the loss and reordering of the path."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    median,
    percent,
    ratio,
    smallest,
    sum_known_values,
    total_of_counter,
)
from vnetbench.estimate.evidence.flows import Flow
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.ports import Port
from vnetbench.estimate.evidence.shapers import LARGEST_PACKET_BYTES, unsampled_queue_drops_per_s
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.evidence.window import coefficient_of_variation
from vnetbench.estimate.frame_losses import UPLINK_ROLE
from vnetbench.results.records import OBSERVE, Sample

_SENT_PACKET_COUNTERS = ("segments_out", "datagrams", "frames_sent")
_INTERFACE_BYTE_COUNTERS = ("rx_bytes", "tx_bytes")
_MIN_UNSEGMENTED_PACKET_SEGMENTS = 1.5
"""From this number of segments per packet on, packets leave the sender's stack unsegmented."""
_MIN_LOCATED_LOSS_PERCENT = 0.5
"""Loss of datagrams from which its location matters: the loosest goal in use (FD.io CSIT)."""
_MAX_HEADER_BYTES = 80
"""Most header bytes of a packet: Ethernet, IPv6, and TCP with its usual options or UDP."""
_PATH_DROP_COUNTERS = ("qdisc_drops", "rx_dropped", "tx_dropped", "tcp_backlog_drop", "tcp_rcv_pruned")

LINK_EVIDENCE_METRICS = (
    EvidenceMetric(
        "backlog_bytes",
        "B",
        "bytes in the longest queue before a link",
        "median number of bytes that wait in the longest queue of all queueing disciplines on the path",
        ("qdisc_backlog_bytes", "interfaces[].qdisc.backlog_bytes"),
    ),
    EvidenceMetric(
        "backlog_delay_us",
        "µs",
        "delay in the longest queue before a link",
        "bytes in the longest queue of a queueing discipline, divided by the rate at which they leave",
        ("qdisc_backlog_bytes", "tx_bytes", "interfaces[].qdisc.backlog_bytes", "interfaces[].tx_bytes"),
    ),
    EvidenceMetric(
        "overlimits_per_s",
        "1/s",
        "packets delayed by shapers",
        "packets per second that queueing disciplines delay to keep a rate: the median of each queueing "
        "discipline's samples, summed over all queueing disciplines",
        ("qdisc_overlimits", "interfaces[].qdisc.overlimits"),
    ),
    EvidenceMetric(
        "qdisc_drops_per_s",
        "1/s",
        "packets dropped by queueing disciplines",
        "packets per second that queueing disciplines drop, sum of all queueing disciplines",
        ("qdisc_drops", "interfaces[].qdisc.drops"),
    ),
    EvidenceMetric(
        "uplink_count",
        "1",
        "uplinks",
        "number of uplinks between the switches",
        ("interfaces[].tx_bytes",),
    ),
    EvidenceMetric(
        "busiest_uplink_percent",
        "% of bytes",
        "traffic on the busiest uplink",
        "share of the bytes of all uplinks that the busiest uplink carries",
        ("interfaces[].rx_bytes", "interfaces[].tx_bytes"),
    ),
    EvidenceMetric(
        "foreign_traffic_percent",
        "% of bytes",
        "other traffic",
        "share of an interface's bytes that the test cannot have sent, of the interface on the path with "
        "the largest share. Other traffic of less than one sample is not detected",
        (
            "interfaces[].rx_bytes",
            "interfaces[].tx_bytes",
            "rx_bytes",
            "tx_bytes",
            "bytes_sent",
            "segments_out",
        ),
    ),
    EvidenceMetric(
        "loss_percent",
        "%",
        "lost datagrams or frames",
        "share of the datagrams or frames that did not arrive",
        ("lost", "datagrams", "frames_sent", "frames_received"),
    ),
    EvidenceMetric(
        "path_loss_percent",
        "%",
        "loss that no drop counter shows",
        "share of the segments that were retransmitted, or of the datagrams that were lost. It excludes "
        "spurious retransmissions and the drops that sockets, backlogs, interfaces and queueing disciplines "
        "count",
        ("retransmits", "dsack_dups", "lost", "socket_drops", "softnet_dropped", *_PATH_DROP_COUNTERS),
    ),
    EvidenceMetric(
        "uncounted_loss_percent",
        "% of loss",
        "lost datagrams that no drop counter shows",
        "share of the lost datagrams that no socket, backlog, interface or queueing discipline counts; "
        "absent if fewer than 0.5 % are lost",
        ("lost", "socket_drops", "softnet_dropped", *_PATH_DROP_COUNTERS),
    ),
    EvidenceMetric(
        "reordered_percent",
        "%",
        "packets that arrived out of order",
        "share of the segments, datagrams or frames that arrived after one that was sent later. For TCP "
        "this includes segments that arrive after a loss",
        ("rcv_ooopack", "segments_in", "reordered"),
    ),
    EvidenceMetric(
        "reordering_events_per_s",
        "1/s",
        "reordering events",
        "events per second in which a sender detected that segments were late, not lost, sum of all TCP "
        "senders",
        ("reord_seen",),
    ),
    EvidenceMetric(
        "spurious_retransmit_percent",
        "% of retransmits",
        "spurious retransmits",
        "share of the retransmitted segments that the receiver reported as duplicates (D-SACK)",
        ("dsack_dups", "retransmits"),
    ),
    EvidenceMetric(
        "link_variation",
        "1",
        "variation of the link's byte rate",
        "standard deviation of the byte rate over the samples, divided by its mean, for the busiest "
        "interface on the path",
        ("interfaces[].rx_bytes", "interfaces[].tx_bytes", "rx_bytes", "tx_bytes"),
    ),
)


def link_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of LINK_EVIDENCE_METRICS."""
    return {
        **_qdisc_values(data.ports),
        **_busier_direction_uplink_values(data.ports),
        **_loss_and_reordering_values(data),
        "foreign_traffic_percent": _foreign_traffic_percent(data),
        "link_variation": _busiest_port_rate_variation(data.ports),
    }


def _qdisc_values(ports: Sequence[Port]) -> EvidenceValues:
    values: EvidenceValues = {
        "overlimits_per_s": sum_known_values(
            *(median(port.rates_per_complete_sample("overlimits")) for port in ports)
        ),
        "qdisc_drops_per_s": sum_known_values(*(port.mean_rate("drops") for port in ports)),
    }
    backlogs = [(backlog, port) for port in ports if (backlog := port.median_backlog_bytes) is not None]
    if backlogs:
        backlog_bytes, port = max(backlogs, key=lambda each: each[0])
        values |= {
            "backlog_bytes": backlog_bytes,
            "backlog_delay_us": ratio(1e6 * backlog_bytes, port.mean_rate("tx_bytes")),
        }
    return values


def _busier_direction_uplink_values(ports: Sequence[Port]) -> EvidenceValues:
    """Return the values of the uplinks in the direction with more traffic."""
    by_direction: dict[str, list[float]] = {}
    for port in ports:
        if port.role == UPLINK_ROLE:
            by_direction.setdefault(port.leads_to, []).append(port.mean_rate("tx_bytes") or 0.0)
    rates = max(by_direction.values(), key=sum, default=[])
    return {
        "uplink_count": len(rates) or None,
        "busiest_uplink_percent": percent(max(rates, default=0.0), sum(rates)),
    }


def _foreign_traffic_percent(data: TrialData) -> float | None:
    """Return the share of an interface's bytes, both directions, that cannot come from the test.

    The samples of different agents are not aligned, so the bytes of one sample are subtracted.
    """
    endpoints = data.steady_part.endpoints
    pairs = {port.name: port.pairs for port in data.ports[: len(endpoints)]}
    test_bytes = {
        endpoint.name: _max_load_bytes_on_wire(data, endpoint.name, samples)
        for endpoint, samples in endpoints
    }
    unobserved_bytes = _max_bytes_from_unobserved_endpoints(data)
    shares = []
    for port in data.ports:
        crossing = (name for name in test_bytes if not port.pairs or port.pairs & pairs[name])
        sent = sum_known_values(unobserved_bytes, *(test_bytes[name] for name in crossing))
        by_sample = port.counter_sum_per_complete_sample(*_INTERFACE_BYTE_COUNTERS)
        carried = sum(by_sample)
        if sent is not None and carried > 0:
            shares.append(100 * max(0.0, carried - max(by_sample) - sent) / carried)
    return max(shares, default=None)


def _max_load_bytes_on_wire(data: TrialData, endpoint: str, samples: Sequence[Sample]) -> float | None:
    """Return the most bytes that an endpoint's load can have put on the wire, headers included.

    Bytes that the load passed to the kernel may leave earlier or later. For TCP the result is therefore at
    least the sum of acknowledged, outstanding and retransmitted bytes.
    """
    flows = [flow for flow in data.flows if flow.endpoint == endpoint]
    packets = sum_known_values(*(flow.total(kind) for flow in flows for kind in _SENT_PACKET_COUNTERS))
    if packets is None:
        return None
    tcp_bytes = sum(_max_tcp_bytes_sent(flow) for flow in flows if flow.role == "source")
    return max(tcp_bytes, sum(x.bytes_sent for x in samples)) + _MAX_HEADER_BYTES * packets


def _max_bytes_from_unobserved_endpoints(data: TrialData) -> float | None:
    """Return the most bytes that endpoints without an agent, iperf3 servers, can have put on the wire.

    Each segment that the others received, a repeated one too, has at most the maximum segment size.
    """
    observed = {endpoint.name for endpoint, _ in data.steady_part.endpoints}
    if all(each.name in observed or each.role == OBSERVE for each in data.steady_part.trial.endpoints):
        return None
    return sum_known_values(
        *(
            segments * ((flow.mss_bytes or 0.0) + _MAX_HEADER_BYTES)
            for flow in data.flows
            if (segments := flow.total("segments_in")) is not None
        )
    )


def _max_tcp_bytes_sent(flow: Flow) -> float:
    outstanding = (flow.values("unacked") or [0.0])[-1]
    segments = outstanding + (flow.total("retransmits") or 0.0)
    return (flow.total("bytes_acked") or 0.0) + segments * (flow.mss_bytes or 0.0)


def _busiest_port_rate_variation(ports: Sequence[Port]) -> float | None:
    busiest = max(ports, key=lambda port: port.mean_rate(*_INTERFACE_BYTE_COUNTERS) or 0.0, default=None)
    return (
        None
        if busiest is None
        else coefficient_of_variation(busiest.rates_per_complete_sample(*_INTERFACE_BYTE_COUNTERS))
    )


def _loss_and_reordering_values(data: TrialData) -> EvidenceValues:
    retransmits = sum_known_values(*(flow.total("retransmits") for flow in data.tcp_senders))
    spurious = sum_known_values(*(flow.total("dsack_dups") for flow in data.tcp_senders))
    out_of_order = sum_known_values(*(flow.total("rcv_ooopack") for flow in data.tcp_receivers))
    reordering_events = sum_known_values(*(flow.total("reord_seen") for flow in data.tcp_senders))
    segments = sum_known_values(*(flow.total("segments_in") for flow in data.tcp_receivers))
    reordered_percent = data.metrics.get("reordered_percent")
    if reordered_percent is None:
        reordered_percent = percent(out_of_order, segments)
    path_loss_percent = _unexplained_path_loss_percent(data, retransmits, spurious)
    lost_percent = data.metrics.get("loss_percent", 0.0)
    return {
        "loss_percent": data.metrics.get("loss_percent", data.metrics.get("frame_loss_percent")),
        "path_loss_percent": path_loss_percent,
        "uncounted_loss_percent": percent(path_loss_percent, lost_percent)
        if lost_percent >= _MIN_LOCATED_LOSS_PERCENT
        else None,
        "reordered_percent": reordered_percent,
        "reordering_events_per_s": ratio(reordering_events, data.steady_part.duration_s),
        "spurious_retransmit_percent": percent(spurious, retransmits) if retransmits else None,
    }


def _unexplained_path_loss_percent(
    data: TrialData, retransmitted_segments: float | None, spurious_retransmits: float | None
) -> float | None:
    """Return the loss that no counter of drops explains.

    A packet that is dropped before its segmentation counts as all segments that it can hold.
    """
    sent = sum_known_values(*(flow.total("segments_out") for flow in data.tcp_senders))
    if retransmitted_segments is not None and sent:
        senders = data.steady_part.senders
        packets = sum_known_values(*(total_of_counter(samples, "tx_packets") for _, samples in senders))
        mss_bytes = smallest(flow.mss_bytes for flow in data.tcp_senders)
        segments_per_drop = 1.0
        if mss_bytes and sent > _MIN_UNSEGMENTED_PACKET_SEGMENTS * (packets or sent):
            segments_per_drop = LARGEST_PACKET_BYTES / mss_bytes
        lost = retransmitted_segments - (spurious_retransmits or 0.0)
        return 100 * max(0.0, lost - segments_per_drop * _count_drops_on_path(data)) / sent
    if (lost_percent := data.metrics.get("loss_percent")) is None:
        return None
    sent = data.steady_part.duration_s * (data.metrics.get("datagrams_sent_per_s") or 1.0)
    at_sockets = data.metrics.get("socket_drop_percent", 0.0)
    return max(0.0, lost_percent - at_sockets - 100 * _count_drops_on_path(data) / sent)


def _count_drops_on_path(data: TrialData) -> float:
    part = data.steady_part
    rates = [
        counter_rate_per_s(samples, *_PATH_DROP_COUNTERS)
        for _, samples in (*part.endpoints, *part.forwarding_guest_observers)
    ]
    rates += [counter_rate_per_s(kernel.samples, "softnet_dropped") for kernel in data.kernels]
    rates += [port.mean_rate("drops") for port in data.ports[len(part.endpoints) :]]
    rates += [data.metrics.get("switch_drops_per_s"), unsampled_queue_drops_per_s(data)]
    return part.duration_s * (sum_known_values(*rates) or 0.0)
