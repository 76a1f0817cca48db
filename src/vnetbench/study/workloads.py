"""The workloads that a study may name, and the metric of each that decides how often it repeats."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.model import Study

STREAM, REQUESTS, CONNECTIONS, DATAGRAMS, MIXED = "tcp_stream", "tcp_rr", "tcp_crr", "udp_stream", "mixed"
OF_SOCKETS = (STREAM, REQUESTS, CONNECTIONS, DATAGRAMS, MIXED)
"""Those whose load goes through the endpoints' sockets."""

FRAMES, FRAME_LATENCY, FRAME_LOSS = "frames", "frame_latency", "frame_loss"
BACK_TO_BACK, SOAK = "back_to_back", "soak"
OF_FRAMES = (FRAMES, FRAME_LATENCY, FRAME_LOSS, BACK_TO_BACK, SOAK)
"""Those whose load is frames, made and counted at the endpoints' interfaces (RFC 2544's tests)."""
LOADED = (FRAMES, FRAME_LATENCY, SOAK)
"""Of these the ones that hold one load, the factor `frame_load`."""

WORKLOADS = (*OF_SOCKETS, *OF_FRAMES)

MOST_GOALS = 4
"""Accepted loss ratios of one search: each has a metric of its own."""
THROUGHPUTS = ("throughput_fps", *(f"throughput_goal{number}_fps" for number in range(2, MOST_GOALS + 1)))
"""The metrics of the throughput within each goal, in the order of the study."""

OF_SERIES = (*THROUGHPUTS, "throughput_bps", "max_forwarding_rate_fps", "back_to_back_frames", "buffer_s")
"""The metrics that the steps of a trial tell, each a single figure without a course in time."""

DECIDING: Mapping[str, tuple[str, ...]] = {
    STREAM: ("goodput_bps",),
    REQUESTS: ("transactions_per_s", "latency_p50_us", "latency_p99_us"),
    CONNECTIONS: ("connections_per_s", "connect_p50_us", "connect_p99_us"),
    DATAGRAMS: ("datagrams_received_per_s", "goodput_bps", "delay_p50_us", "delay_p99_us"),
    MIXED: (
        "latency_p99_us",
        "latency_p50_us",
        "latency_increase_p99_us",
        "latency_increase_p50_us",
        "goodput_bps",
    ),
    FRAMES: (*THROUGHPUTS, "forwarding_rate_fps", "delay_p50_us", "delay_p99_us"),
    FRAME_LATENCY: ("delay_p99_us", "delay_p50_us", *THROUGHPUTS),
    FRAME_LOSS: ("max_forwarding_rate_fps", *THROUGHPUTS),
    BACK_TO_BACK: ("back_to_back_frames", "buffer_s"),
    SOAK: ("forwarding_rate_fps", "delay_p50_us", "delay_p99_us"),
}
"""The metrics of each workload that `precision.metric` may name."""


RATES = ("rate", "bit_rate")
"""The factors that set how often something is sent, or with the level `none` leave it to the network."""


def main_metric(study: Study) -> str:
    """The name of the metric that decides: as the study says, else the workload's own.

    Where every treatment's rate is set, it says nothing of the network: then the 99th percentile decides, of
    the latency with `tcp_rr`, of the one-way delay with `udp_stream`. Of `mixed` it is the latency under
    load, not its increase: a share of the increase, which may be next to nothing, would be asked for in vain.
    Of `frames` it is the throughput where it is searched, else the forwarding rate.
    """
    if study.precision.metric is not None:
        return study.precision.metric
    if study.workload == MIXED:
        return DECIDING[MIXED][0]
    if study.workload == FRAMES and study.search is None:
        return "forwarding_rate_fps"
    if study.workload in OF_FRAMES:
        return DECIDING[study.workload][0]
    names = {factor.name for factor in study.factors if factor.name in RATES and "none" not in factor.levels}
    return DECIDING[study.workload][-1 if names else 0]
