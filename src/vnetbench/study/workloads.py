"""The workloads that a study may name, and the metric of each that decides how often it repeats."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.model import Study

STREAM, REQUESTS, CONNECTIONS, MIXED = "tcp_stream", "tcp_rr", "tcp_crr", "mixed"
WORKLOADS = (STREAM, REQUESTS, CONNECTIONS, MIXED)

DECIDING: Mapping[str, tuple[str, ...]] = {
    STREAM: ("goodput_bps",),
    REQUESTS: ("transactions_per_s", "latency_p50_us", "latency_p99_us"),
    CONNECTIONS: ("connections_per_s", "connect_p50_us", "connect_p99_us"),
    MIXED: (
        "latency_p99_us",
        "latency_p50_us",
        "latency_increase_p99_us",
        "latency_increase_p50_us",
        "goodput_bps",
    ),
}
"""The metrics of each workload that `precision.metric` may name."""


def main_metric(study: Study) -> str:
    """The name of the metric that decides: as the study says, else the workload's own.

    Of `mixed` that is the latency under load, not its increase: a share of the increase, which may be next to
    nothing, would be asked for in vain. Of `tcp_rr` it is the transaction rate; where every treatment is an
    open loop, whose rate is set, it is the latency's 99th percentile.
    """
    if study.precision.metric is not None:
        return study.precision.metric
    if study.workload == MIXED:
        return DECIDING[MIXED][0]
    rates = next((factor.levels for factor in study.factors if factor.name == "rate"), ())
    if rates and "none" not in rates:
        return "latency_p99_us"
    return DECIDING[study.workload][0]
