"""Metrics that only other tools tell, each of its own side or of whole trials, as they reckon them."""

from __future__ import annotations

from vnetbench.estimate.metric import Metric

_TELLING_ENDS = (
    ("sender", "Sender", "the machine of the sending endpoint"),
    ("receiver", "Receiver", "the machine of the receiving endpoint"),
)
"""The ends of a load that another tool measured: each tells of its own machine as a whole."""

REPORTED_METRICS = (
    Metric(
        "server_cpu_percent",
        "% of one CPU",
        "Server CPU, as it tells",
        "lower",
        "what an iperf3 server says of its own process, over whole trials with their warm-up",
    ),
    Metric(
        "server_retransmits",
        "1",
        "Server retransmits, as it tells",
        "lower",
        "TCP segments that an iperf3 server says it sent again, in a whole trial",
    ),
    *(
        metric
        for who, label, what in _TELLING_ENDS
        for metric in (
            Metric(
                f"{who}_cycles_per_byte",
                "cycles/B",
                f"{label} cycles per byte, as it tells",
                "lower",
                f"busy share of all CPUs of {what}, times their clock, over the bytes of the load: of one "
                "end alone, where cycles_per_byte is of a host with all that is on it",
            ),
            Metric(
                f"{who}_interrupts_per_s",
                "1/s",
                f"{label} interrupts, as it tells",
                "lower",
                f"interrupts of all CPUs of {what}",
            ),
        )
    ),
    Metric(
        "sender_retransmits_per_s",
        "1/s",
        "Sender retransmits, as it tells",
        "lower",
        "TCP segments that the system of the sending endpoint sent again, of all its connections",
    ),
)
