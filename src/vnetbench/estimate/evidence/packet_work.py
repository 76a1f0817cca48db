"""Evidence of work per packet on the path: rules that each packet passes, and packets that a port splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    largest,
    median,
    percent,
    ratio,
    smallest,
    sum_known_values,
    to_number,
    total_of_counter,
)
from vnetbench.estimate.evidence.flows import median_over_flows
from vnetbench.estimate.evidence.kernels import INTERRUPT_TIME_COUNTERS, ObservedKernel
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.queue_directions import DATA, classify_sent_traffic
from vnetbench.estimate.evidence.shapers import (
    LARGEST_PACKET_BYTES,
    endpoints_on_path,
    interface_counts_unsegmented_packets,
    path_state,
    qdiscs_on_path,
)
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import HOST, EndpointRecord, Sample

_SECONDS_PER_RULE = 10e-9
"""Rough CPU time of one firewall rule that does not match: 5 to 20 ns on CPUs of the last ten years."""
_SECONDS_PER_FILTER = 3 * _SECONDS_PER_RULE
"""Rough CPU time of one filter of traffic control that does not match: each is an indirect call."""
_IP_AND_TCP_HEADER_BYTES = 60
"""IPv6 and TCP without options. With IPv4, segments can be 20 bytes larger."""

_PACED_PACKET_S = 1 / 1024
"""Time in which the pacing rate permits one packet (sk_pacing_shift of 10)."""
_MIN_PACED_SEGMENTS = 2
"""Segments of a packet at any pacing rate (net.ipv4.tcp_min_tso_segs)."""

PACKET_WORK_EVIDENCE_METRICS = (
    EvidenceMetric(
        "filter_work_percent",
        "% of work",
        "estimated work in firewall rules and filters",
        "packets per second of a hop, times 10 ns for each firewall rule and 30 ns for each filter of "
        "traffic control that a packet passes there, of the hop with the most, as a share of the CPU time "
        "of the load and of its packets. It is an upper limit where rules have no counters. At most 100 %",
        (
            "rx_packets",
            "tx_packets",
            "path_state.netfilter_rules_per_packet",
            "path_state.netfilter_rules",
            "path_state.qdiscs[].filters",
            "path_state.qdiscs[].sent_packets",
            "cpu",
        ),
    ),
    EvidenceMetric(
        "interrupt_us_per_packet",
        "µs",
        "interrupt time per packet",
        "time that the CPUs spend in interrupts, divided by the packets that the kernel processed, of the "
        "kernel with the most. It includes rules, filters, captures and the forwarding itself",
        ("softnet_processed", "cpu[].softirq_s", "cpu[].irq_s"),
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
        "packet_share_of_permitted_percent",
        "% of the size",
        "size of large packets (TSO, GSO)",
        "TCP payload of a packet that the sender passes to its interface, as a share of the largest possible "
        "size: 64 KiB, the bytes of a send call, a third of the congestion window, half of the receive "
        "window, or 1 ms of the pacing rate, whichever is smallest. Known only if the interface counts "
        "packets before TSO divides them (a veth interface, or GSO off), and sends nothing else. "
        "At most 100 %",
        ("mss_bytes", "segments_out", "tx_packets", "cwnd", "snd_wnd_bytes", "pacing_rate_bps"),
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
    segment_percent = percent(known.get("mss_bytes"), _permitted_segment_bytes(known))
    return {
        "filter_work_percent": _filter_percent_of_load_work(data, known),
        "interrupt_us_per_packet": largest(_irq_and_softirq_us_per_packet(kernel) for kernel in data.kernels),
        "segment_share_of_mtu_percent": None if segment_percent is None else min(100.0, segment_percent),
        "packet_share_of_permitted_percent": _packet_bytes_percent_of_permitted_bytes(data, known),
        "split_at_port_ratio": _split_at_port_ratio(data),
    }


def work_location_by_metric(data: TrialData) -> dict[str, str]:
    """Return where these metrics were measured: the hop with the most work, and the kernel of the packets."""
    hop = _hop_with_most_filter_work(data)
    locations = {"filter_work_percent": hop.hop_name} if hop is not None and hop.cpus else {}
    times = [
        (_irq_and_softirq_us_per_packet(kernel) or 0.0, kernel.endpoint_or_host) for kernel in data.kernels
    ]
    most_us, name = max(times, default=(0.0, ""))
    return locations | {"interrupt_us_per_packet": name} if most_us else locations


@dataclass(frozen=True)
class _HopFilterWork:
    """A hop, and the CPU time of its rules and filters."""

    hop_name: str
    cpus: float
    """Estimated CPU time, as a number of CPUs."""


def _filter_percent_of_load_work(data: TrialData, known: EvidenceValues) -> float | None:
    """Return the work in rules and filters of the hop with the most, as a share of the load's work."""
    hop = _hop_with_most_filter_work(data)
    work_percent = sum_known_values(
        known.get("load_cpus_load_percent"), known.get("load_cpus_packets_percent")
    )
    work_cpus = (known.get("load_cpus") or 0.0) * (work_percent or 0.0) / 100
    if hop is None or not work_cpus:
        return None
    return min(100.0, 100 * hop.cpus / work_cpus)


def _hop_with_most_filter_work(data: TrialData) -> _HopFilterWork | None:
    hops = [
        _HopFilterWork(endpoint.name, cpus)
        for endpoint in endpoints_on_path(data.steady_part)
        if (cpus := _cpus_used_by_rules_and_filters(data, endpoint)) is not None
    ]
    return max(hops, key=lambda hop: hop.cpus, default=None)


def _cpus_used_by_rules_and_filters(data: TrialData, endpoint: EndpointRecord) -> float | None:
    """Return the CPU time of a hop's rules and filters as a number of CPUs; None without its counters."""
    state, packets_per_s = path_state(endpoint), _packets_per_s(data, endpoint.name)
    passed = to_number(state.get("netfilter_rules_per_packet"))
    # An older agent reports only how many rules there are.
    rules = to_number(state.get("netfilter_rules")) if passed is None else passed
    filters_per_s = _tc_filter_passes_per_s(data, endpoint, packets_per_s)
    return sum_known_values(
        None if rules is None or packets_per_s is None else _SECONDS_PER_RULE * rules * packets_per_s,
        None if filters_per_s is None else _SECONDS_PER_FILTER * filters_per_s,
    )


def _packets_per_s(data: TrialData, hop_name: str) -> float | None:
    """Return the packets per second that a hop receives and sends."""
    if hop_name == HOST:
        ports = data.ports[len(data.steady_part.endpoints) :]
        return sum_known_values(*(port.mean_rate("rx_packets", "tx_packets") for port in ports))
    own = (*data.steady_part.endpoints, *data.steady_part.forwarding_guest_observers)
    samples = next((samples for endpoint, samples in own if endpoint.name == hop_name), ())
    return counter_rate_per_s(samples, "rx_packets", "tx_packets")


def _tc_filter_passes_per_s(
    data: TrialData, endpoint: EndpointRecord, packets_per_s: float | None
) -> float | None:
    """Return how often per second a packet passes a filter of traffic control at a hop.

    A packet passes the filters of a queueing discipline that it crosses. The kernel counts segments there, so
    the packets of the hop are the limit.
    """
    qdiscs = qdiscs_on_path(data, endpoint)
    duration_s = data.steady_part.trial.duration_s
    if "interfaces" not in path_state(endpoint):
        # An older agent does not report which queueing disciplines have filters.
        count = to_number(path_state(endpoint).get("tc_filters"))
        return None if count is None or packets_per_s is None else count * packets_per_s
    passes = 0.0
    for qdisc in qdiscs:
        crossing_per_s = ratio(to_number(qdisc.get("sent_packets")), duration_s)
        per_s = smallest((crossing_per_s, packets_per_s))
        passes += (to_number(qdisc.get("filters")) or 0.0) * (per_s or 0.0)
    return passes


def _irq_and_softirq_us_per_packet(kernel: ObservedKernel) -> float | None:
    """Return the time of a kernel's CPUs in interrupts for each packet that it processed, in µs."""
    interrupts_s = sum(
        times.get(kind, 0.0)
        for times in kernel.cpu_seconds_by_cpu_and_state.values()
        for kind in INTERRUPT_TIME_COUNTERS
    )
    per_packet_s = ratio(interrupts_s, total_of_counter(kernel.samples, "softnet_processed"))
    return None if per_packet_s is None else 1e6 * per_packet_s


def _permitted_segment_bytes(known: EvidenceValues) -> float | None:
    """Return the segment size that the MTU and the receive window permit; None without an MTU.

    Linux sends no segment above half of the largest window (include/net/tcp.h, tcp_bound_to_half_wnd).
    """
    mtu_bytes, window_bytes = known.get("mtu_bytes"), known.get("peer_window_bytes")
    if mtu_bytes is None:
        return None
    return smallest((mtu_bytes - _IP_AND_TCP_HEADER_BYTES, window_bytes / 2 if window_bytes else None))


def _packet_bytes_percent_of_permitted_bytes(data: TrialData, known: EvidenceValues) -> float | None:
    """Return the payload of a sent packet as a share of the largest possible size; None if any is unknown.

    A send call gives the kernel its bytes at once. Linux waits for a larger packet, up to a third of the
    congestion window (net/ipv4/tcp_output.c, tcp_tso_should_defer), but sends at most about 1 ms of the
    pacing rate in one packet (tcp_tso_autosize). Since Linux 5.18 it adds to this on short round trips, which
    makes the share larger here.
    """
    if not _sent_packets_are_large_packets_of_load(data):
        return None
    names = ("mss_bytes", "segments_per_packet", "bytes_per_call", "window_bytes", "peer_window_bytes")
    mss, segments, call, window, peer_window = (known.get(name) for name in names)
    pacing_bps = median_over_flows(data.tcp_senders, lambda flow: median(flow.values("pacing_rate_bps")))
    if not (mss and segments and call and window and peer_window and pacing_bps):
        return None
    paced_bytes = max(_MIN_PACED_SEGMENTS * mss, pacing_bps / 8 * _PACED_PACKET_S)
    permitted_bytes = min(LARGEST_PACKET_BYTES, call, window / 3, peer_window / 2, paced_bytes)
    # Full segments only, and at least one.
    permitted_bytes = max(mss, permitted_bytes // mss * mss)
    return min(100.0, 100 * segments * mss / permitted_bytes)


def _sent_packets_are_large_packets_of_load(data: TrialData) -> bool:
    """Return whether the senders' interfaces count packets before TSO divides them, and only of the load.

    With transfers in both directions they also count acknowledgements, and with `mixed` requests.
    """
    senders = {flow.endpoint for flow in data.tcp_senders}
    is_one_way = not senders & {flow.endpoint for flow in data.tcp_receivers}
    return (
        is_one_way
        and not any(flow.load_part for flow in data.tcp_senders)
        and all(
            interface_counts_unsegmented_packets(data, endpoint) for endpoint, _ in data.steady_part.senders
        )
    )


def _split_at_port_ratio(data: TrialData) -> float | None:
    sent = largest(_bytes_per_packet_sent(samples) for _, samples in data.steady_part.senders)
    ports = data.ports[len(data.steady_part.endpoints) :]
    ratios = [
        ratio(sent, ratio(port.mean_rate("tx_bytes"), port.mean_rate("tx_packets")))
        for port in ports
        if classify_sent_traffic(port) == DATA
    ]
    return largest(ratios)


def _bytes_per_packet_sent(samples: Sequence[Sample]) -> float | None:
    return ratio(total_of_counter(samples, "tx_bytes"), total_of_counter(samples, "tx_packets"))
