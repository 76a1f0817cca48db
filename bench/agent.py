"""Runs of our own agent, with results of the same form as the runs of the peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.loads import (
    DatagramLoad,
    DatagramResult,
    LatencyResult,
    RequestLoad,
    StreamLoad,
    StreamResult,
    check_received_bytes,
)
from bench.peers.sockperf import COOLDOWN_S, WARMUP_S
from bench.programs import RunFailed
from bench.testbed import PeerTestbed
from vnetbench.agents.client import AgentError
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement, measure_trial
from vnetbench.errors import BenchError
from vnetbench.estimate.latency import histogram_quantile_us_if_resolved, merge_histograms
from vnetbench.lab.errors import TrialFailed
from vnetbench.results.records import EndpointRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_RR, TCP_STREAM, UDP_STREAM

TOOL = "vnetbench"
SAMPLE_INTERVAL_S = 0.1
_FINE_INTERVAL_S = 0.05


def run_trial(
    testbed: PeerTestbed,
    workload: str,
    seconds: float,
    levels: Mapping[str, Level],
    sample_interval_s: float = SAMPLE_INTERVAL_S,
) -> TrialMeasurement:
    """Run one trial.

    Raises:
        RunFailed: The trial failed.
    """
    try:
        all_levels = complete_levels({**testbed.levels, **levels}, workload)
        load = TrialLoad(all_levels, seconds, sample_interval_s, workload)
        return measure_trial(testbed.testbed, testbed.observer, load)
    except (BenchError, TrialFailed, AgentError) as error:
        raise RunFailed(str(error)) from error


def endpoint_record(measurement: TrialMeasurement, role: str) -> EndpointRecord:
    """Return the record of the endpoint with this role: source, sink or observe."""
    return next(record for record in measurement.endpoints if record.role == role)


def run_streams(testbed: PeerTestbed, load: StreamLoad, levels: Mapping[str, Level]) -> StreamResult:
    """Run TCP streams. Bytes that the sink reads after the load's end do not count."""
    all_levels = {"streams": load.count, "message_size": load.message_bytes or 1 << 20, **levels}
    measurement, counters = testbed.observe_run(
        lambda: run_trial(testbed, TCP_STREAM, load.seconds, all_levels)
    )
    samples = endpoint_record(measurement, "sink").samples
    in_time = [sample for sample in samples if sample.end_s <= load.seconds + _FINE_INTERVAL_S]
    if not in_time:
        raise RunFailed("the sink sent no sample during the load")
    bytes_received = sum(sample.bytes_received for sample in in_time)
    cpu_s = _threads_cpu_s(measurement, "source") + _threads_cpu_s(measurement, "sink")
    return check_received_bytes(StreamResult(bytes_received, in_time[-1].end_s, counters, cpu_s))


def run_requests(testbed: PeerTestbed, load: RequestLoad) -> LatencyResult:
    """Run tcp_rr, without the first 400 ms and the last 50 ms, which sockperf excludes too."""
    levels: dict[str, Level] = {
        "request_size": load.size_bytes,
        "response_size": load.size_bytes,
        "waiting": load.waiting,
    }
    measurement = run_trial(testbed, TCP_RR, load.seconds, levels, _FINE_INTERVAL_S)
    first_s = WARMUP_S + _FINE_INTERVAL_S / 2
    last_s = load.seconds - COOLDOWN_S + _FINE_INTERVAL_S / 2
    samples = endpoint_record(measurement, "source").samples
    latency = merge_histograms(
        sample.histograms["latency"] for sample in samples if first_s < sample.end_s < last_s
    )
    p50, p99 = (
        histogram_quantile_us_if_resolved(latency, 0.5),
        histogram_quantile_us_if_resolved(latency, 0.99),
    )
    if p50 is None or p99 is None:
        raise RunFailed("too few responses")
    return LatencyResult(p50, p99)


def run_datagrams(
    testbed: PeerTestbed, load: DatagramLoad, segmentation: str, buffer_bytes: int | None = None
) -> DatagramResult:
    """Run udp_stream with one flow. A paced source spins until the next datagram is due.

    Args:
        testbed: The testbed.
        load: The load.
        segmentation: Level of `udp_gso` and `udp_gro`: on or off.
        buffer_bytes: Bytes of the socket buffers; None for the kernel's default.
    """
    levels: dict[str, Level] = {
        "datagram_size": load.size_bytes,
        "rate": load.rate_per_s or "none",
        "udp_gso": segmentation,
        "udp_gro": segmentation,
        **({} if buffer_bytes is None else {"socket_buffer": buffer_bytes}),
    }
    measurement, counters = testbed.observe_run(lambda: run_trial(testbed, UDP_STREAM, load.seconds, levels))
    source: Mapping[str, Any] = endpoint_record(measurement, "source").totals
    sink: Mapping[str, Any] = endpoint_record(measurement, "sink").totals
    seconds = float(source["duration_s"])
    if segmentation == "on":  # the kernel counts a packet of many segments once
        return DatagramResult(_sum_streams(source, "datagrams"), _sum_streams(sink, "datagrams"), seconds)
    cpu_s = _threads_cpu_s(measurement, "source")
    return DatagramResult(counters.datagrams_sent, counters.datagrams_received, seconds, cpu_s)


def _threads_cpu_s(measurement: TrialMeasurement, role: str) -> float:
    """Return the CPU time of the load's threads at an endpoint."""
    totals: Mapping[str, Any] = endpoint_record(measurement, role).totals
    return float(totals["counters"]["threads_cpu_s"])


def _sum_streams(totals: Mapping[str, Any], counter: str) -> float:
    return float(sum(stream[counter] for stream in totals["streams"]))
