"""The metrics of a trial: names, units, labels and meanings."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.frame_metrics import FRAME_METRICS
from vnetbench.estimate.metric import Metric
from vnetbench.estimate.reported_metrics import REPORTED_METRICS

_PERCENTILES = {
    "p50": "50",
    "p90": "90",
    "p99": "99",
    "p99_9": "99.9",
    "p99_99": "99.99",
    "p99_999": "99.999",
}
"""Suffix of a metric's name to the percentile."""

_ENDPOINT_GROUPS = (
    ("sender", "Sender", "the sending endpoints"),
    ("receiver", "Receiver", "the receiving endpoints"),
    ("first_vm", "First VM", "the first VMs"),
    ("second_vm", "Second VM", "the second VMs"),
    ("forwarder", "Forwarder", "the guests that route or bridge"),
)
"""Prefix of a metric's name, prefix of its label, and the endpoints that it covers."""


def _percentile_metrics(prefix: str, label: str, population: str) -> Iterator[Metric]:
    yield Metric(f"{prefix}_mean_us", "µs", f"{label}, mean", "lower", f"mean of {population}")
    for name, percentile in _PERCENTILES.items():
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
            "payload that arrived at the sinks, all streams and pairs",
        ),
        Metric(
            "goodput_forward_bps",
            "bit/s",
            "Goodput forward",
            "higher",
            "goodput from the first VM to the second VM of each pair; bidirectional loads only",
        ),
        Metric(
            "goodput_reverse_bps",
            "bit/s",
            "Goodput reverse",
            "higher",
            "goodput from the second VM to the first VM of each pair; bidirectional loads only",
        ),
        Metric(
            "transactions_per_s",
            "1/s",
            "Transaction rate",
            "higher",
            "answered requests, all connections and pairs",
        ),
        Metric(
            "connections_per_s",
            "1/s",
            "Connection rate",
            "higher",
            "connections opened, used for one request and closed, all pairs",
        ),
        Metric(
            "datagrams_received_per_s",
            "1/s",
            "Datagrams received",
            "higher",
            "datagrams that arrived at the sinks, all streams and pairs; duplicates count once",
        ),
        Metric(
            "datagrams_sent_per_s",
            "1/s",
            "Offered load",
            "neither",
            "datagrams that the sources passed to the kernel, all streams and pairs",
        ),
        *FRAME_METRICS,
        Metric(
            "loss_percent",
            "%",
            "Loss",
            "lower",
            "share of the datagrams that did not arrive: dropped on the path or at the sinks' sockets",
        ),
        Metric(
            "socket_drop_percent",
            "%",
            "Dropped at the socket",
            "lower",
            "share of the datagrams dropped because the sink's socket buffer was full: a limit of the "
            "receiver, not of the path (with udp_gro an aggregate counts once)",
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
            "additional copies as a share of the datagrams or frames that arrived",
        ),
        Metric(
            "jitter_us",
            "µs",
            "Jitter",
            "lower",
            "mean deviation of the transit time (RFC 3550), mean over streams and samples",
        ),
        *_percentile_metrics("delay", "One-way delay", "the one-way delay"),
        Metric(
            "gap_deviation_us",
            "µs",
            "Pacing error",
            "lower",
            "standard deviation of the gaps between sent datagrams, of the worst source",
        ),
        *_percentile_metrics("latency", "Latency", "the time from a request's due time to its answer"),
        *_percentile_metrics("latency_idle", "Idle latency", "the request latency before the load starts"),
        *(
            Metric(
                f"latency_increase_{name}_us",
                "µs",
                f"Latency increase, {short_label}",
                "lower",
                f"{statistic} of the latency under load minus that before the load, in the same trial",
            )
            for name, short_label, statistic in (
                ("mean", "mean", "mean"),
                *((name, f"{number} %", f"{number}th percentile") for name, number in _PERCENTILES.items()),
            )
        ),
        *(
            Metric(
                f"latency_ratio_{name}",
                "1",
                f"Latency ratio, {_PERCENTILES[name]} %",
                "lower",
                f"{_PERCENTILES[name]}th percentile of the latency under load divided by that before the "
                "load, in the same trial",
            )
            for name in ("p50", "p99")
        ),
        *_percentile_metrics("connect", "Connection time", "the time to open a connection"),
        Metric(
            "outstanding_at_end",
            "1",
            "Outstanding at the end",
            "lower",
            "requests of an open loop that were due before the end and had no answer by then",
        ),
        Metric(
            "sender_cpu_percent",
            "% of one CPU",
            "Sender CPU",
            "lower",
            "CPU time of the sending endpoints' processes, 100 % = one full CPU",
        ),
        Metric(
            "receiver_cpu_percent",
            "% of one CPU",
            "Receiver CPU",
            "lower",
            "CPU time of the receiving endpoints' processes, 100 % = one full CPU",
        ),
        Metric(
            "first_vm_cpu_percent",
            "% of one CPU",
            "First VM's CPU",
            "lower",
            "CPU time of the processes of the first VM of each pair, in a bidirectional load (each VM sends "
            "and receives)",
        ),
        Metric(
            "second_vm_cpu_percent",
            "% of one CPU",
            "Second VM's CPU",
            "lower",
            "CPU time of the processes of the second VM of each pair, in a bidirectional load",
        ),
        Metric(
            "host_cpu_percent",
            "% of all CPUs",
            "Host CPU",
            "lower",
            "busy share of all host CPUs",
        ),
        Metric(
            "host_softirq_percent",
            "% of one CPU",
            "Host softirq CPU",
            "lower",
            "softirq time summed over all CPUs, 100 % = one full CPU",
        ),
        *(
            Metric(
                f"{group}_busy_percent",
                "% of its CPUs",
                f"{label} busy, own kernel",
                "lower",
                f"busy share of the CPUs of {endpoints}, as counted by their own kernels (guests and hosts)",
            )
            for group, label, endpoints in _ENDPOINT_GROUPS
        ),
        *(
            Metric(
                f"{group}_vcpu_percent",
                "% of its CPUs",
                f"{label} busy, host kernel",
                "lower",
                f"share of the time for which the host ran the vCPU threads of {endpoints}",
            )
            for group, label, endpoints in _ENDPOINT_GROUPS
        ),
        Metric(
            "vcpus_cpu_percent",
            "% of one CPU",
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
            "% of one CPU",
            "QEMU and vhost",
            "lower",
            "CPU time of the guests' emulators without vCPUs: QEMU main loops and vhost threads",
        ),
        Metric(
            "switch_drops_per_s",
            "1/s",
            "Dropped at the switch",
            "lower",
            "packets that the virtual switches and their ports (taps) dropped",
        ),
        Metric(
            "kvm_exits_per_s",
            "1/s",
            "KVM exits",
            "lower",
            "VM exits of all guests",
        ),
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
            "context switches of both endpoints' processes per answered request",
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
            "packets received by both endpoints' interfaces per answered request",
        ),
        Metric(
            "datagrams",
            "1",
            "Datagrams",
            "neither",
            "datagrams sent after the warm-up, as counted by the sinks",
        ),
        Metric("frames", "1", "Frames", "neither", "frames sent after the warm-up"),
        Metric("packets_per_s", "1/s", "Packets", "neither", "packets received by the receivers' interfaces"),
        Metric(
            "segments_per_s", "1/s", "TCP segments", "neither", "TCP segments sent, of at most one MSS each"
        ),
        Metric(
            "mean_segment_bytes",
            "B",
            "Mean segment",
            "neither",
            "mean size of the packets passed to the sending interface, before hardware segmentation",
        ),
        Metric(
            "interrupts_per_s",
            "1/s",
            "Interrupts",
            "lower",
            "interrupts of the whole host, including timer and inter-processor interrupts",
        ),
        Metric(
            "net_rx_softirqs_per_s",
            "1/s",
            "NET_RX softirqs",
            "neither",
            "NET_RX softirqs of the host",
        ),
        Metric(
            "packets_per_interrupt",
            "1",
            "Packets per interrupt",
            "neither",
            "packets received per NET_RX softirq: virtual links have no hardware interrupt",
        ),
        Metric(
            "context_switches_per_s",
            "1/s",
            "Context switches",
            "lower",
            "context switches of both endpoints' processes",
        ),
        Metric("retransmits_per_s", "1/s", "Retransmits", "lower", "TCP segments that were retransmitted"),
        Metric(
            "rtt_us",
            "µs",
            "Round-trip time",
            "lower",
            "TCP's smoothed round-trip time, mean over the sending streams",
        ),
        *REPORTED_METRICS,
    )
}


def is_lower_better(name: str) -> bool:
    """Return whether lower values of a metric are better; False for an unknown metric."""
    return name in METRICS and METRICS[name].better == "lower"
