"""Read iperf3's JSON: one document per run with `-J`, and the same parts as events with `--json-stream`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from vnetbench.importers.command_line import CommandLine
from vnetbench.importers.json_documents import take_json_document_and_rest
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.reader import StartsRun
from vnetbench.importers.runs import CUT_OFF_FAILURE, RoundedValue, Run
from vnetbench.importers.tools.iperf3.endpoint_results import (
    DIRECTIONS_BY_LEVEL,
    RECEIVER,
    SENDER,
    DirectionAndEndpoint,
    EndpointResult,
    EndpointResults,
    compute_results,
    cpu_metrics,
    drop_unreported_endpoint,
    format_connection,
    sender_or_receiver,
    split_udp_result,
)
from vnetbench.importers.tools.iperf3.json_parts import (
    IntervalCollector,
    JsonObject,
    as_integer,
    as_number,
    as_object,
    as_objects,
    numbers_if_all_present,
    read_intervals,
    scalar_text_or_empty,
)
from vnetbench.importers.tools.iperf3.line_patterns import split_tool_and_version
from vnetbench.importers.tools.iperf3.options import (
    find_requested_options,
    label_name_for_option,
    parse_level_or_none,
)
from vnetbench.importers.tools.iperf3.text_report import (
    SERVER_INTERVALS_REMARK,
    read_server_text_intervals,
)
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS

_KEY_SUFFIX_BY_DIRECTION = {FORWARD: "", REVERSE: "_bidir_reverse"}
"""Suffix of the names of sums, by direction."""
_START_KEYS_KEPT_AS_TEXT = ("cookie", "sndbuf_actual", "rcvbuf_actual", "tcp_mss_default", "system_info")


def is_iperf3_document(document: Any) -> bool:
    """Return whether a document is from iperf3."""
    if not isinstance(document, dict) or not isinstance(document.get("start"), dict):
        return False
    parts = {"intervals": list, "end": dict, "error": str}
    return any(isinstance(document.get(name), interval_format) for name, interval_format in parts.items())


def read_document_as_one_run(
    document: JsonObject, first_line: int, last_line: int, command: CommandLine | None = None
) -> list[Run]:
    """Return the run in a document."""
    builder = DocumentRunBuilder(as_object(document["start"]))
    for interval in as_objects(document.get("intervals")):
        builder.collector.add(interval)
    builder.other_parts = document
    return [builder.build_run(first_line, last_line, command)]


def read_document_after_command(
    lines: LogLines, starts_any_run: StartsRun, command: CommandLine
) -> list[Run]:
    """Return the run of the document that starts with the next line, behind a command line.

    Raises:
        ValueError: There is no document of iperf3.
    """
    first = lines.last_taken_number + 1
    buffer, rest = take_json_document_and_rest(lines, starts_any_run)
    document = buffer.parse() if rest is not None else buffer.parse_truncated()
    if not is_iperf3_document(document):
        raise ValueError("no iperf3 document follows the iperf3 command line in the log")
    if rest is not None and rest.strip():
        lines.put_back_rest_of_line(rest)
    runs = read_document_as_one_run(document, first, lines.last_taken_number, command)
    return runs if rest is not None else [replace(run, failure=CUT_OFF_FAILURE) for run in runs]


class DocumentRunBuilder:
    """Builds a run from the parts of a document or from events."""

    def __init__(self, start: JsonObject) -> None:
        self.start = start
        self.collector = IntervalCollector(start)
        self.other_parts: JsonObject = {}
        """What the document has besides `start` and `intervals`."""
        self.remarks: list[str] = []

    def build_run(self, first_line: int, last_line: int, command: CommandLine | None) -> Run:
        """Return the run, once all parts are there."""
        end, error = as_object(self.other_parts.get("end")), self.other_parts.get("error")
        self.collector.is_bidirectional |= f"sum_sent{_KEY_SUFFIX_BY_DIRECTION[REVERSE]}" in end
        requested = find_requested_options(command, self.collector.workload)
        failure = str(error) if error else "" if "cpu_utilization_percent" in end else CUT_OFF_FAILURE
        endpoint_results = drop_unreported_endpoint(
            self._collect_endpoint_results(end), self.collector.role, is_complete=not failure
        )
        results = compute_results(self.collector.workload, endpoint_results)
        server = self._read_server_intervals()
        tool, version = split_tool_and_version(scalar_text_or_empty(self.start.get("version")))
        return Run(
            tool=tool,
            version=version,
            first_line=first_line,
            last_line=last_line,
            workload=self.collector.workload,
            factors={**requested.factors, **self._build_factors(end)},
            metrics={**results.metrics, **self._compute_rtt(end), **self._compute_cpu_metrics(end, failure)},
            intervals=self.collector.intervals if server is None else server,
            measured_duration_s=results.duration_s,
            omitted_s=self.collector.omitted_s,
            started_at=_parse_start_time(as_object(self.start.get("timestamp")).get("timesecs")),
            reported_by=results.reported_by,
            first_connection_addresses=self._find_first_connection_addresses(),
            command=command.text if command else "",
            other_results={**requested.options_without_valid_level, **self._collect_other_results(end)},
            failure=failure or ("" if results.metrics else CUT_OFF_FAILURE),
            remarks=(
                *results.remarks,
                *self.remarks,
                *((SERVER_INTERVALS_REMARK,) if server is not None else ()),
            ),
        )

    def _read_server_intervals(self) -> PackedIntervals | None:
        """Return the intervals that a receiving server sent back (--get-server-output)."""
        document, text = (
            self.other_parts.get("server_output_json"),
            self.other_parts.get("server_output_text"),
        )
        intervals: PackedIntervals | None = None
        if self.collector.direction_level == "forward" and isinstance(document, dict):
            intervals = read_intervals(document)
        elif self.collector.direction_level == "forward" and isinstance(text, str):
            intervals = read_server_text_intervals(LogLines(text.splitlines()), lambda _: False)
        return intervals if intervals else None

    def _collect_endpoint_results(self, end: JsonObject) -> EndpointResults:
        streams = as_objects(end.get("streams"))
        results: dict[DirectionAndEndpoint, EndpointResult] = {}
        for direction in DIRECTIONS_BY_LEVEL[self.collector.direction_level]:
            if WORKLOADS[self.collector.workload].is_byte_stream:
                results |= self._sum_byte_stream_results(direction, streams)
            elif (sums := self._read_udp_sums(direction, end)) is not None:
                results |= sums
            else:
                results |= self._split_old_udp_result(direction, streams)
        return results

    def _sum_byte_stream_results(
        self, direction: str, streams: Sequence[JsonObject]
    ) -> Iterator[tuple[DirectionAndEndpoint, EndpointResult]]:
        for endpoint in (SENDER, RECEIVER):
            results = [
                part
                for each in streams
                if (part := as_object(each.get(endpoint)))
                and self.collector.stream_direction(part) == direction
            ]
            rates, seconds = (
                numbers_if_all_present(results, "bits_per_second"),
                numbers_if_all_present(results, "end"),
            )
            if results and rates and seconds:
                retransmits = numbers_if_all_present(results, "retransmits")
                count = (
                    int(sum(retransmits))
                    if retransmits and min(retransmits) >= 0 and endpoint == SENDER
                    else None
                )
                yield (
                    (direction, endpoint),
                    EndpointResult(RoundedValue.exact(max(seconds)), RoundedValue.exact(sum(rates)), count),
                )

    def _read_udp_sums(
        self, direction: str, end: JsonObject
    ) -> dict[DirectionAndEndpoint, EndpointResult] | None:
        """Return the sums of UDP from 3.10 on; None if the document has none."""
        endpoint_results = {}
        for name, endpoint in (("sum_sent", SENDER), ("sum_received", RECEIVER)):
            sums = as_object(end.get(f"{name}{_KEY_SUFFIX_BY_DIRECTION[direction]}"))
            seconds, rate, packets, lost, jitter = (
                as_number(sums.get(key))
                for key in ("end", "bits_per_second", "packets", "lost_packets", "jitter_ms")
            )
            if seconds is None or rate is None or packets is None:
                return None
            endpoint_results[direction, endpoint] = EndpointResult(
                RoundedValue.exact(seconds),
                RoundedValue.exact(rate),
                sent_or_expected_datagrams=int(packets),
                lost_datagrams=None if lost is None else int(lost),
                jitter_us=None if jitter is None else RoundedValue.exact(1e3 * jitter),
            )
        return endpoint_results

    def _split_old_udp_result(
        self, direction: str, streams: Sequence[JsonObject]
    ) -> Iterator[tuple[DirectionAndEndpoint, EndpointResult]]:
        udp_results = [
            part
            for each in streams
            if (part := as_object(each.get("udp"))) and self.collector.stream_direction(part) == direction
        ]
        keys = ("end", "bits_per_second", "packets", "lost_packets", "jitter_ms")
        seconds, rates, packets, lost, jitters = (numbers_if_all_present(udp_results, key) for key in keys)
        if not (seconds and rates and packets and lost and jitters):
            return
        combined = EndpointResult(
            RoundedValue.exact(max(seconds)),
            RoundedValue.exact(sum(rates)),
            sent_or_expected_datagrams=int(sum(packets)),
            lost_datagrams=int(sum(lost)),
            jitter_us=RoundedValue.exact(1e3 * sum(jitters) / len(jitters)),
        )
        size = as_number(self.collector.test_start.get("blksize"))
        yield from split_udp_result(
            combined,
            direction,
            sender_or_receiver(self.collector.role, direction),
            8 * size if size else None,
        )

    def _build_factors(self, end: JsonObject) -> dict[str, Level]:
        start, test = self.start, self.collector.test_start
        size = as_number(test.get("blksize"))
        hosts = [scalar_text_or_empty(each.get("local_host")) for each in as_objects(start.get("connected"))]
        raw_levels: dict[str, object] = {
            "streams": as_integer(test.get("num_streams")),
            "direction": self.collector.direction_level if test else None,
            "ip_version": (6 if ":" in hosts[0] else 4) if hosts else None,
            "message_size": size and f"{int(size)} B",
            "datagram_size": size and f"{int(size)} B",
            "congestion_control": end.get("sender_tcp_congestion"),
            "socket_buffer": _format_quantity_or_zero(as_number(start.get("sock_bufsize")), "B", "auto"),
            "bit_rate": _format_quantity_or_zero(as_number(start.get("target_bitrate")), "bit/s", "none"),
            "pacing_rate": self._find_pacing_rate(),
            "udp_gso": _format_on_off(test.get("gso")),
            "udp_gro": _format_on_off(test.get("gro")),
            label_name_for_option("set-mss"): scalar_text_or_empty(start.get("tcp_mss")) or None,
            label_name_for_option("sctp"): "on" if test.get("protocol") == "SCTP" else None,
        }
        known = {name: each for name, each in raw_levels.items() if each is not None}
        levels = {
            name: parse_level_or_none(name, self.collector.workload, each) for name, each in known.items()
        }
        return {name: level for name, level in levels.items() if level is not None}

    def _find_first_connection_addresses(self) -> str:
        for each in as_objects(self.start.get("connected"))[:1]:
            addresses = [
                (scalar_text_or_empty(each.get(f"{n}_host")), as_integer(each.get(f"{n}_port")))
                for n in ("local", "remote")
            ]
            return format_connection(self.collector.role, *(f"{host}:{port}" for host, port in addresses))
        return ""

    def _find_pacing_rate(self) -> str | None:
        rates = [as_number(self.start.get(name)) for name in ("fq_rate", "target_bitrate")]
        known = [rate for rate in rates if rate is not None]
        return _format_quantity_or_zero(max(known), "bit/s", "none") if known else None

    def _compute_rtt(self, end: JsonObject) -> dict[str, RoundedValue]:
        """Return the mean over the streams that this endpoint sent. The others never had a round trip."""
        streams = [as_object(each.get(SENDER)) for each in as_objects(end.get("streams"))]
        sent = [each for each in streams if each.get("sender") is not False]
        times = numbers_if_all_present(sent, "mean_rtt")
        means = [time for time in times if time > 0]
        return {"rtt_us": RoundedValue.exact(sum(means) / len(means))} if means else {}

    def _compute_cpu_metrics(self, end: JsonObject, failure: str) -> dict[str, RoundedValue]:
        cpu = as_object(end.get("cpu_utilization_percent"))
        local, remote = (as_number(cpu.get(name)) for name in ("host_total", "remote_total"))
        if local is None:
            return {}
        shares = RoundedValue.exact(local), None if remote is None else RoundedValue.exact(remote)
        return cpu_metrics(
            self.collector.role, self.collector.direction_level, shares, is_run_complete=not failure
        )

    def _collect_other_results(self, end: JsonObject) -> dict[str, str]:
        results = {name: self.start.get(name) for name in _START_KEYS_KEPT_AS_TEXT}
        results |= {"title": self.other_parts.get("title"), "extra_data": self.other_parts.get("extra_data")}
        results |= {"receiver_tcp_congestion": end.get("receiver_tcp_congestion")}
        results |= {"tos": as_number(self.collector.test_start.get("tos")) or None}
        return {name: scalar_text_or_empty(value) for name, value in results.items() if value is not None}


def _format_quantity_or_zero(number: float | None, unit: str, text_for_zero: str) -> str | None:
    return None if number is None else f"{int(number)} {unit}" if number else text_for_zero


def _format_on_off(value: Any) -> str | None:
    number = as_number(value)
    return None if number is None else "on" if number else "off"


def _parse_start_time(seconds: Any) -> datetime | None:
    number = as_number(seconds)
    try:
        return None if number is None else datetime.fromtimestamp(number, UTC)
    except (ValueError, OSError, OverflowError):
        return None
