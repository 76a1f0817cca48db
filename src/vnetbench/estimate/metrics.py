"""The metrics of a trial: names, units, labels and meanings."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.disruption_metrics import DISRUPTION_METRICS
from vnetbench.estimate.frame_metrics import FRAME_METRICS
from vnetbench.estimate.metric import Metric
from vnetbench.estimate.reported_metrics import REPORTED_METRICS
from vnetbench.estimate.segment_order import OUT_OF_ORDER
from vnetbench.estimate.team_traffic import TEAM_METRICS
from vnetbench.quantity import CPU_SUM_UNIT

_PERCENTILE_TEXT_BY_NAME = {
    "p50": "50",
    "p90": "90",
    "p99": "99",
    "p99_9": "99.9",
    "p99_99": "99.99",
    "p99_999": "99.999",
}
"""Suffix of a metric's name to the percentile."""

_ENDPOINT_GROUP_TEXTS = (
    ("sender", "Sender", "the sending endpoints"),
    ("receiver", "Receiver", "the receiving endpoints"),
    ("first_vm", "First VM", "the first VMs"),
    ("second_vm", "Second VM", "the second VMs"),
    ("forwarder", "Forwarder", "the guests that route or bridge"),
)
"""Prefix of a metric's name, prefix of its label, and the endpoints that it covers."""


def _percentile_metrics(prefix: str, label: str, population: str) -> Iterator[Metric]:
    yield Metric(f"{prefix}_mean_us", "µs", f"{label}, mean", "lower", f"mean of {population}")
    for name, percentile in _PERCENTILE_TEXT_BY_NAME.items():
        meaning = f"{percentile}th percentile of {population}"
        yield Metric(f"{prefix}_{name}_us", "µs", f"{label}, {percentile} %", "lower", meaning)


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "goodput_bps",
            "bit/s",
            "Goodput",
            "higher",
            "payload bits per second that arrive at the sinks, sum of all streams and pairs",
        ),
        Metric(
            "goodput_forward_bps",
            "bit/s",
            "Goodput forward",
            "higher",
            "goodput from the first VM to the second VM of each pair, sum of all pairs. Only for "
            "bidirectional loads",
        ),
        Metric(
            "goodput_reverse_bps",
            "bit/s",
            "Goodput reverse",
            "higher",
            "goodput from the second VM to the first VM of each pair, sum of all pairs. Only for "
            "bidirectional loads",
        ),
        Metric(
            "transactions_per_s",
            "1/s",
            "Transaction rate",
            "higher",
            "answered requests per second, sum of all connections and pairs",
        ),
        Metric(
            "connections_per_s",
            "1/s",
            "Connection rate",
            "higher",
            "connections per second that are opened, used for one request and closed, sum of all pairs",
        ),
        Metric(
            "datagrams_received_per_s",
            "1/s",
            "Datagrams received",
            "higher",
            "datagrams per second that arrive at the sinks, sum of all streams and pairs. Duplicates count "
            "once",
        ),
        Metric(
            "datagrams_sent_per_s",
            "1/s",
            "Offered load",
            "neither",
            "datagrams per second that the sources pass to the kernel, sum of all streams and pairs",
        ),
        *(*FRAME_METRICS, *DISRUPTION_METRICS),
        Metric(
            "loss_percent",
            "%",
            "Loss",
            "lower",
            "share of the datagrams that were dropped on the path or at the sinks' sockets",
        ),
        Metric(
            "socket_drop_percent",
            "%",
            "Datagrams dropped at the socket",
            "lower",
            "share of the datagrams that were dropped because the sink's socket buffer was full. This is a "
            "limit of the receiver, not of the path. With udp_gro, several datagrams in one message count "
            "once",
        ),
        Metric(
            "reordered_percent",
            "%",
            "Reordered",
            "lower",
            "share of the datagrams or frames that arrived after one that was sent later (RFC 4737)",
        ),
        Metric(
            "duplicate_percent",
            "%",
            "Duplicates",
            "lower",
            "number of additional copies divided by the number of datagrams or frames that arrived",
        ),
        Metric(
            "jitter_us",
            "µs",
            "Jitter",
            "lower",
            "mean deviation of the datagrams' transit time (RFC 3550), mean over streams and samples",
        ),
        *_percentile_metrics("delay", "One-way delay", "the one-way delay"),
        Metric(
            "gap_deviation_us",
            "µs",
            "Pacing error",
            "lower",
            "standard deviation of the gaps between sent datagrams, of the source with the largest deviation",
        ),
        *_percentile_metrics("latency", "Latency", "the time from a request's scheduled time to its answer"),
        *_percentile_metrics("latency_idle", "Idle latency", "the request latency before the load starts"),
        *(
            Metric(
                f"latency_increase_{name}_us",
                "µs",
                f"Latency increase, {short_label}",
                "lower",
                f"{statistic} of the latency under load minus the {statistic} before the load of the trial "
                "starts",
            )
            for name, short_label, statistic in (
                ("mean", "mean", "mean"),
                *(
                    (name, f"{number} %", f"{number}th percentile")
                    for name, number in _PERCENTILE_TEXT_BY_NAME.items()
                ),
            )
        ),
        *(
            Metric(
                f"latency_ratio_{name}",
                "1",
                f"Latency ratio, {_PERCENTILE_TEXT_BY_NAME[name]} %",
                "lower",
                f"{_PERCENTILE_TEXT_BY_NAME[name]}th percentile of the latency under load divided by the "
                f"{_PERCENTILE_TEXT_BY_NAME[name]}th percentile before the load of the trial starts",
            )
            for name in ("p50", "p99")
        ),
        *_percentile_metrics("connect", "Connection time", "the time to open a connection"),
        Metric(
            "outstanding_at_end",
            "1",
            "Requests outstanding at the end",
            "lower",
            "number of requests of an open loop that were due before the end of the trial and had no answer "
            "at its end",
        ),
        Metric(
            "sender_cpu_percent",
            CPU_SUM_UNIT,
            "Sender CPU",
            "lower",
            "CPU time of the programs that make the traffic at the sending endpoints, 100 % = one full CPU",
        ),
        Metric(
            "receiver_cpu_percent",
            CPU_SUM_UNIT,
            "Receiver CPU",
            "lower",
            "CPU time of the programs that make the traffic at the receiving endpoints, 100 % = one full CPU",
        ),
        Metric(
            "first_vm_cpu_percent",
            CPU_SUM_UNIT,
            "First VM's CPU",
            "lower",
            "CPU time of the programs that make the traffic in the first VM of each pair, 100 % = one full "
            "CPU. Only for bidirectional loads, in which each VM sends and receives",
        ),
        Metric(
            "second_vm_cpu_percent",
            CPU_SUM_UNIT,
            "Second VM's CPU",
            "lower",
            "CPU time of the programs that make the traffic in the second VM of each pair, 100 % = one full "
            "CPU. Only for bidirectional loads, in which each VM sends and receives",
        ),
        Metric(
            "host_cpu_percent",
            "% of all CPUs",
            "Host CPU",
            "lower",
            "share of the time in which the host's CPUs were busy, mean of all CPUs",
        ),
        Metric(
            "host_softirq_percent",
            CPU_SUM_UNIT,
            "Host softirq CPU",
            "lower",
            "time that the host's CPUs spend in softirqs, sum of all CPUs, 100 % = one full CPU",
        ),
        *(
            Metric(
                f"{group}_busy_percent",
                "% of its CPUs",
                f"{label} CPU use, own kernel",
                "lower",
                f"share of the time in which the CPUs of {endpoints} were busy, as their own kernels "
                "(guests or hosts) count it",
            )
            for group, label, endpoints in _ENDPOINT_GROUP_TEXTS
        ),
        *(
            Metric(
                f"{group}_vcpu_percent",
                "% of its CPUs",
                f"{label} CPU use, host kernel",
                "lower",
                f"share of the time in which the host ran the vCPU threads of {endpoints}, mean of all vCPUs",
            )
            for group, label, endpoints in _ENDPOINT_GROUP_TEXTS
        ),
        Metric(
            "vcpus_cpu_percent",
            CPU_SUM_UNIT,
            "vCPU threads",
            "lower",
            "CPU time of all vCPU threads of all guests, measured on the host, 100 % = one full CPU",
        ),
        Metric(
            "busiest_vcpu_percent",
            "% of one CPU",
            "Busiest vCPU thread",
            "lower",
            "CPU time of the vCPU thread that used the most, measured on the host",
        ),
        Metric(
            "emulators_cpu_percent",
            CPU_SUM_UNIT,
            "QEMU and vhost threads",
            "lower",
            "CPU time of the guests' QEMU main loops and vhost threads, 100 % = one full CPU",
        ),
        Metric(
            "switch_drops_per_s",
            "1/s",
            "Packets dropped at the switch",
            "lower",
            "packets per second that the virtual switches and their ports (taps) drop, sum of all switches",
        ),
        Metric("kvm_exits_per_s", "1/s", "KVM exits", "lower", "VM exits per second, sum of all guests"),
        Metric(
            "cycles_per_byte",
            "cycles/B",
            "Cycles per byte",
            "lower",
            "CPU cycles of the whole host per byte that arrived",
        ),
        Metric(
            "cycles_per_transaction",
            "cycles",
            "Cycles per transaction",
            "lower",
            "CPU cycles of the whole host per answered request",
        ),
        Metric(
            "cycles_per_datagram",
            "cycles",
            "Cycles per datagram",
            "lower",
            "CPU cycles of the whole host per datagram that arrived",
        ),
        Metric(
            "context_switches_per_transaction",
            "1",
            "Context switches per transaction",
            "lower",
            "context switches of the processes of sender and receiver per answered request",
        ),
        Metric(
            "interrupts_per_transaction",
            "1",
            "Interrupts per transaction",
            "lower",
            "hardware interrupts of the whole host per answered request",
        ),
        Metric(
            "packets_per_transaction",
            "1",
            "Packets per transaction",
            "neither",
            "packets that the interfaces of sender and receiver receive per answered request",
        ),
        Metric(
            "datagrams",
            "1",
            "Datagrams",
            "neither",
            "number of datagrams sent after the warm-up, as the sinks count them",
        ),
        Metric("frames", "1", "Frames", "neither", "number of frames sent after the warm-up"),
        Metric(
            "packets_per_s",
            "1/s",
            "Packets",
            "neither",
            "packets per second that the receivers' interfaces receive",
        ),
        Metric(
            "segments_per_s",
            "1/s",
            "TCP segments",
            "neither",
            "TCP segments per second of at most one MSS each that the senders send",
        ),
        Metric(
            "mean_segment_bytes",
            "B",
            "Mean segment",
            "neither",
            "mean size of the packets passed to the sender's interface, before segmentation by the adapter",
        ),
        Metric(
            "interrupts_per_s",
            "1/s",
            "Interrupts",
            "lower",
            "interrupts of the whole host per second, including timer and inter-processor interrupts",
        ),
        Metric(
            "net_rx_softirqs_per_s",
            "1/s",
            "NET_RX softirqs",
            "neither",
            "NET_RX softirqs of the host per second",
        ),
        Metric(
            "packets_per_interrupt",
            "1",
            "Packets per interrupt",
            "neither",
            "packets received per NET_RX softirq, because virtual links have no hardware interrupt",
        ),
        Metric(
            "context_switches_per_s",
            "1/s",
            "Context switches",
            "lower",
            "context switches per second, sum of all endpoints' processes",
        ),
        Metric(
            "retransmits_per_s",
            "1/s",
            "Retransmits",
            "lower",
            "TCP segments per second that the senders retransmit",
        ),
        Metric(
            "rtt_us",
            "µs",
            "Round-trip time",
            "lower",
            "TCP's smoothed round-trip time, mean over the sending streams",
        ),
        *(OUT_OF_ORDER, *TEAM_METRICS, *REPORTED_METRICS),
    )
}


def is_lower_better(name: str) -> bool:
    """Return whether lower values of a metric are better; False for an unknown metric."""
    return name in METRICS and METRICS[name].better == "lower"
