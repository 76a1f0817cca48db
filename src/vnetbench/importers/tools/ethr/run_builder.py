"""Build runs from the collected output of an ethr test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from vnetbench.importers.arithmetic import has_observation_beyond, mean_value, sum_values
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.tools.ethr.amounts import parse_amount
from vnetbench.importers.value_columns import ValueColumn
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_CRR, TCP_RR, TCP_STREAM, UDP_STREAM, WORKLOADS

if TYPE_CHECKING:
    from vnetbench.importers.tools.ethr.report import EthrReport

_PERCENT_BY_PERCENTILE_NAME = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9, "p99_99": 99.99}
_RatesBySecond = Mapping[int, dict[str, RoundedValue]]
"""Values of all streams together, by second."""


def build_run_per_latency_line(report: EthrReport) -> list[Run]:
    """Return a run for each line of latencies."""
    first_lines = [report.first_line, *(each.line_number for each in report.latency_lines[1:])]
    last_lines = [*(each.line_number for each in report.latency_lines[:-1]), report.last_line]
    return [
        _build_latency_run(report, each.latency_us_by_statistic, first_line, last_line)
        for each, first_line, last_line in zip(report.latency_lines, first_lines, last_lines, strict=True)
    ]


def _build_latency_run(
    report: EthrReport, latency_us_by_statistic: Mapping[str, RoundedValue], first_line: int, last_line: int
) -> Run:
    is_ping = report.test_type == "ping" or report.options.get("t") == "pi"
    prefix = "connect" if is_ping else "latency"
    metrics = {
        f"{prefix}_{name}_us": value
        for name, value in latency_us_by_statistic.items()
        if name == "mean"
        or not report.requests_per_latency_line
        or has_observation_beyond(report.requests_per_latency_line, _PERCENT_BY_PERCENTILE_NAME[name])
    }
    percentiles = [metrics.get(f"{prefix}_{name}_us") for name in ("p99_9", "p99_99")]
    if not report.requests_per_latency_line and percentiles[0] == percentiles[1]:
        metrics.pop(f"{prefix}_p99_99_us", None)  # Too few requests to distinguish them.
    sizes: dict[str, Level] = {}
    if report.request_bytes and not is_ping:
        sizes = {"request_size": report.request_bytes, "response_size": report.request_bytes}
    shifted = "ethr prints its percentiles under shifted names. vnetbench corrects the names."
    return Run(
        tool=report.tool,
        version=report.version,
        first_line=first_line,
        last_line=last_line,
        workload=TCP_CRR if is_ping else TCP_RR,
        factors={**sizes, "connections": 1, "direction": FORWARD},
        metrics=metrics,
        started_at=report.started_at,
        reported_by="receiver" if report.is_server else "sender",
        command=report.command_text,
        other_results=_collect_other_results(report),
        remarks=(shifted,) if report.has_shifted_percentile_names else (),
    )


def build_throughput_run(report: EthrReport) -> Run:
    """Return the run of a client's test of bandwidth, packets or connections."""
    workload = UDP_STREAM if report.protocol == "UDP" or report.options.get("p") == "udp" else TCP_STREAM
    if report.test_type == "connections" or report.options.get("t") == "c":
        workload = TCP_CRR
    is_reverse = "r" in report.options
    direction = REVERSE if is_reverse else FORWARD
    seconds = dict(_combine_streams_by_second(report))
    is_complete = bool(seconds) and (
        report.has_end_line or not (report.needs_end_line or report.error_message)
    )
    stream_count = sum(stream.isdigit() for stream in set(report.rows["stream"]))
    count = stream_count or int(report.options.get("n", "1"))
    factors: dict[str, Level] = {"direction": direction, WORKLOADS[workload].count_factor: count}
    return Run(
        tool=report.tool,
        version=report.version,
        first_line=report.first_line,
        last_line=report.last_line,
        workload=workload,
        factors=factors,
        metrics=_average_metrics_over_seconds(report, workload, seconds) if is_complete else {},
        intervals=_build_intervals(report, workload, seconds, direction),
        measured_duration_s=float(len(seconds)) or None,
        started_at=report.started_at,
        reported_by="receiver" if is_reverse else "sender",
        command=report.command_text,
        other_results={
            **_collect_other_results(report),
            **_connection_rate_as_other_result(workload, seconds),
        },
        failure=report.failure_reason(is_complete=is_complete),
        remarks=tuple(_list_remarks(report, workload)),
    )


def _combine_streams_by_second(report: EthrReport) -> Iterable[tuple[int, dict[str, RoundedValue]]]:
    """Yield the values of each second for all streams together: ethr's own sum, or the sum of its streams."""
    by_second: dict[int, dict[str, dict[str, str]]] = defaultdict(dict)
    for client_row in report.client_rows():
        by_second[client_row.second][client_row.stream_id] = client_row.printed_value_by_name
    for second in sorted(by_second):
        by_stream = by_second[second]
        rows = [by_stream["SUM"]] if "SUM" in by_stream else list(by_stream.values())
        names = set(rows[0]).intersection(*rows)
        yield second, {name: sum_values(parse_amount(row[name]) for row in rows) for name in sorted(names)}


def _is_sender(report: EthrReport) -> bool:
    return "r" not in report.options


def _average_metrics_over_seconds(
    report: EthrReport, workload: str, rates_by_second: _RatesBySecond
) -> dict[str, RoundedValue]:
    load = WORKLOADS[workload]
    names = {"bits": "goodput_bps"} if load.is_byte_stream else {}
    if load.has_datagrams and _is_sender(report):
        names = {"packets": "datagrams_sent_per_s"}
    elif load.has_datagrams:
        names = {"bits": "goodput_bps", "packets": "datagrams_received_per_s"}
    return {
        ours: mean_value(row[theirs] for row in rates_by_second.values())
        for theirs, ours in names.items()
        if all(theirs in row for row in rates_by_second.values())
    }


def _build_intervals(
    report: EthrReport, workload: str, rates_by_second: _RatesBySecond, direction: str
) -> PackedIntervals:
    """Return each second. For UDP only a receiver has intervals: a sender does not know what arrived."""
    load = WORKLOADS[workload]
    if load.has_connection_per_request or (load.has_datagrams and _is_sender(report)):
        return PackedIntervals()
    seconds = np.array([second for second, row in rates_by_second.items() if "bits" in row], dtype=np.float64)
    rates = ValueColumn.of_values([row["bits"] for row in rates_by_second.values() if "bits" in row])
    return PackedIntervals.of_columns(seconds, seconds + 1.0, {"bytes": rates.scale(1 / 8)}, direction)


def _collect_other_results(report: EthrReport) -> dict[str, str]:
    return {name: text for name, text in (("title", report.test_title), ("ended", report.end_reason)) if text}


def _connection_rate_as_other_result(workload: str, rates_by_second: _RatesBySecond) -> dict[str, str]:
    """Return the rate of connections that carry no request, which is none of our metrics."""
    rows = [row["connections"] for row in rates_by_second.values() if "connections" in row]
    has_rate = WORKLOADS[workload].has_connection_per_request and rows
    return {"Conn/s": f"{mean_value(rows).value:g}"} if has_rate else {}


def _list_remarks(report: EthrReport, workload: str) -> Iterable[str]:
    load = WORKLOADS[workload]
    if load.has_connection_per_request:
        yield "The connections carry no request, so vnetbench has no metric for their rate."
    elif load.has_datagrams and _is_sender(report):
        yield "The log does not say how many datagrams arrived."
    elif report.has_client_rows:
        yield (
            "ethr reports no result of the whole run, so the result is the mean of the values for each "
            "second."
        )
    if report.error_message and report.has_client_rows:
        yield f"ethr reported: {report.error_message}"
