"""Read the XML of NTttcp for Windows and of ntttcp for Linux, and the JSON of the latter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any
from xml.etree.ElementTree import Element

from vnetbench.importers.arithmetic import scale_value, sum_values
from vnetbench.importers.reader import DocumentReader
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.importers.tools.ntttcp.endpoint_report import (
    LINUX,
    WINDOWS,
    EndpointReport,
    build_run,
    rate_per_second,
    subtract_from_whole,
)
from vnetbench.importers.tools.ntttcp.options import RECEIVER, SENDER, RequestedOptions, raw_write_size_level
from vnetbench.importers.units import parse_exact_count, parse_rounded
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

_ENDPOINT_BY_ROOT_TAG = {"ntttcps": SENDER, "ntttcpr": RECEIVER}
_SAMPLES_TAG = "samples"
"""The element that `-sam` of NTttcp for Windows puts around its samples."""
_LINUX_VERSION_SUFFIX = "-linux"
"""ntttcp for Linux writes `5.33-linux` in every version (util.c, write_result_into_xml_file)."""

_PARAMETER_NAME_BY_JSON_NAME = {
    "sendSocketBuff": "send_socket_buff",
    "useIpv6": "use_ipv6",
    "warmupTime": "warmup_time",
    "realTime": "realtime",
    "avgPacketsPerInterrupt": "avg_packets_per_interrupt",
    "interrupt": "interrupts",
    "interruptTotal": "total_interrupts",
    "packetsSent": "packets_sent",
    "packetsReceived": "packets_received",
    "totalBytes": "total_bytes",
    "tcpAverageRtt metric": "tcp_average_rtt",
    # In JSON this is the process's share of one CPU, in the XML of Windows the system's.
    "cpu": "cpu_busy_all",
    "cycles": "cycles_per_byte",
}
_COMMON_OTHER_RESULT_KEYS = (
    "total_bytes",
    "avg_packets_per_interrupt",
    "packets_sent",
    "packets_received",
    "packets_retransmitted",
)
_WINDOWS_OTHER_RESULT_KEYS = (
    *_COMMON_OTHER_RESULT_KEYS, "avg_frame_size", "total_buffers", "throughput buffers/s", "dpcs",
    "avg_packets_per_dpc",
    "errors", "num_processors", "avg_latency", "min_latency", "max_latency",
)  # fmt: skip
_LINUX_OTHER_RESULT_KEYS = (
    *_COMMON_OTHER_RESULT_KEYS, "total_interrupts", "interrupts", "cpu_cores", "cpu_speed", "user",
    "system", "idle",
    "iowait", "softirq", "os",
)  # fmt: skip
"""Without the values that it writes as 0 to match the format of Windows (write_result_into_xml_file)."""
_THROUGHPUT_KEY_TEMPLATE = "throughput {metric}"


@dataclass(frozen=True)
class _EndpointDocument:
    """The document of one endpoint in any format. Values have the names of the XML."""

    endpoint: str
    version: str
    computer: str
    parameters: Mapping[str, str]
    """The content of `parameters`."""
    values: Mapping[str, str]
    """The other values. `<throughput metric="mbps">` has the name `throughput mbps`."""
    threads: int

    @property
    def is_from_linux(self) -> bool:
        return self.version.endswith(_LINUX_VERSION_SUFFIX)


def _is_ntttcp_xml(root: Element) -> bool:
    return root.tag in _ENDPOINT_BY_ROOT_TAG or (
        root.tag == _SAMPLES_TAG and len(root) > 0 and root[0].tag in _ENDPOINT_BY_ROOT_TAG
    )


def _read_xml_runs(root: Element, first_line: int, last_line: int) -> list[Run]:
    if root.tag in _ENDPOINT_BY_ROOT_TAG:
        return [build_run(_build_endpoint_report(_parse_endpoint(root), first_line, last_line))]
    return [
        build_run(
            _combine_samples_as_intervals([_parse_endpoint(each) for each in root], first_line, last_line)
        )
    ]


def _parse_endpoint(root: Element) -> _EndpointDocument:
    parameters = root.find("parameters")
    return _EndpointDocument(
        endpoint=_ENDPOINT_BY_ROOT_TAG[root.tag],
        version=root.get("version", ""),
        computer=root.get("computername", ""),
        parameters={} if parameters is None else {each.tag: (each.text or "").strip() for each in parameters},
        values=dict(_iterate_texts(root)),
        threads=len(root.findall("thread")),
    )


def _iterate_texts(root: Element) -> Iterator[tuple[str, str]]:
    for each in root:
        if len(each) == 0:
            metric = each.get("metric", "")
            name = _THROUGHPUT_KEY_TEMPLATE.format(metric=metric) if each.tag == "throughput" else each.tag
            yield ("cycles_per_byte" if name == "cycles" else name), (each.text or "").strip()


def _is_ntttcp_json(document: Any) -> bool:
    return isinstance(document, dict) and any(
        isinstance(document.get(name), dict) for name in _ENDPOINT_BY_ROOT_TAG
    )


def _read_json_runs(document: Any, first_line: int, last_line: int) -> list[Run]:
    return [
        build_run(_build_endpoint_report(_parse_json_endpoint(name, document[name]), first_line, last_line))
        for name in _ENDPOINT_BY_ROOT_TAG
        if isinstance(document.get(name), dict)
    ]


def _parse_json_endpoint(name: str, body: Mapping[str, Any]) -> _EndpointDocument:
    values = {
        _PARAMETER_NAME_BY_JSON_NAME.get(key, key): _scalar_text_or_empty(value)
        for key, value in body.items()
    }
    values |= {
        _THROUGHPUT_KEY_TEMPLATE.format(metric=each.get("metric", "")): _scalar_text_or_empty(each)
        for each in body.get("throughputs", [])
    }
    parameters = body.get("parameters", {})
    return _EndpointDocument(
        endpoint=_ENDPOINT_BY_ROOT_TAG[name],
        version=str(body.get("version", "")),
        computer=str(body.get("computername", "")),
        parameters={
            _PARAMETER_NAME_BY_JSON_NAME.get(key, key): str(value) for key, value in parameters.items()
        },
        values={key: text for key, text in values.items() if text},
        threads=len(body.get("threads", [])),
    )


def _scalar_text_or_empty(value: Any) -> str:
    """Return the text of `"40"`, `{"metric": "s", "value": "2.001677"}` or `"413 us"`; empty for a list."""
    if isinstance(value, Mapping):
        value = value.get("value", "")
    return str(value) if isinstance(value, str | int | float) else ""


def _build_endpoint_report(document: _EndpointDocument, first_line: int, last_line: int) -> EndpointReport:
    values, tool = document.values, LINUX if document.is_from_linux else WINDOWS
    duration = values.get("realtime", "")
    throughput = values.get("throughput mbps")
    requested = _find_requested_options(document)
    names = _LINUX_OTHER_RESULT_KEYS if document.is_from_linux else _WINDOWS_OTHER_RESULT_KEYS
    other_results = {name: values[name] for name in names if name in values}
    return EndpointReport(
        tool,
        first_line,
        last_line,
        requested,
        # ntttcp for Linux writes the version of the format there.
        "" if document.is_from_linux else document.version,
        throughput_bps=parse_rounded(throughput, 1e6) if throughput else None,
        datagram_bytes=_find_datagram_bytes(document, requested),
        endpoint_values_by_name=dict(_compute_endpoint_values(document)) if duration else {},
        other_results=other_results | {"computername": document.computer},
        duration_s=parse_rounded(duration).value if duration else None,
        omitted_s=requested.warm_up_s or 0.0,
        failure="" if throughput else "the document contains no throughput",
    )


def _combine_samples_as_intervals(
    documents: list[_EndpointDocument], first_line: int, last_line: int
) -> EndpointReport:
    """Return one report for several samples: each is an interval, and the values are their means."""
    reports = [_build_endpoint_report(document, first_line, last_line) for document in documents]
    lengths = [report.duration_s or 0.0 for report in reports]
    rates = [report.throughput_bps or RoundedValue.exact(0.0) for report in reports]
    starts = list(accumulate(lengths, initial=0.0))
    duration_s = starts.pop()
    if duration_s <= 0:
        raise ValueError("the samples have no duration")
    return replace(
        reports[0],
        throughput_bps=_weighted_mean(rates, lengths),
        endpoint_values_by_name={
            name: _weighted_mean([report.endpoint_values_by_name[name] for report in reports], lengths)
            for name in reports[0].endpoint_values_by_name
            if all(name in report.endpoint_values_by_name for report in reports)
        },
        other_results={"samples": str(len(reports)), "computername": documents[0].computer},
        duration_s=duration_s,
        intervals=tuple(
            ReportInterval(start, start + length, {"bytes": scale_value(rate, length / 8)})
            for start, length, rate in zip(starts, lengths, rates, strict=True)
        ),
    )


def _weighted_mean(values: list[RoundedValue], weights: list[float]) -> RoundedValue:
    total = sum_values(scale_value(value, weight) for value, weight in zip(values, weights, strict=True))
    weight = sum(weights)
    return RoundedValue(total.value / weight, total.low / weight, total.high / weight)


def _find_requested_options(document: _EndpointDocument) -> RequestedOptions:
    parameters = document.parameters
    if "udp" not in parameters:
        return RequestedOptions(document.endpoint)
    is_udp = parameters["udp"] == "True"
    length = _find_max_bytes_per_call(document)
    levels: dict[str, object] = {"ip_version": 6 if parameters.get("use_ipv6") == "True" else 4}
    if document.endpoint == SENDER:
        levels |= raw_write_size_level(is_udp, length)
    streams = document.values.get("conns_tested") if document.is_from_linux else str(document.threads or "")
    if streams and streams.isdigit():
        levels["streams"] = int(streams)
    # Windows writes the measured time in milliseconds, Linux the parameters time in seconds.
    warm_up = parse_rounded(parameters.get("warmup_time", "0"), 1.0 if document.is_from_linux else 1e-3)
    return RequestedOptions(
        document.endpoint, UDP_STREAM if is_udp else TCP_STREAM, levels, length, warm_up.value
    )


def _find_max_bytes_per_call(document: _EndpointDocument) -> int | None:
    """Return what one call sends, or receives at most. On Linux the name is that of the socket's buffer."""
    text = (
        document.parameters.get("send_socket_buff", "")
        if document.is_from_linux
        else document.values.get("bufferLen", "")
    )
    return int(text) if text.isdigit() and len(text) < 16 else None


def _find_datagram_bytes(document: _EndpointDocument, requested: RequestedOptions) -> int | None:
    """Return the size of a datagram, if every call takes exactly one buffer."""
    if document.is_from_linux:
        return requested.max_bytes_per_call if document.endpoint == SENDER else None
    bytes_per_call = parse_rounded(document.values.get("avg_bytes_per_compl", "0")).value
    return requested.max_bytes_per_call if bytes_per_call == requested.max_bytes_per_call else None


def _compute_endpoint_values(document: _EndpointDocument) -> Iterator[tuple[str, RoundedValue]]:
    values, duration = document.values, document.values["realtime"]
    if "cycles_per_byte" in values:
        yield "cycles_per_byte", parse_rounded(values["cycles_per_byte"])
    if "packets_retransmitted" in values and document.parameters.get("udp") != "True":
        yield "retransmits_per_s", rate_per_second(values["packets_retransmitted"], duration)
    yield from (
        _compute_linux_endpoint_values(values, duration)
        if document.is_from_linux
        else _compute_windows_endpoint_values(values)
    )


def _compute_windows_endpoint_values(values: Mapping[str, str]) -> Iterator[tuple[str, RoundedValue]]:
    if "cpu" in values:
        yield "busy_percent", parse_rounded(values["cpu"])
    if "interrupts" in values:
        yield "interrupts_per_s", parse_rounded(values["interrupts"])


def _compute_linux_endpoint_values(
    values: Mapping[str, str], duration: str
) -> Iterator[tuple[str, RoundedValue]]:
    if {"idle", "iowait"} <= values.keys():
        yield (
            "busy_percent",
            subtract_from_whole(100.0, parse_rounded(values["idle"]), parse_rounded(values["iowait"])),
        )
    if "cpu_busy_all" in values:
        yield "cpu_percent", parse_rounded(values["cpu_busy_all"])
    # ntttcp writes 0 unless it counts them (--show-nic-packets).
    if values.get("packets_received", "0") != "0":
        yield "packets_per_s", rate_per_second(values["packets_received"], duration)
    if "tcp_average_rtt" in values:
        yield "rtt_us", parse_exact_count(values["tcp_average_rtt"].removesuffix(" us"))


READERS = (
    DocumentReader(WINDOWS, "xml", _is_ntttcp_xml, _read_xml_runs),
    DocumentReader(LINUX, "json", _is_ntttcp_json, _read_json_runs),
)
