"""Evidence of packets: how large they are, what takes part in cutting and joining them, which CPUs and queues
they come to, and where the receiving end drops them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    any_off,
    counter_total,
    knob_value,
    largest,
    percent,
    rate_per_s,
    ratio,
    smallest,
    sum_known,
    to_number,
)
from vnetbench.estimate.evidence.flows import Flow
from vnetbench.estimate.evidence.kernels import Kernel
from vnetbench.estimate.evidence.metric import YES_OR_NO, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import HOST, EndpointRecord, Sample

_TAKES_PERCENT = 5.0
"""Of the packets: a CPU that takes fewer only looks after what goes back."""
_QUEUE = re.compile(
    r"rx_queue_(\d+)_(?:xdp_)?packets|rx-?(\d+)[_.]packets|queue_(\d+)_rx_cnt|Rx Queue#(\d+) ucast pkts rx"
)
"""A receive queue's count of packets, and its number, as virtio-net and veth, igb, ixgbe, mlx5 and i40e, ena,
and vmxnet3 name it."""
_LOST_AT_INTERFACE = ("rx_dropped", "tx_dropped", "rx_errors", "tx_errors")
_TOO_LARGE = ("ip_fragments_failed", "icmp_in_unreachable", "tcp_mtu_probes_failed")
_OFFLOADS = (
    ("tso_off", ("tso",), "TSO off", "senders", "segmentation by the adapter"),
    ("gso_off", ("gso",), "GSO off", "senders", "segmentation as late as possible"),
    ("gro_off", ("gro",), "GRO off", "receivers", "joining of received segments"),
    ("lro_off", ("lro",), "LRO off", "receivers", "joining of received segments by the adapter"),
    ("checksum_off", ("tx_checksum", "rx_checksum"), "checksums in software", "endpoints",
     "one of the checksum offloads"),
)  # fmt: skip
"""Figure, the knobs, its label, whose they are, and what they do."""

PACKET_METRICS = (
    EvidenceMetric(
        "segment_bytes_sent",
        "B",
        "packet as it is sent",
        "bytes of a packet as the senders' interfaces are handed it, before their adapters cut it",
        ("tx_bytes", "tx_packets"),
    ),
    EvidenceMetric(
        "segment_bytes_received",
        "B",
        "packet as it is received",
        "bytes of a packet as the receivers' interfaces hand it on, before GRO joins it",
        ("rx_bytes", "rx_packets"),
    ),
    EvidenceMetric(
        "mss_bytes", "B", "largest segment", "what TCP puts into a segment at most", ("mss", "mss_bytes")
    ),
    EvidenceMetric(
        "segments_per_packet",
        "1",
        "segments in a packet sent",
        "TCP segments for each packet that the senders' interfaces are handed: 1 where TCP itself cuts",
        ("segments_out", "tx_packets"),
    ),
    EvidenceMetric(
        "segments_per_packet_received",
        "1",
        "segments in a packet received",
        "TCP segments that were sent for each packet that the receivers' interfaces hand on",
        ("segments_out", "rx_packets"),
    ),
    EvidenceMetric(
        "packets_per_s", "1/s", "packets", "packets that the receivers' interfaces take in", ("rx_packets",)
    ),
    EvidenceMetric("mtu_bytes", "B", "MTU", "the smallest of the endpoints' interfaces, read back", ("mtu",)),
    EvidenceMetric("switch_mtu_bytes", "B", "MTU of the switch", "read back", ("vswitch_mtu",)),
    *(
        EvidenceMetric(
            name, YES_OR_NO, label, f"1 where {does} is off at one of the {ends}, read back", knobs
        )
        for name, knobs, label, ends, does in _OFFLOADS
    ),
    EvidenceMetric(
        "softnet_dropped_per_s",
        "1/s",
        "backlog of a CPU overflowed",
        "packets dropped because the queue of the CPU that was to take them in was full",
        ("softnet_dropped",),
    ),
    EvidenceMetric(
        "softnet_squeezed_per_s",
        "1/s",
        "packet processing cut short",
        "how often a CPU's packet processing used up its turn and had more to do",
        ("softnet_squeezed",),
    ),
    EvidenceMetric(
        "receive_buffer_errors_per_s",
        "1/s",
        "UDP buffer overflowed",
        "datagrams dropped because a socket of the receivers' namespaces was full",
        ("udp_receive_buffer_errors",),
    ),
    EvidenceMetric(
        "socket_drop_percent",
        "% of datagrams",
        "dropped at the socket",
        "share of the datagrams that found their sink's socket full",
        ("socket_drops", "datagrams"),
    ),
    EvidenceMetric(
        "interface_drops_per_s",
        "1/s",
        "dropped at endpoints' interfaces",
        "packets that the interfaces of endpoints dropped, or had in error; absent with frames",
        _LOST_AT_INTERFACE,
    ),
    EvidenceMetric(
        "switch_drops_per_s",
        "1/s",
        "dropped at the switch",
        "packets that the interfaces between the endpoints dropped (ports, taps, uplinks); absent with "
        "frames",
        ("interfaces[].rx_dropped", "interfaces[].tx_dropped"),
    ),
    EvidenceMetric(
        "busiest_receive_cpu_percent",
        "% of packets",
        "packets on one CPU",
        "share of all packets of a receiving kernel that one CPU takes in; absent with one CPU only",
        ("cpu[].softnet_processed",),
    ),
    EvidenceMetric(
        "receive_cpus",
        "1",
        "CPUs that take packets",
        f"CPUs of the same kernel that take in {_TAKES_PERCENT:g} % of the packets or more",
        ("cpu[].softnet_processed",),
    ),
    EvidenceMetric(
        "busiest_queue_percent",
        "% of packets",
        "packets in one queue",
        "share of a receiver's packets that came by one of its receive queues, by its kernel's or its "
        "driver's own counts of the whole trial",
        ("queues", "adapter"),
    ),
    EvidenceMetric(
        "receive_queues",
        "1",
        "receive queues",
        "of the receivers' interfaces, the fewest",
        ("queues", "adapter"),
    ),
    EvidenceMetric(
        "stalled_percent",
        "% of samples",
        "stalled",
        "share of a stream's samples in which data waited and nothing was acknowledged",
        ("bytes_acked", "unacked", "notsent_bytes"),
    ),
    EvidenceMetric(
        "backoff_most",
        "1",
        "timeouts in a row",
        "how often a stream doubled its retransmission timeout, the most of all",
        ("backoff",),
    ),
    EvidenceMetric(
        "mtu_refusals_per_s",
        "1/s",
        "packets too large",
        "packets that could not be fragmented, ICMP messages of unreachable destinations, and failed probes "
        "of the MTU, of all endpoints",
        _TOO_LARGE,
    ),
    EvidenceMetric(
        "checksum_errors_per_s",
        "1/s",
        "wrong checksums",
        "datagrams with a wrong checksum, of all endpoints",
        ("udp_checksum_errors",),
    ),
    EvidenceMetric(
        "cycles_per_byte",
        "cycles/B",
        "cycles per byte",
        "all of the host's CPU cycles over the bytes that arrived",
        ("cycles", "bytes_received"),
    ),
)


def packet_evidence(case: TrialData) -> EvidenceValues:
    """The figures of PACKET_FIGURES."""
    part, metrics, kernels, flows = case.steady_part, case.metrics, case.kernels, case.tcp_senders
    return {
        **_of_sizes(part, flows),
        **_of_knobs(part),
        **_of_receive_cpus(part, kernels),
        **_of_queues(part),
        **{name: metrics.get(name) for name in ("socket_drop_percent", "cycles_per_byte")},
        "softnet_dropped_per_s": sum_known(*(rate_per_s(k.samples, "softnet_dropped") for k in kernels)),
        "softnet_squeezed_per_s": sum_known(*(rate_per_s(k.samples, "softnet_squeezed") for k in kernels)),
        "receive_buffer_errors_per_s": _of_all(part.receivers, "udp_receive_buffer_errors"),
        **({} if case.frame_losses else _of_interfaces(part, metrics)),
        "stalled_percent": _stalled_percent(flows),
        "backoff_most": largest(level for flow in flows for level in flow.values("backoff")),
        "mtu_refusals_per_s": _of_all((*part.endpoints, *part.forwarders), *_TOO_LARGE),
        "checksum_errors_per_s": _of_all(part.endpoints, "udp_checksum_errors"),
    }


def _of_interfaces(part: SteadyPart, metrics: Mapping[str, float]) -> EvidenceValues:
    """Absent with frames: what one end of a virtual link counts the other one counts too, and a sink's
    program may be counted as dropping what it takes (`frames.py` tells where frames are lost).
    """
    return {
        "interface_drops_per_s": _of_all(part.endpoints, *_LOST_AT_INTERFACE),
        "switch_drops_per_s": metrics.get("switch_drops_per_s"),
    }


def _stalled_percent(flows: Sequence[Flow]) -> float | None:
    """In how many of the samples of flows data waited and nothing was acknowledged."""
    told = [x.details for flow in flows for x in flow.samples if "bytes_acked" in x.details]
    stalled = [x for x in told if not x["bytes_acked"] and (x.get("unacked") or x.get("notsent_bytes"))]
    return percent(len(stalled), len(told))


def _of_sizes(part: SteadyPart, flows: Sequence[Flow]) -> EvidenceValues:
    sent = [x for _, samples in part.senders for x in samples]
    taken = [x for _, samples in part.receivers for x in samples]
    segments = sum_known(*(flow.total("segments_out") for flow in flows))
    return {
        "segment_bytes_sent": ratio(counter_total(sent, "tx_bytes"), counter_total(sent, "tx_packets")),
        "segment_bytes_received": ratio(counter_total(taken, "rx_bytes"), counter_total(taken, "rx_packets")),
        "mss_bytes": smallest(flow.mss_bytes for flow in flows),
        "segments_per_packet": ratio(segments, counter_total(sent, "tx_packets")),
        "segments_per_packet_received": ratio(segments, counter_total(taken, "rx_packets")),
        "packets_per_s": _of_all(part.receivers, "rx_packets"),
    }


def _of_knobs(part: SteadyPart) -> EvidenceValues:
    ends = {
        "senders": [side.name for side, _ in part.senders],
        "receivers": [side.name for side, _ in part.receivers],
        "endpoints": [side.name for side, _ in part.endpoints],
    }
    return {
        "mtu_bytes": smallest(to_number(knob_value(part.trial, "mtu", name)) for name in ends["endpoints"]),
        "switch_mtu_bytes": to_number(part.trial.effective.get("vswitch_mtu")),
        **{name: any_off(part.trial, knobs, ends[whose]) for name, knobs, _, whose, _ in _OFFLOADS},
    }


def _of_receive_cpus(part: SteadyPart, kernels: Sequence[Kernel]) -> EvidenceValues:
    by_name = {kernel.name: kernel for kernel in kernels}
    receiving = [by_name.get(side.name, by_name.get(HOST)) for side, _ in part.receivers]
    dealt = [
        packets for kernel in receiving if kernel and len(packets := _packets_by_cpu(kernel.samples)) > 1
    ]
    if not any(map(sum, dealt)):
        return {}
    packets = max(dealt, key=lambda each: max(each) / (sum(each) or 1))
    shares = [100 * count / sum(packets) for count in packets]
    return {
        "busiest_receive_cpu_percent": max(shares),
        "receive_cpus": sum(share >= _TAKES_PERCENT for share in shares),
    }


def _packets_by_cpu(samples: Sequence[Sample]) -> list[float]:
    packets: dict[float, float] = {}
    for sample in samples:
        for cpu in sample.cpu:
            if "softnet_processed" in cpu:
                packets[cpu["cpu"]] = packets.get(cpu["cpu"], 0.0) + cpu["softnet_processed"]
    return list(packets.values())


def _of_queues(part: SteadyPart) -> EvidenceValues:
    queues = [_packets_by_queue(side) for side, _ in part.receivers]
    set_to = [to_number(knob_value(part.trial, "queues", side.name)) for side, _ in part.receivers]
    return {
        "busiest_queue_percent": largest(percent(max(each, default=0.0), sum(each)) for each in queues),
        "receive_queues": smallest(set_to) or smallest(len(each) or None for each in queues),
    }


def _packets_by_queue(side: EndpointRecord) -> Collection[float]:
    """Of its receive queues, as its kernel tells; else as its driver does, of those by which some came: what
    has not moved is not told.
    """
    queues = side.totals.get("queues")
    if isinstance(queues, list) and queues:
        return [float(each["packets"]) for each in queues if each["kind"] == "rx"]
    adapter = side.totals.get("adapter")
    found: dict[str, float] = {}
    for name, count in adapter.items() if isinstance(adapter, Mapping) else ():
        if named := _QUEUE.fullmatch(name):
            queue = next(filter(None, named.groups()))
            # virtio-net counts what comes to a program of XDP twice, by either name.
            found[queue] = max(found.get(queue, 0.0), float(count))
    return found.values()


def _of_all(ends: SteadySamples, *counters: str) -> float | None:
    return sum_known(*(rate_per_s(samples, *counters) for _, samples in ends))
