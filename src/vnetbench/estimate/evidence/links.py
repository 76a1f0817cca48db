"""Evidence of links: queues before them, what else they carry, and what the path itself lost or reordered."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_total,
    median,
    percent,
    rate_per_s,
    ratio,
    smallest,
    sum_known,
)
from vnetbench.estimate.evidence.flows import Flow
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.ports import Port
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.evidence.window import variation_percent
from vnetbench.results.records import Sample

_UPLINK = "uplink"
"""The role of such an interface in a testbed's description (`lab/description.py`)."""
_PACKETS_SENT = ("segments_out", "datagrams", "frames_sent")
_BOTH_WAYS = ("rx_bytes", "tx_bytes")
_CUT_LATE = 1.5
"""From so many segments a packet on, packets leave the sender's stack uncut."""
_LARGEST_BYTES = 65536
"""Of such a packet (GSO_LEGACY_MAX_SIZE, include/linux/netdevice.h)."""
_HEADERS_BYTES = 80
"""Of Ethernet, IPv6 and TCP with its usual options, or of UDP: as much as a packet carries beside payload."""
_LOST_ON_THE_WAY = ("qdisc_drops", "rx_dropped", "tx_dropped", "tcp_backlog_drop", "tcp_rcv_pruned")

LINK_METRICS = (
    EvidenceMetric(
        "backlog_bytes",
        "B",
        "queue before a link",
        "bytes that wait in a queueing discipline, median of the samples, where they are the most",
        ("qdisc_backlog_bytes", "interfaces[].qdisc.backlog_bytes"),
    ),
    EvidenceMetric(
        "backlog_delay_us",
        "µs",
        "wait in this queue",
        "these bytes over the rate at which they leave",
        ("qdisc_backlog_bytes", "tx_bytes", "interfaces[].qdisc.backlog_bytes", "interfaces[].tx_bytes"),
    ),
    EvidenceMetric(
        "overlimits_per_s",
        "1/s",
        "held back by a shaper",
        "how often a queueing discipline held a packet back, median of the samples, all of them together",
        ("qdisc_overlimits", "interfaces[].qdisc.overlimits"),
    ),
    EvidenceMetric(
        "qdisc_drops_per_s",
        "1/s",
        "dropped before a link",
        "packets that queueing disciplines dropped, all of them",
        ("qdisc_drops", "interfaces[].qdisc.drops"),
    ),
    EvidenceMetric(
        "uplinks",
        "1",
        "uplinks",
        "uplinks between the switches",
        ("interfaces[].tx_bytes",),
    ),
    EvidenceMetric(
        "busiest_uplink_percent",
        "% of bytes",
        "bytes on one uplink",
        "share of the bytes of all uplinks that one of them carries",
        ("interfaces[].rx_bytes", "interfaces[].tx_bytes"),
    ),
    EvidenceMetric(
        "foreign_traffic_percent",
        "% of bytes",
        "other traffic",
        "of the bytes of an interface on the path, those that are more than the test can have sent in "
        "all, where they are the most; but for as much as one sample, as samples are taken a moment apart",
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
        "loss",
        "share of the datagrams, or frames, that did not arrive",
        ("lost", "datagrams", "frames_sent", "frames_received"),
    ),
    EvidenceMetric(
        "path_loss_percent",
        "%",
        "lost and nowhere counted",
        "share of the segments that were sent again, or of the datagrams that were lost, less those that "
        "were sent again for nothing and those that a socket, a CPU's backlog, an interface or a queueing "
        "discipline counted as dropped",
        ("retransmits", "dsack_dups", "lost", "socket_drops", "softnet_dropped", *_LOST_ON_THE_WAY),
    ),
    EvidenceMetric(
        "reordered_percent",
        "%",
        "out of order",
        "share of the segments, datagrams or frames that arrived after one that was sent later; after a loss "
        "segments of TCP do too",
        ("rcv_ooopack", "segments_in", "reordered"),
    ),
    EvidenceMetric(
        "reordering_seen_per_s",
        "1/s",
        "reordering noticed",
        "how often senders noticed that segments were not lost but late",
        ("reord_seen",),
    ),
    EvidenceMetric(
        "spurious_percent",
        "% of segments sent again",
        "sent again for nothing",
        "share of the segments that were sent again of which the receiver said that it had them already",
        ("dsack_dups", "retransmits"),
    ),
    EvidenceMetric(
        "link_variation_percent",
        "%",
        "variation of the link",
        "standard deviation over mean of all bytes through the interface on the path that carries the most, "
        "of the samples",
        ("interfaces[].rx_bytes", "interfaces[].tx_bytes", "rx_bytes", "tx_bytes"),
    ),
)


def link_evidence(case: TrialData) -> EvidenceValues:
    """The figures of LINK_FIGURES."""
    return {
        **_of_queues(case.ports),
        **_of_uplinks(case.ports),
        **_of_loss(case),
        "foreign_traffic_percent": _foreign(case),
        "link_variation_percent": _variation(case.ports),
    }


def _of_queues(ports: Sequence[Port]) -> EvidenceValues:
    figures: EvidenceValues = {
        "overlimits_per_s": sum_known(*(median(port.sample_rates("overlimits")) for port in ports)),
        "qdisc_drops_per_s": sum_known(*(port.mean_rate("drops") for port in ports)),
    }
    if waiting := [(backlog, port) for port in ports if (backlog := port.backlog_bytes) is not None]:
        backlog, longest = max(waiting, key=lambda each: each[0])
        figures |= {
            "backlog_bytes": backlog,
            "backlog_delay_us": ratio(1e6 * backlog, longest.mean_rate("tx_bytes")),
        }
    return figures


def _of_uplinks(ports: Sequence[Port]) -> EvidenceValues:
    """Of the direction in which they carry the most."""
    ways: dict[str, list[float]] = {}
    for port in ports:
        if port.role == _UPLINK:
            ways.setdefault(port.leads_to, []).append(port.mean_rate("tx_bytes") or 0.0)
    carried = max(ways.values(), key=sum, default=[])
    return {
        "uplinks": len(carried) or None,
        "busiest_uplink_percent": percent(max(carried, default=0.0), sum(carried)),
    }


def _foreign(case: TrialData) -> float | None:
    """The share of what an interface carries that cannot be of the test, whichever way that goes.

    Agents' samples begin and end a moment apart: as much as one of them is left out of what is found.
    """
    pairs = {port.name: port.pairs for port in case.ports[: len(case.steady_part.endpoints)]}
    own = {side.name: _most_sent(case, side.name, samples) for side, samples in case.steady_part.endpoints}
    shares = []
    for port in case.ports:
        sent = sum_known(*(own[end] for end in own if not port.pairs or port.pairs & pairs[end]))
        amounts = port.sample_totals(*_BOTH_WAYS)
        carried = sum(amounts)
        if sent is not None and carried > 0:
            shares.append(100 * max(0.0, carried - max(amounts) - sent) / carried)
    return max(shares, default=None)


def _most_sent(case: TrialData, endpoint: str, samples: Sequence[Sample]) -> float | None:
    """Bytes that an endpoint's load can have been on the wire, with headers for each of its packets.

    What it handed to the kernel may have left before or later: so of TCP it may be as much, too, as was
    acknowledged, is on its way at the end, and was sent again.
    """
    flows = [flow for flow in case.flows if flow.endpoint == endpoint]
    packets = sum_known(*(flow.total(kind) for flow in flows for kind in _PACKETS_SENT))
    if packets is None:
        return None
    left = sum(_left_by(flow) for flow in flows if flow.role == "source")
    return max(left, sum(x.bytes_sent for x in samples)) + _HEADERS_BYTES * packets


def _left_by(flow: Flow) -> float:
    on_its_way = (flow.values("unacked") or [0.0])[-1]
    segments = on_its_way + (flow.total("retransmits") or 0.0)
    return (flow.total("bytes_acked") or 0.0) + segments * (flow.mss_bytes or 0.0)


def _variation(ports: Sequence[Port]) -> float | None:
    busiest = max(ports, key=lambda port: port.mean_rate(*_BOTH_WAYS) or 0.0, default=None)
    return None if busiest is None else variation_percent(busiest.sample_rates(*_BOTH_WAYS))


def _of_loss(case: TrialData) -> EvidenceValues:
    again = sum_known(*(flow.total("retransmits") for flow in case.tcp_senders))
    for_nothing = sum_known(*(flow.total("dsack_dups") for flow in case.tcp_senders))
    late = sum_known(*(flow.total("rcv_ooopack") for flow in case.tcp_receivers))
    noticed = sum_known(*(flow.total("reord_seen") for flow in case.tcp_senders))
    segments = sum_known(*(flow.total("segments_in") for flow in case.tcp_receivers))
    datagrams = case.metrics.get("reordered_percent")
    return {
        "loss_percent": case.metrics.get("loss_percent", case.metrics.get("frame_loss_percent")),
        "path_loss_percent": _path_loss(case, again, for_nothing),
        "reordered_percent": percent(late, segments) if datagrams is None else datagrams,
        "reordering_seen_per_s": ratio(noticed, case.steady_part.duration_s),
        "spurious_percent": percent(for_nothing, again) if again else None,
    }


def _path_loss(case: TrialData, again: float | None, for_nothing: float | None) -> float | None:
    """What is lost beside all that is counted as dropped.

    A packet that is dropped before it is cut into segments counts as many as it can hold.
    """
    sent = sum_known(*(flow.total("segments_out") for flow in case.tcp_senders))
    if again is not None and sent:
        packets = sum_known(
            *(counter_total(samples, "tx_packets") for _, samples in case.steady_part.senders)
        )
        mss_bytes = smallest(flow.mss_bytes for flow in case.tcp_senders)
        is_cut_late = sent > _CUT_LATE * (packets or sent) and mss_bytes
        a_packet = _LARGEST_BYTES / mss_bytes if is_cut_late and mss_bytes else 1.0
        return 100 * max(0.0, again - (for_nothing or 0.0) - a_packet * _counted_drops(case)) / sent
    if (lost_percent := case.metrics.get("loss_percent")) is None:
        return None
    sent = case.steady_part.duration_s * (case.metrics.get("datagrams_sent_per_s") or 1.0)
    at_sockets = case.metrics.get("socket_drop_percent", 0.0)
    return max(0.0, lost_percent - at_sockets - 100 * _counted_drops(case) / sent)


def _counted_drops(case: TrialData) -> float:
    ends = (*case.steady_part.endpoints, *case.steady_part.forwarders)
    rates = [rate_per_s(samples, *_LOST_ON_THE_WAY) for _, samples in ends]
    rates += [rate_per_s(kernel.samples, "softnet_dropped") for kernel in case.kernels]
    rates += [port.mean_rate("drops") for port in case.ports[len(case.steady_part.endpoints) :]]
    return case.steady_part.duration_s * (sum_known(*rates, case.metrics.get("switch_drops_per_s")) or 0.0)
