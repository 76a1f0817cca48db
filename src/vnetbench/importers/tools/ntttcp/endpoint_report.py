"""Translate what any NTttcp reports about one endpoint of a run into our metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.importers.tools.ntttcp.options import (
    RECEIVER,
    SENDER,
    RequestedOptions,
    parse_levels_and_remarks,
)
from vnetbench.importers.units import parse_exact_count, parse_rounded
from vnetbench.study.workloads import TCP_STREAM, WORKLOADS

WINDOWS, LINUX = "NTttcp", "NTTTCP for Linux"
"""Names of the tools, as they print them."""

_METRIC_TEMPLATE_BY_VALUE = {
    "busy_percent": "{endpoint}_busy_percent",
    "cpu_percent": "{endpoint}_cpu_percent",
    "cycles_per_byte": "{endpoint}_cycles_per_byte",
    "interrupts_per_s": "{endpoint}_interrupts_per_s",
}
"""Metrics of one endpoint's machine or process. They need a log that says which endpoint wrote it."""
_METRIC_BY_SENDER_VALUE = {"retransmits_per_s": "sender_retransmits_per_s", "rtt_us": "rtt_us"}
_METRIC_BY_RECEIVER_VALUE = {"packets_per_s": "packets_per_s"}
_CPU_TIME_REMARK = (
    "vnetbench leaves out the CPU time, because it is not above 0 %, as NTttcp prints for runs that are "
    "too short."
)


@dataclass(frozen=True)
class EndpointReport:
    """One endpoint's log of one run, in the tool's terms."""

    tool: str
    first_line: int
    last_line: int
    requested_options: RequestedOptions = field(default_factory=RequestedOptions)
    version: str = ""
    throughput_bps: RoundedValue | None = None
    """Bits that this endpoint sent or received, over its run time."""
    datagram_bytes: int | None = None
    """Size of a datagram, if each call moved exactly one."""
    endpoint_values_by_name: Mapping[str, RoundedValue] = field(default_factory=dict)
    """Values by the names above."""
    other_results: Mapping[str, str] = field(default_factory=dict)
    duration_s: float | None = None
    omitted_s: float = 0.0
    intervals: tuple[ReportInterval, ...] = ()
    command: str = ""
    failure: str = ""
    remarks: tuple[str, ...] = ()


def build_run(report: EndpointReport) -> Run:
    """Return the run that an endpoint's log reports. Raises ValueError for a damaged log."""
    endpoint, workload = report.requested_options.endpoint, report.requested_options.workload or TCP_STREAM
    if report.duration_s is not None and report.duration_s < 0:
        raise ValueError(f"the duration is {report.duration_s} s")
    factors, unsupported = parse_levels_and_remarks(report.requested_options.raw_level_by_factor, workload)
    lacks_cpu_time = (
        "busy_percent" in report.endpoint_values_by_name
        and report.endpoint_values_by_name["busy_percent"].high <= 0
    )
    metrics, other_results = _split_metrics_and_other_results(
        _drop_cpu_time_values(report.endpoint_values_by_name)
        if lacks_cpu_time
        else report.endpoint_values_by_name,
        endpoint,
    )
    throughput = _compute_throughput_metrics(report, endpoint, workload)
    return Run(
        tool=report.tool,
        version=report.version,
        first_line=report.first_line,
        last_line=report.last_line,
        workload=workload,
        factors=factors,
        metrics=throughput | metrics,
        intervals=report.intervals,
        measured_duration_s=report.duration_s,
        omitted_s=report.omitted_s,
        reported_by=endpoint,
        command=report.command,
        other_results={
            **report.other_results,
            **other_results,
            **_format_offered_rate(report, endpoint, workload),
        },
        failure=report.failure or report.requested_options.unsupported_reason,
        remarks=(
            *report.remarks,
            *_list_remarks(report, workload),
            *((_CPU_TIME_REMARK,) if lacks_cpu_time else ()),
            *unsupported,
        ),
    )


def rate_per_second(count: str, duration: str) -> RoundedValue:
    """Return the rate of an exact count over a printed time in seconds.

    Raises ValueError if there is none.
    """
    seconds, total = parse_rounded(duration), parse_exact_count(count).value
    if seconds.low <= 0:
        raise ValueError(f"the duration is zero: {duration!r}")
    return RoundedValue(total / seconds.value, total / seconds.high, total / seconds.low)


def subtract_from_whole(whole: float, *parts: RoundedValue) -> RoundedValue:
    """Return an exact number minus several printed ones."""
    return RoundedValue(
        whole - sum(x.value for x in parts),
        whole - sum(x.high for x in parts),
        whole - sum(x.low for x in parts),
    )


def _split_metrics_and_other_results(
    values: Mapping[str, RoundedValue], endpoint: str
) -> tuple[dict[str, RoundedValue], dict[str, str]]:
    """Return our metrics from an endpoint's values, and the values without a metric as text."""
    names = dict(_METRIC_TEMPLATE_BY_VALUE) if endpoint else {}
    names |= (
        _METRIC_BY_SENDER_VALUE
        if endpoint == SENDER
        else _METRIC_BY_RECEIVER_VALUE
        if endpoint == RECEIVER
        else {}
    )
    metrics = {
        names[name].format(endpoint=endpoint): value for name, value in values.items() if name in names
    }
    return metrics, {} if endpoint else {name: f"{value.value:g}" for name, value in values.items()}


def _drop_cpu_time_values(values: Mapping[str, RoundedValue]) -> dict[str, RoundedValue]:
    return {name: value for name, value in values.items() if name not in ("busy_percent", "cycles_per_byte")}


def _compute_throughput_metrics(
    report: EndpointReport, endpoint: str, workload: str
) -> dict[str, RoundedValue]:
    """Return the throughput as metrics. A UDP sender reports only what it offered, which is no goodput."""
    throughput = report.throughput_bps
    if throughput is None:
        return {}
    has_datagrams = WORKLOADS[workload].has_datagrams
    metrics = {} if has_datagrams and endpoint == SENDER else {"goodput_bps": throughput}
    if has_datagrams and report.datagram_bytes and endpoint:
        bits = 8.0 * report.datagram_bytes
        name = "datagrams_sent_per_s" if endpoint == SENDER else "datagrams_received_per_s"
        metrics[name] = RoundedValue(throughput.value / bits, throughput.low / bits, throughput.high / bits)
    return metrics


def _format_offered_rate(report: EndpointReport, endpoint: str, workload: str) -> dict[str, str]:
    if report.throughput_bps is None or not WORKLOADS[workload].has_datagrams or endpoint != SENDER:
        return {}
    return {"offered bit/s": f"{report.throughput_bps.value:.0f}"}


def _list_remarks(report: EndpointReport, workload: str) -> tuple[str, ...]:
    requested, remarks = report.requested_options, list[str]()
    if report.failure:
        return ()
    if not requested.endpoint:
        remarks.append(
            "The log does not say whether the sender or the receiver wrote it, so its values for "
            "the machine (CPU, interrupts) are kept as text."
        )
    if not requested.workload:
        remarks.append(
            "The log does not say whether the load used TCP or UDP, so vnetbench assumes TCP, the default."
        )
    is_byte_stream = WORKLOADS[workload].is_byte_stream
    if requested.endpoint == SENDER and is_byte_stream and report.throughput_bps:
        remarks.append(
            "The goodput is what the sender wrote, because the log does not contain the receiver's goodput."
        )
    return tuple(remarks)
