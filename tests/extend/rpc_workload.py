"""The workload of docs/how-to/extend/add-a-workload.md: requests judged by their slowest responses."""

from __future__ import annotations

from vnetbench.study.workloads import TCP_RR, Workload

RPC = Workload(
    name="rpc",
    description="remote procedure calls, judged by their slowest responses",
    deciding_metrics=("latency_p99_us", "latency_p50_us", "transactions_per_s"),
    deciding_description="99th percentile of latency",
    size_factor="request_size",
    count_factor="connections",
    achieved_rate_metric="transactions_per_s",
    offered_load_factors=("rate",),
    has_requests=True,
    agent_workload_override=TCP_RR,
)
