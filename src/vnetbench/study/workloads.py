"""The workloads that a study may name, and the metric of each that decides how often it repeats."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.model import Study

TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM, MIXED = "tcp_stream", "tcp_rr", "tcp_crr", "udp_stream", "mixed"
SOCKET_WORKLOADS = (TCP_STREAM, TCP_RR, TCP_CRR, UDP_STREAM, MIXED)
"""Those whose load goes through the endpoints' sockets."""

FRAMES, FRAME_LATENCY, FRAME_LOSS = "frames", "frame_latency", "frame_loss"
BACK_TO_BACK, SOAK = "back_to_back", "soak"
FRAME_WORKLOADS = (FRAMES, FRAME_LATENCY, FRAME_LOSS, BACK_TO_BACK, SOAK)
"""Those whose load is frames, made and counted at the endpoints' interfaces (RFC 2544's tests)."""
CONSTANT_LOAD_WORKLOADS = (FRAMES, FRAME_LATENCY, SOAK)
"""Of these the ones that hold one load, the factor `frame_load`."""

WORKLOADS = (*SOCKET_WORKLOADS, *FRAME_WORKLOADS)

MAX_LOSS_GOALS = 4
"""Accepted loss ratios of one search: each has a metric of its own."""
THROUGHPUT_METRICS = (
    "throughput_fps",
    *(f"throughput_goal{number}_fps" for number in range(2, MAX_LOSS_GOALS + 1)),
)
"""The metrics of the throughput within each goal, in the order of the study."""

SEARCH_METRICS = (
    *THROUGHPUT_METRICS,
    "throughput_bps",
    "max_forwarding_rate_fps",
    "back_to_back_frames",
    "buffer_s",
)
"""The metrics that the steps of a trial tell, each a single figure without a course in time."""

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
"""The metrics of each workload that `precision.metric` may name."""


RATE_FACTORS = ("rate", "bit_rate")
"""The factors that set how often something is sent, or with the level `none` leave it to the network."""


def deciding_metric(study: Study) -> str:
    """The name of the metric that decides: as the study says, else the workload's own.

    Where every treatment's rate is set, it says nothing of the network: then the 99th percentile decides, of
    the latency with `tcp_rr`, of the one-way delay with `udp_stream`. Of `mixed` it is the latency under
    load, not its increase: a share of the increase, which may be next to nothing, would be asked for in vain.
    Of `frames` it is the throughput where it is searched, else the forwarding rate.
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
