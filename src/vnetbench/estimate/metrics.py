"""The metrics of a trial: their names, units, labels and meanings."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.frame_metrics import FRAME_METRICS
from vnetbench.estimate.metric import Metric
from vnetbench.estimate.reported_metrics import REPORTED_METRICS

_SHARES = {"p50": "50", "p90": "90", "p99": "99", "p99_9": "99.9", "p99_99": "99.99", "p99_999": "99.999"}


_ENDS = (
    ("sender", "Sender", "the sending endpoints"),
    ("receiver", "Receiver", "the receiving endpoints"),
    ("first_vm", "First VM", "the first VMs"),
    ("second_vm", "Second VM", "the second VMs"),
    ("forwarder", "Forwarder", "the guests that route or bridge"),
)


def _percentiles(of: str, label: str, what: str) -> Iterator[Metric]:
    yield Metric(f"{of}_mean_us", "µs", f"{label}, mean", "lower", f"mean of {what}")
    for name, share in _SHARES.items():
        meaning = f"{share} % of {what} are no longer"
        yield Metric(f"{of}_{name}_us", "µs", f"{label}, {share} %", "lower", meaning)


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
            "of that what went from the first VMs of the pairs to the second; where both ways are at work",
        ),
        Metric(
            "goodput_reverse_bps",
            "bit/s",
            "Goodput in reverse",
            "higher",
            "of that what went from the second VMs to the first; where both ways are at work",
        ),
        Metric(
            "transactions_per_s",
            "1/s",
            "Transaction rate",
            "higher",
            "requests that were answered, all connections and pairs",
        ),
        Metric(
            "connections_per_s",
            "1/s",
            "Connection rate",
            "higher",
            "connections made, used for one request and closed, all pairs",
        ),
        Metric(
            "datagrams_received_per_s",
            "1/s",
            "Datagrams received",
            "higher",
            "datagrams that arrived at the sinks, all streams and pairs; of duplicates the first",
        ),
        Metric(
            "datagrams_sent_per_s",
            "1/s",
            "Offered load",
            "neither",
            "datagrams that the sources handed to the kernel, all streams and pairs",
        ),
        *FRAME_METRICS,
        Metric(
            "loss_percent",
            "%",
            "Loss",
            "lower",
            "share of the datagrams that did not arrive, dropped by the path or at the sinks' own sockets",
        ),
        Metric(
            "socket_drop_percent",
            "%",
            "Dropped at the socket",
            "lower",
            "share of the datagrams that came and found their sink's socket full: the receiver, not the path "
            "(with udp_gro an aggregate counts once)",
        ),
        Metric(
            "reordered_percent",
            "%",
            "Reordered",
            "lower",
            "share of the datagrams (or frames) that arrived after one that was sent later (RFC 4737)",
        ),
        Metric(
            "duplicate_percent",
            "%",
            "Duplicates",
            "lower",
            "copies of datagrams (or frames) that had arrived already",
        ),
        Metric(
            "jitter_us",
            "µs",
            "Jitter",
            "lower",
            "mean deviation of the time under way (RFC 3550), mean over streams and samples",
        ),
        *_percentiles("delay", "One-way delay", "all times from sending to receiving"),
        Metric(
            "gap_deviation_us",
            "µs",
            "Pacing error",
            "lower",
            "standard deviation of the gaps between datagrams as they were sent, of the worst source",
        ),
        *_percentiles("latency", "Latency", "all times from a request (when it was due) to its answer"),
        *_percentiles(
            "latency_idle", "Idle latency", "all times from a request to its answer before the load began"
        ),
        *(
            Metric(
                f"latency_increase_{name}_us",
                "µs",
                f"Latency increase, {share}",
                "lower",
                f"{what} of the latency under load less that of before the load, in the same trial",
            )
            for name, share, what in (
                ("mean", "mean", "mean"),
                *((name, f"{share} %", f"{share} % point") for name, share in _SHARES.items()),
            )
        ),
        *(
            Metric(
                f"latency_ratio_{name}",
                "1",
                f"Latency ratio, {_SHARES[name]} %",
                "lower",
                f"{_SHARES[name]} % point of the latency under load over that of before, in the same trial",
            )
            for name in ("p50", "p99")
        ),
        *_percentiles("connect", "Connecting", "all times that connecting took"),
        Metric(
            "outstanding_at_end",
            "1",
            "Outstanding at the end",
            "lower",
            "requests that were due before the end of an open loop and had no answer by then",
        ),
        Metric(
            "sender_cpu_percent",
            "% of one CPU",
            "Sender CPU",
            "lower",
            "CPU time of the sending endpoints' processes, 100 % = one CPU full",
        ),
        Metric(
            "receiver_cpu_percent",
            "% of one CPU",
            "Receiver CPU",
            "lower",
            "CPU time of the receiving endpoints' processes, 100 % = one CPU full",
        ),
        Metric(
            "first_vm_cpu_percent",
            "% of one CPU",
            "First VM's CPU",
            "lower",
            "CPU time of the first VMs' processes where both ways are at work, so that each VM does both",
        ),
        Metric(
            "second_vm_cpu_percent",
            "% of one CPU",
            "Second VM's CPU",
            "lower",
            "CPU time of the second VMs' processes where both ways are at work",
        ),
        Metric(
            "host_cpu_percent",
            "% of all CPUs",
            "Host CPU",
            "lower",
            "busy share of all the host's CPUs together",
        ),
        Metric(
            "host_softirq_percent",
            "% of one CPU",
            "Host soft-interrupt CPU",
            "lower",
            "time in soft interrupts, all CPUs added up, 100 % = one CPU full",
        ),
        *(
            Metric(
                f"{who}_busy_percent",
                "% of its CPUs",
                f"{label} busy, as it says",
                "lower",
                f"busy share of the CPUs of {what}, as their own kernels count it; of guests and hosts",
            )
            for who, label, what in _ENDS
        ),
        *(
            Metric(
                f"{who}_vcpu_percent",
                "% of its CPUs",
                f"{label} busy, as the host says",
                "lower",
                f"share of the time for which the host ran the vCPU threads of {what}",
            )
            for who, label, what in _ENDS
        ),
        Metric(
            "vcpus_cpu_percent",
            "% of one CPU",
            "vCPU threads",
            "lower",
            "CPU time that the host gave to all vCPU threads of all guests, 100 % = one CPU full",
        ),
        Metric(
            "busiest_vcpu_percent",
            "% of one CPU",
            "Busiest vCPU thread",
            "lower",
            "CPU time that the host gave to the vCPU thread that took the most of it",
        ),
        Metric(
            "emulators_cpu_percent",
            "% of one CPU",
            "QEMU and vhost",
            "lower",
            "CPU time of the guests' emulators beside the vCPUs: QEMU's main loops, and vhost's threads",
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
            "how often vCPUs left their guests, all guests together",
        ),
        Metric(
            "cycles_per_byte",
            "cycles/B",
            "Cycles per byte",
            "lower",
            "all of the host's CPU cycles over the bytes that arrived",
        ),
        Metric(
            "cycles_per_transaction",
            "cycles",
            "Cycles per transaction",
            "lower",
            "all of the host's CPU cycles over the requests that were answered",
        ),
        Metric(
            "cycles_per_datagram",
            "cycles",
            "Cycles per datagram",
            "lower",
            "all of the host's CPU cycles over the datagrams that arrived",
        ),
        Metric(
            "context_switches_per_transaction",
            "1",
            "Context switches per transaction",
            "lower",
            "of both endpoints' processes",
        ),
        Metric(
            "interrupts_per_transaction",
            "1",
            "Interrupts per transaction",
            "lower",
            "hardware interrupts of the whole host",
        ),
        Metric(
            "packets_per_transaction",
            "1",
            "Packets per transaction",
            "neither",
            "packets that both sides' interfaces took in",
        ),
        Metric(
            "datagrams",
            "1",
            "Datagrams",
            "neither",
            "datagrams that were sent after the warm-up, as far as the sinks know",
        ),
        Metric("frames", "1", "Frames", "neither", "frames that were sent after the warm-up"),
        Metric("packets_per_s", "1/s", "Packets", "neither", "packets the receiving interfaces took in"),
        Metric("segments_per_s", "1/s", "TCP segments", "neither", "MSS-sized TCP segments that were sent"),
        Metric(
            "mean_segment_bytes",
            "B",
            "Mean segment",
            "neither",
            "bytes of a packet as the sending interface was handed it (before segmentation by hardware)",
        ),
        Metric(
            "interrupts_per_s",
            "1/s",
            "Interrupts",
            "lower",
            "interrupts of the whole host, timers and calls between CPUs included",
        ),
        Metric(
            "net_rx_softirqs_per_s",
            "1/s",
            "NET_RX soft interrupts",
            "neither",
            "NET_RX soft interrupts of the host",
        ),
        Metric(
            "packets_per_interrupt",
            "1",
            "Packets per interrupt",
            "neither",
            "packets received over NET_RX soft interrupts: virtual links have no hardware interrupt",
        ),
        Metric("context_switches_per_s", "1/s", "Context switches", "lower", "of both endpoints' processes"),
        Metric("retransmits_per_s", "1/s", "Retransmits", "lower", "TCP segments sent again"),
        Metric(
            "rtt_us",
            "µs",
            "Round trip",
            "lower",
            "TCP's smoothed round-trip time, mean over the sending streams",
        ),
        *REPORTED_METRICS,
    )
}


def is_lower_better(name: str) -> bool:
    """Whether less of a metric is better; never of one that this version does not know."""
    return name in METRICS and METRICS[name].better == "lower"
