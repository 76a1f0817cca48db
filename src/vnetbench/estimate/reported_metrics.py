"""Metrics that only other tools report, each in that tool's own definition."""

from __future__ import annotations

from vnetbench.estimate.metric import Metric

_REPORTING_ENDPOINTS = (
    ("sender", "Sender", "the machine of the sending endpoint"),
    ("receiver", "Receiver", "the machine of the receiving endpoint"),
)
"""The endpoints of an imported load. Each reports counters of its whole machine."""

REPORTED_METRICS = (
    Metric(
        "server_cpu_percent",
        "% of one CPU",
        "Server CPU, as reported",
        "lower",
        "CPU time of the iperf3 server process as the server reports it, whole trial including warm-up",
    ),
    Metric(
        "server_retransmits",
        "1",
        "Server retransmits, as reported",
        "lower",
        "TCP segments that the iperf3 server retransmitted in the whole trial, as the server reports them",
    ),
    *(
        metric
        for endpoint, label, machine in _REPORTING_ENDPOINTS
        for metric in (
            Metric(
                f"{endpoint}_cycles_per_byte",
                "cycles/B",
                f"{label} cycles per byte, as reported",
                "lower",
                f"busy share of all CPUs of {machine}, times their clock rate, per byte of the load; "
                "cycles_per_byte covers a whole host instead",
            ),
            Metric(
                f"{endpoint}_interrupts_per_s",
                "1/s",
                f"{label} interrupts, as reported",
                "lower",
                f"interrupts of all CPUs of {machine}",
            ),
        )
    ),
    Metric(
        "sender_retransmits_per_s",
        "1/s",
        "Sender retransmits, as reported",
        "lower",
        "TCP segments that the sending endpoint's system retransmitted, all connections",
    ),
)
