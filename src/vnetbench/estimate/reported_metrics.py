"""Metrics that only other tools report, each in that tool's own definition."""

from __future__ import annotations

from vnetbench.estimate.metric import Metric
from vnetbench.quantity import CPU_SUM_UNIT

_REPORTING_ENDPOINT_TEXTS = (
    ("sender", "Sender", "the machine of the sending endpoint"),
    ("receiver", "Receiver", "the machine of the receiving endpoint"),
)
"""The endpoints of an imported load. Each reports counters of its whole machine."""

REPORTED_METRICS = (
    Metric(
        "server_cpu_percent",
        CPU_SUM_UNIT,
        "Server CPU, as reported",
        "lower",
        "CPU time of the iperf3 server process in the whole trial, including the warm-up, as the server "
        "reports it",
    ),
    Metric(
        "server_retransmits",
        "1",
        "Server retransmits, as reported",
        "lower",
        "number of TCP segments that the iperf3 server retransmitted in the whole trial, as the server "
        "reports it",
    ),
    *(
        metric
        for endpoint, label, machine in _REPORTING_ENDPOINT_TEXTS
        for metric in (
            Metric(
                f"{endpoint}_cycles_per_byte",
                "cycles/B",
                f"{label} cycles per byte, as reported",
                "lower",
                f"CPU cycles per byte of the load: the busy share of all CPUs of {machine}, times their "
                "clock rate. The metric cycles_per_byte covers a whole host instead",
            ),
            Metric(
                f"{endpoint}_interrupts_per_s",
                "1/s",
                f"{label} interrupts, as reported",
                "lower",
                f"interrupts per second of all CPUs of {machine}",
            ),
        )
    ),
    Metric(
        "sender_retransmits_per_s",
        "1/s",
        "Sender retransmits, as reported",
        "lower",
        "TCP segments per second that the system of the sending endpoint retransmits, sum of all connections",
    ),
)
