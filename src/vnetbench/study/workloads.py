"""The workloads that a study may name, and the metric of each that decides how often it repeats."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.model import Study

STREAM, REQUESTS, CONNECTIONS, DATAGRAMS = "tcp_stream", "tcp_rr", "tcp_crr", "udp_stream"
WORKLOADS = (STREAM, REQUESTS, CONNECTIONS, DATAGRAMS)

DECIDING: Mapping[str, tuple[str, ...]] = {
    STREAM: ("goodput_bps",),
    REQUESTS: ("transactions_per_s", "latency_p50_us", "latency_p99_us"),
    CONNECTIONS: ("connections_per_s", "connect_p50_us", "connect_p99_us"),
    DATAGRAMS: ("datagrams_received_per_s", "delay_p50_us", "delay_p99_us"),
}
"""The metrics of each workload that `precision.metric` may name."""


RATES = ("rate", "bit_rate")
"""The factors that set how often something is sent, or with the level `none` leave it to the network."""


def main_metric(study: Study) -> str:
    """The name of the metric that decides: as the study says, else the workload's own.

    Where every treatment's rate is set, it says nothing of the network: then the 99th percentile decides, of
    the latency with `tcp_rr`, of the one-way delay with `udp_stream`.
    """
    if study.precision.metric is not None:
        return study.precision.metric
    names = {factor.name for factor in study.factors if factor.name in RATES and "none" not in factor.levels}
    return DECIDING[study.workload][-1 if names else 0]
