"""The workloads that a study may name, and the metric of each that decides how often it repeats."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.model import Study

STREAM, REQUESTS, CONNECTIONS = "tcp_stream", "tcp_rr", "tcp_crr"
WORKLOADS = (STREAM, REQUESTS, CONNECTIONS)

DECIDING: Mapping[str, tuple[str, ...]] = {
    STREAM: ("goodput_bps",),
    REQUESTS: ("transactions_per_s", "latency_p50_us", "latency_p99_us"),
    CONNECTIONS: ("connections_per_s", "connect_p50_us", "connect_p99_us"),
}
"""The metrics of each workload that `precision.metric` may name."""


def main_metric(study: Study) -> str:
    """The name of the metric that decides: as the study says, else the workload's own.

    Of `tcp_rr` that is the transaction rate; where every treatment is an open loop, whose rate is set, it is
    the latency's 99th percentile.
    """
    if study.precision.metric is not None:
        return study.precision.metric
    rates = next((factor.levels for factor in study.factors if factor.name == "rate"), ())
    if rates and "none" not in rates:
        return "latency_p99_us"
    return DECIDING[study.workload][0]
