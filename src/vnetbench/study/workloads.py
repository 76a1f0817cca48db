"""Workloads of a study, and the metrics that can decide how often a treatment is repeated."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.model import Study

TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM, MIXED = "tcp_stream", "tcp_rr", "tcp_crr", "udp_stream", "mixed"
SOCKET_WORKLOADS = (TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM, MIXED)
"""Workloads that send through the endpoints' sockets."""

FRAMES, FRAME_LATENCY, FRAME_LOSS = "frames", "frame_latency", "frame_loss"
BACK_TO_BACK, SOAK = "back_to_back", "soak"
FRAME_WORKLOADS = (FRAMES, FRAME_LATENCY, FRAME_LOSS, BACK_TO_BACK, SOAK)
"""Workloads that generate and count frames at the endpoints' interfaces (the tests of RFC 2544)."""
CONSTANT_LOAD_WORKLOADS = (FRAMES, FRAME_LATENCY, SOAK)
"""Frame workloads with one constant load, the factor `frame_load`."""

WORKLOADS = (*SOCKET_WORKLOADS, *FRAME_WORKLOADS)

MAX_LOSS_GOALS = 4
"""Maximum loss goals of one search; each has its own metric."""
THROUGHPUT_METRICS = (
    "throughput_fps",
    *(f"throughput_goal{number}_fps" for number in range(2, MAX_LOSS_GOALS + 1)),
)
"""Metrics of the throughput for each loss goal, in the order of the study."""

SEARCH_METRICS = (
    *THROUGHPUT_METRICS,
    "throughput_bps",
    "max_forwarding_rate_fps",
    "back_to_back_frames",
    "buffer_s",
)
"""Metrics that a trial computes from its steps; they have no time series."""

DECIDING_METRICS: Mapping[str, tuple[str, ...]] = {
    TCP_STREAM: ("goodput_bps",),
    TCP_RR: ("transactions_per_s", "latency_p50_us", "latency_p99_us"),
    TCP_CRR: ("connections_per_s", "connect_p50_us", "connect_p99_us"),
    UDP_STREAM: ("datagrams_received_per_s", "goodput_bps", "delay_p50_us", "delay_p99_us"),
    MIXED: (
        "latency_p99_us",
        "latency_p50_us",
        "latency_increase_p99_us",
        "latency_increase_p50_us",
        "goodput_bps",
    ),
    FRAMES: (*THROUGHPUT_METRICS, "forwarding_rate_fps", "delay_p50_us", "delay_p99_us"),
    FRAME_LATENCY: ("delay_p99_us", "delay_p50_us", *THROUGHPUT_METRICS),
    FRAME_LOSS: ("max_forwarding_rate_fps", *THROUGHPUT_METRICS),
    BACK_TO_BACK: ("back_to_back_frames", "buffer_s"),
    SOAK: ("forwarding_rate_fps", "delay_p50_us", "delay_p99_us"),
}
"""Metrics of each workload that `precision.metric` can name, the default first."""


RATE_FACTORS = ("rate", "bit_rate")
"""Factors that set the send rate; with the level `none` the network limits it."""


def deciding_metric(study: Study) -> str:
    """Return the deciding metric: the one that the study names, else that of its workload.

    If every treatment has a fixed rate, the rate says nothing about the network. The 99th percentile then
    decides: of the latency with `tcp_rr`, of the one-way delay with `udp_stream`. With `mixed` the latency
    under load decides and not its increase, because a share of an increase near zero is out of reach. With
    `frames` it is the throughput if the study searches for it, else the forwarding rate.
    """
    if study.precision.metric is not None:
        return study.precision.metric
    if study.workload == MIXED:
        return DECIDING_METRICS[MIXED][0]
    if study.workload == FRAMES and study.search is None:
        return "forwarding_rate_fps"
    if study.workload in FRAME_WORKLOADS:
        return DECIDING_METRICS[study.workload][0]
    names = {
        factor.name for factor in study.factors if factor.name in RATE_FACTORS and "none" not in factor.levels
    }
    return DECIDING_METRICS[study.workload][-1 if names else 0]
