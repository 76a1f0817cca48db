"""Evidence of packets: their sizes, offloads, CPUs and queues, and drops at the receiver."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    effective_knob_value,
    is_any_knob_off,
    largest,
    percent,
    ratio,
    smallest,
    sum_known_values,
    to_number,
    total_of_counter,
)
from vnetbench.estimate.evidence.flows import Flow
from vnetbench.estimate.evidence.kernels import ObservedKernel
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import HOST, EndpointRecord, Sample

_MIN_RECEIVE_CPU_PACKET_PERCENT = 5.0
"""A CPU that receives a smaller share of the packets handles only reverse traffic such as ACKs."""
_RECEIVE_QUEUE_COUNTER_PATTERN = re.compile(
    r"rx_queue_(\d+)_(?:xdp_)?packets|rx-?(\d+)[_.]packets|queue_(\d+)_rx_cnt|Rx Queue#(\d+) ucast pkts rx"
)
"""Name of a receive queue's packet counter with its number, in virtio-net and veth, igb, ixgbe, mlx5 and
i40e, ena, vmxnet3."""
_INTERFACE_DROP_COUNTERS = ("rx_dropped", "tx_dropped", "rx_errors", "tx_errors")
_MTU_ERROR_COUNTERS = ("ip_fragments_failed", "icmp_in_unreachable", "tcp_mtu_probes_failed")
_OFFLOAD_METRIC_DEFINITIONS = (
    ("tso_off", ("tso",), "senders", "TSO off", "1 if TCP segmentation offload (TSO) is off at a sender"),
    ("gso_off", ("gso",), "senders", "GSO off", "1 if generic segmentation offload (GSO) is off at a sender"),
    ("gro_off", ("gro",), "receivers", "GRO off", "1 if generic receive offload (GRO) is off at a receiver"),
    ("lro_off", ("lro",), "receivers", "LRO off", "1 if large receive offload (LRO) is off at a receiver"),
    ("checksum_off", ("tx_checksum", "rx_checksum"), "endpoints", "checksums in software",
     "1 if transmit or receive checksum offload is off at an endpoint"),
)  # fmt: skip
"""Name of the metric, its knobs, the endpoints that it covers, its label, and its meaning."""

PACKET_EVIDENCE_METRICS = (
    EvidenceMetric(
        "segment_bytes_sent",
        "B",
        "size of sent packets",
        "mean size of the packets passed to the senders' interfaces, before segmentation by the adapter",
        ("tx_bytes", "tx_packets"),
    ),
    EvidenceMetric(
        "segment_bytes_received",
        "B",
        "size of received packets before GRO",
        "mean size of the packets that the receivers' interfaces deliver, before GRO",
        ("rx_bytes", "rx_packets"),
    ),
    EvidenceMetric(
        "mss_bytes", "B", "maximum segment size", "largest payload of a TCP segment", ("mss", "mss_bytes")
    ),
    EvidenceMetric(
        "segments_per_packet",
        "1",
        "segments per sent packet",
        "number of TCP segments per packet that is passed to the senders' interfaces. It is 1 if TCP itself "
        "segments",
        ("segments_out", "tx_packets"),
    ),
    EvidenceMetric(
        "segments_per_packet_received",
        "1",
        "sent segments per received packet before GRO",
        "number of sent TCP segments per packet that the receivers' interfaces deliver, before GRO",
        ("segments_out", "rx_packets"),
    ),
    EvidenceMetric(
        "packets_per_s",
        "1/s",
        "received packets",
        "packets per second that the receivers' interfaces receive, sum of all receivers",
        ("rx_packets",),
    ),
    EvidenceMetric("mtu_bytes", "B", "MTU", "smallest MTU of the endpoints' interfaces", ("mtu",)),
    EvidenceMetric(
        "switch_mtu_bytes", "B", "MTU of the switch", "MTU of the virtual switch's ports", ("vswitch_mtu",)
    ),
    *(
        EvidenceMetric(name, YES_OR_NO_UNIT, label, meaning, knobs)
        for name, knobs, _, label, meaning in _OFFLOAD_METRIC_DEFINITIONS
    ),
    EvidenceMetric(
        "softnet_dropped_per_s",
        "1/s",
        "packets dropped by full CPU backlogs",
        "packets per second that were dropped because the backlog queue of the receiving CPU was full, sum "
        "of all CPUs",
        ("softnet_dropped",),
    ),
    EvidenceMetric(
        "softnet_squeezed_per_s",
        "1/s",
        "softirq runs that left packets waiting",
        "softirq runs per second that used up their budget with packets left (time_squeeze), sum of all CPUs",
        ("softnet_squeezed",),
    ),
    EvidenceMetric(
        "receive_buffer_errors_per_s",
        "1/s",
        "datagrams dropped by full socket buffers",
        "datagrams per second that were dropped because a socket buffer in a receiver's network namespace "
        "was full, sum of all receivers",
        ("udp_receive_buffer_errors",),
    ),
    EvidenceMetric(
        "socket_drop_percent",
        "% of datagrams",
        "share of the datagrams dropped at the socket",
        "share of the datagrams that were dropped because the sink's socket buffer was full",
        ("socket_drops", "datagrams"),
    ),
    EvidenceMetric(
        "interface_drops_per_s",
        "1/s",
        "packets dropped at endpoints' interfaces",
        "packets per second that the endpoints' interfaces dropped or counted as errors, sum of all "
        "endpoints. Absent with frame workloads",
        _INTERFACE_DROP_COUNTERS,
    ),
    EvidenceMetric(
        "switch_drops_per_s",
        "1/s",
        "packets dropped at the switch",
        "packets per second that the interfaces between the endpoints dropped (ports, taps, uplinks), sum "
        "of all interfaces. Absent with frame workloads",
        ("interfaces[].rx_dropped", "interfaces[].tx_dropped"),
    ),
    EvidenceMetric(
        "busiest_receive_cpu_percent",
        "% of packets",
        "packets on the busiest receiving CPU",
        "share of a receiving kernel's packets that one CPU receives, of the CPU with the most. Absent with "
        "one CPU",
        ("cpu[].softnet_processed",),
    ),
    EvidenceMetric(
        "receive_cpus",
        "1",
        "CPUs that receive packets",
        f"number of CPUs of a receiving kernel that receive {_MIN_RECEIVE_CPU_PACKET_PERCENT:g} % of its "
        "packets or more, in the kernel whose busiest CPU has the largest share",
        ("cpu[].softnet_processed",),
    ),
    EvidenceMetric(
        "busiest_queue_percent",
        "% of packets",
        "packets in the busiest receive queue",
        "share of a receiver's packets in its busiest receive queue, from the kernel's or the driver's "
        "counters of the whole trial",
        ("queues", "adapter"),
    ),
    EvidenceMetric(
        "receive_queues",
        "1",
        "receive queues",
        "number of receive queues of a receiver's interface, of the interface with the fewest",
        ("queues", "adapter"),
    ),
    EvidenceMetric(
        "stalled_percent",
        "% of samples",
        "samples without progress",
        "share of the streams' samples in which data waited and no acknowledgement arrived",
        ("bytes_acked", "unacked", "notsent_bytes"),
    ),
    EvidenceMetric(
        "max_backoff",
        "1",
        "timeouts in a row",
        "number of successive doublings of the retransmission timeout, of the stream with the most",
        ("backoff",),
    ),
    EvidenceMetric(
        "mtu_errors_per_s",
        "1/s",
        "MTU errors",
        "failed fragmentations, received ICMP destination-unreachable messages and failed MTU probes per "
        "second, sum of all endpoints",
        _MTU_ERROR_COUNTERS,
    ),
    EvidenceMetric(
        "checksum_errors_per_s",
        "1/s",
        "datagrams with a wrong checksum",
        "datagrams with a wrong checksum per second, sum of all endpoints",
        ("udp_checksum_errors",),
    ),
    EvidenceMetric(
        "cycles_per_byte",
        "cycles/B",
        "cycles per byte",
        "CPU cycles of the whole host per byte that arrived",
        ("cycles", "bytes_received"),
    ),
)


def packet_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of PACKET_EVIDENCE_METRICS."""
    part, metrics, kernels, flows = data.steady_part, data.metrics, data.kernels, data.tcp_senders
    # With frames, both ends of a virtual link count the same frame, and a drop counter may include frames
    # that a sink's program received. `frames.py` locates frame losses instead.
    interface_drops: EvidenceValues = {
        "interface_drops_per_s": _sum_of_endpoint_rates_per_s(part.endpoints, *_INTERFACE_DROP_COUNTERS),
        "switch_drops_per_s": metrics.get("switch_drops_per_s"),
    }
    return {
        **_packet_size_values(part, flows),
        **_mtu_and_offload_values(part),
        **_packet_spread_over_receive_cpus(part, kernels),
        **_receive_queue_values(part),
        **{name: metrics.get(name) for name in ("socket_drop_percent", "cycles_per_byte")},
        "softnet_dropped_per_s": sum_known_values(
            *(counter_rate_per_s(k.samples, "softnet_dropped") for k in kernels)
        ),
        "softnet_squeezed_per_s": sum_known_values(
            *(counter_rate_per_s(k.samples, "softnet_squeezed") for k in kernels)
        ),
        "receive_buffer_errors_per_s": _sum_of_endpoint_rates_per_s(
            part.receivers, "udp_receive_buffer_errors"
        ),
        **({} if data.frame_losses else interface_drops),
        "stalled_percent": _stalled_percent(flows),
        "max_backoff": largest(value for flow in flows for value in flow.values("backoff")),
        "mtu_errors_per_s": _sum_of_endpoint_rates_per_s(
            (*part.endpoints, *part.forwarding_guest_observers), *_MTU_ERROR_COUNTERS
        ),
        "checksum_errors_per_s": _sum_of_endpoint_rates_per_s(part.endpoints, "udp_checksum_errors"),
    }


def _stalled_percent(flows: Sequence[Flow]) -> float | None:
    """Return the share of stream samples with unacknowledged or unsent data and no acknowledgement."""
    samples = [x.details for flow in flows for x in flow.samples if "bytes_acked" in x.details]
    stalled = [x for x in samples if not x["bytes_acked"] and (x.get("unacked") or x.get("notsent_bytes"))]
    return percent(len(stalled), len(samples))


def _packet_size_values(part: SteadyPart, flows: Sequence[Flow]) -> EvidenceValues:
    sender_samples = [x for _, samples in part.senders for x in samples]
    receiver_samples = [x for _, samples in part.receivers for x in samples]
    tx_packets = total_of_counter(sender_samples, "tx_packets")
    rx_packets = total_of_counter(receiver_samples, "rx_packets")
    segments = sum_known_values(*(flow.total("segments_out") for flow in flows))
    return {
        "segment_bytes_sent": ratio(total_of_counter(sender_samples, "tx_bytes"), tx_packets),
        "segment_bytes_received": ratio(total_of_counter(receiver_samples, "rx_bytes"), rx_packets),
        "mss_bytes": smallest(flow.mss_bytes for flow in flows),
        "segments_per_packet": ratio(segments, tx_packets),
        "segments_per_packet_received": ratio(segments, rx_packets),
        "packets_per_s": _sum_of_endpoint_rates_per_s(part.receivers, "rx_packets"),
    }


def _mtu_and_offload_values(part: SteadyPart) -> EvidenceValues:
    names = {
        "senders": [endpoint.name for endpoint, _ in part.senders],
        "receivers": [endpoint.name for endpoint, _ in part.receivers],
        "endpoints": [endpoint.name for endpoint, _ in part.endpoints],
    }
    return {
        "mtu_bytes": smallest(
            to_number(effective_knob_value(part.trial, "mtu", name)) for name in names["endpoints"]
        ),
        "switch_mtu_bytes": to_number(part.trial.effective.get("vswitch_mtu")),
        **{
            metric: is_any_knob_off(part.trial, knobs, names[group])
            for metric, knobs, group, _, _ in _OFFLOAD_METRIC_DEFINITIONS
        },
    }


def _packet_spread_over_receive_cpus(part: SteadyPart, kernels: Sequence[ObservedKernel]) -> EvidenceValues:
    by_name = {kernel.endpoint_or_host: kernel for kernel in kernels}
    receiving = [by_name.get(endpoint.name, by_name.get(HOST)) for endpoint, _ in part.receivers]
    by_kernel = [
        packets
        for kernel in receiving
        if kernel and len(packets := _received_packets_of_each_cpu(kernel.samples)) > 1
    ]
    if not any(map(sum, by_kernel)):
        return {}
    packets = max(by_kernel, key=lambda each: max(each) / (sum(each) or 1))
    percents = [100 * count / sum(packets) for count in packets]
    return {
        "busiest_receive_cpu_percent": max(percents),
        "receive_cpus": sum(each >= _MIN_RECEIVE_CPU_PACKET_PERCENT for each in percents),
    }


def _received_packets_of_each_cpu(samples: Sequence[Sample]) -> list[float]:
    packets: dict[float, float] = {}
    for sample in samples:
        for cpu in sample.cpu:
            if "softnet_processed" in cpu:
                packets[cpu["cpu"]] = packets.get(cpu["cpu"], 0.0) + cpu["softnet_processed"]
    return list(packets.values())


def _receive_queue_values(part: SteadyPart) -> EvidenceValues:
    by_receiver = [_received_packets_of_each_queue(endpoint) for endpoint, _ in part.receivers]
    settings = [
        to_number(effective_knob_value(part.trial, "queues", endpoint.name)) for endpoint, _ in part.receivers
    ]
    return {
        "busiest_queue_percent": largest(
            percent(max(packets, default=0.0), sum(packets)) for packets in by_receiver
        ),
        "receive_queues": smallest(settings) or smallest(len(packets) or None for packets in by_receiver),
    }


def _received_packets_of_each_queue(endpoint: EndpointRecord) -> Collection[float]:
    """Return the packets of each receive queue.

    The counts are those of the kernel, or else of the driver. The agent reports only driver counters that
    changed, so queues without packets are missing there.
    """
    queues = endpoint.totals.get("queues")
    if isinstance(queues, list) and queues:
        return [float(each["packets"]) for each in queues if each["direction"] == "rx"]
    adapter = endpoint.totals.get("adapter")
    packets: dict[str, float] = {}
    for name, count in adapter.items() if isinstance(adapter, Mapping) else ():
        if match := _RECEIVE_QUEUE_COUNTER_PATTERN.fullmatch(name):
            queue = next(filter(None, match.groups()))
            # virtio-net counts packets for an XDP program under both names.
            packets[queue] = max(packets.get(queue, 0.0), float(count))
    return packets.values()


def _sum_of_endpoint_rates_per_s(endpoints: SteadySamples, *counters: str) -> float | None:
    return sum_known_values(*(counter_rate_per_s(samples, *counters) for _, samples in endpoints))
