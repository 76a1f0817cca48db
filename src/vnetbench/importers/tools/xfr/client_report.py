"""Read what an xfr client prints: its text, its CSV, its JSON and its stream of JSON lines.

Source: `src/output` of xfr 0.14. MB and GB are powers of 1024, Mbps and Gbps powers of 1000. The amount of
the whole test is what the receiver counted, with TCP as well as with UDP. No form says which endpoint sent,
except for a test of both directions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vnetbench.importers.arithmetic import divide_values
from vnetbench.importers.command_line import CommandLine, OptionSyntax
from vnetbench.importers.json_documents import parse_json
from vnetbench.importers.line_report import LineReport
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import SPACE, RowColumns, RowPattern
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.units import (
    BPS_BY_ABBREVIATED_UNIT,
    DECIMAL_PATTERN,
    SECONDS_BY_UNIT,
    parse_exact_count,
    parse_rounded,
    parse_with_unit,
)
from vnetbench.importers.validation import drop_invalid_levels_and_intervals
from vnetbench.importers.value_columns import ValueColumn, cache_values, parse_floats
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM, WORKLOADS

TOOL = "xfr"
_BYTES_BY_UNIT = {"B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "TB": 2.0**40}
_CONNECTING_LINE = re.compile(r"\s*INFO Connecting to ")
_LOG_LINE = re.compile(r"\s*(?P<level>INFO|WARN|ERROR) (?P<text>.*)|(?P<error>Error: .*)")
_INTERVAL_ROWS = RowPattern(
    rf"\[[^\]\n]+\]{SPACE}+(?P<rate>{DECIMAL_PATTERN} [KMGT]?bps)"
    rf"{SPACE}+(?P<amount>{DECIMAL_PATTERN} [KMGT]?B)(?:{SPACE}.*|)"
)
"""`[1.022]    30.6 Mbps     3.65 MB  jitter:    0.01ms  lost: 0`."""
_CSV_INTERVAL_ROWS = RowPattern(r"[\d.]+,[\d.]*,(?P<amount>\d+),(?P<rate>\d+(?:\.\d+)?),.*")
"""`1.008,1.00,2368800,18.93,0,0.013,0,,,`: bytes, and their rate in Mbit/s."""
_TITLE_LINE = re.compile(r"\s*xfr Test Results\s*$")
_SEPARATOR_LINE = re.compile(r"─{20,}\s*$")
_VALUE_LINE = re.compile(r"\s+(?P<name>[A-Z][A-Za-z ]*):\s+(?P<value>\S.*)$")
"""`  Throughput:  34.6 Mbps`."""
_HEADING_LINE = re.compile(
    r"\s+(?:Sender TCP Info|TCP Info|UDP Stats|Per-Stream Results|Upload|Download)[^:]*:"
)
_STREAM_LINE = re.compile(r"\s+\[(?P<id>\d+)\] ")
_RATE_TEXT = re.compile(rf"(?P<rate>{DECIMAL_PATTERN}) (?P<unit>[KMGT]?bps)")
_LOST_TEXT = re.compile(rf"(?P<lost>\d+) \((?P<percent>{DECIMAL_PATTERN})%\)")
_STACK_LINE = re.compile(r"Stack backtrace:|\s+\d+: |\s+at \S|Caused by:")
_INTERVAL_HEADER = "timestamp,elapsed_secs,bytes,throughput_mbps,"
_RESULT_HEADER = "test_id,duration_secs,transfer_bytes,throughput_mbps,"
_JSON_INTERVAL_START, _JSON_RESULT_START = '{"timestamp":', '{"id":'


@dataclass
class XfrReport(LineReport):
    """What a client prints for one test, in one of its forms of lines."""

    tool = TOOL
    programs = ("xfr",)
    option_syntax = OptionSyntax(
        name_by_value_option={
            "-t": "time", "--time": "time", "-P": "parallel", "--parallel": "parallel", "-b": "bitrate",
            "--bitrate": "bitrate", "-n": "bytes", "-p": "port", "--port": "port", "-i": "interval",
        },
        name_by_switch={
            "-u": "udp", "--udp": "udp", "-R": "reverse", "--reverse": "reverse", "--bidir": "bidir",
            "-Q": "quic", "--quic": "quic", "--json": "json",
        },
    )  # fmt: skip

    row_patterns = (_INTERVAL_ROWS, _CSV_INTERVAL_ROWS)

    values: dict[str, str] = field(default_factory=dict)
    """Values of the whole test by the name that xfr prints."""
    stream_ids: set[str] = field(default_factory=set)
    csv_header: tuple[str, ...] = ()
    csv_result: dict[str, str] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    is_quic: bool = False
    is_in_summary: bool = False
    is_finished: bool = False

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a client's first line, its results, or a command line is next."""
        line = lines.peek_line() or ""
        if line.startswith(_JSON_INTERVAL_START):
            return '"elapsed_secs":' in line
        if line.startswith(_JSON_RESULT_START):
            return '"bytes_total":' in line and line.rstrip().endswith("}")
        is_rule = line.startswith("───") and _TITLE_LINE.match(lines.peek_line(1) or "") is not None
        is_first = "Connecting to " in line and _CONNECTING_LINE.match(line) is not None
        is_csv = line.startswith((_INTERVAL_HEADER, _RESULT_HEADER))
        return is_rule or is_first or is_csv or cls.parse_command(line) is not None

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return xfr's command line in this line, if there is one."""
        return super().parse_command(line) if "xfr" in line else None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test."""
        if self.is_finished:
            return False
        if _CONNECTING_LINE.match(line):
            return not (len(self.rows) or self.values or self.error_message)
        if line.startswith((_JSON_INTERVAL_START, _JSON_RESULT_START)):
            return line.rstrip().endswith("}")
        if self.csv_header or line.startswith((_INTERVAL_HEADER, _RESULT_HEADER)):
            return not line.strip() or "," in line or _LOG_LINE.match(line) is not None
        patterns = (_LOG_LINE, _INTERVAL_ROWS.line, _SEPARATOR_LINE, _TITLE_LINE, _STACK_LINE)
        in_summary = (_VALUE_LINE, _HEADING_LINE, _STREAM_LINE)
        return any(p.match(line) for p in patterns) or (
            self.is_in_summary and (not line.strip() or any(p.match(line) for p in in_summary))
        )

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if line.startswith((_JSON_INTERVAL_START, _JSON_RESULT_START)):
            self._add_json(parse_json(line))
        elif (log := _LOG_LINE.match(line)) is not None:
            self.is_quic |= "via QUIC" in line
            if log["error"] or log["level"] == "ERROR":
                self.record_first_error(log["error"] or log["text"])
        elif line.startswith((_INTERVAL_HEADER, _RESULT_HEADER)):
            self.csv_header = tuple(line.strip().split(","))
        elif self.csv_header and "," in line:
            self._add_csv_row(dict(zip(self.csv_header, line.strip().split(","), strict=False)))
        elif _TITLE_LINE.match(line):
            self.is_in_summary = True
        elif _SEPARATOR_LINE.match(line):
            self.is_finished = "Throughput" in self.values
        elif (stream := _STREAM_LINE.match(line)) is not None:
            self.stream_ids.add(stream["id"])
        elif self.is_in_summary and (value := _VALUE_LINE.match(line)) is not None:
            self.values.setdefault(value["name"], value["value"].strip())

    def _add_json(self, entry: dict[str, Any]) -> None:
        if "bytes_total" in entry:
            self.document, self.is_finished = entry, True
        else:
            self._add_exact_interval(str(entry["bytes"]), str(entry["throughput_mbps"]))

    def _add_exact_interval(self, amount: str, mbps: str) -> None:
        self.rows.extend(_CSV_INTERVAL_ROWS.names, [(amount, mbps)])

    def _add_csv_row(self, row: dict[str, str]) -> None:
        if "test_id" in row:
            self.csv_result, self.is_finished = row, True
        elif row.get("throughput_mbps"):
            self._add_exact_interval(row["bytes"], row["throughput_mbps"])

    def build_runs(self) -> list[Run]:
        """Return the test; none for a server, and none before a JSON document."""
        if self.command is not None and "serve" in self.command.arguments:
            return []
        failure = ""
        if self.document:
            result = _result_of_document(self.document)
        elif self.values or self.csv_result or len(self.rows) or self.error_message:
            result = _result_of_csv(self.csv_result) if self.csv_result else _result_of_text(self)
            failure = self.failure_reason(is_complete=bool(result.throughput_bps))
        else:
            return []
        options = None if self.command is None else self.options
        run = _build_run(result, self.first_line, self.last_line, options)
        return [
            replace(
                run,
                failure=failure,
                command=self.command_text,
                intervals=_build_intervals(self.rows, run.factors.get("direction", FORWARD)),
            )
        ]


@dataclass
class _XfrResult:
    """The result of one test, whatever the form it was read from."""

    throughput_bps: RoundedValue | None = None
    forward_bps: RoundedValue | None = None
    reverse_bps: RoundedValue | None = None
    duration_s: RoundedValue | None = None
    is_udp: bool = False
    stream_count: int | None = None
    packets_sent: int | None = None
    packets_received: int | None = None
    lost_percent: RoundedValue | None = None
    jitter_us: RoundedValue | None = None
    retransmits: int | None = None
    rtt_us: RoundedValue | None = None
    datagram_bytes: int | None = None
    is_quic: bool = False

    @property
    def direction_level_if_known(self) -> str:
        """`both` for a test of both directions; empty for any other, because xfr does not say which."""
        return "both" if self.forward_bps is not None else ""


def _result_of_text(report: XfrReport) -> _XfrResult:
    values = report.values
    rates = [
        parse_rounded(each["rate"], BPS_BY_ABBREVIATED_UNIT[each["unit"]])
        for each in _RATE_TEXT.finditer(values.get("Throughput", ""))
    ]
    result = _XfrResult(is_udp="Packets Sent" in values, is_quic=report.is_quic)
    if len(rates) == 3:
        result.forward_bps, result.reverse_bps, result.throughput_bps = rates
    elif rates:
        result.throughput_bps = rates[0]
    result.stream_count = len(report.stream_ids) or (1 if values else None)
    if "Duration" in values:
        result.duration_s = parse_rounded(values["Duration"].rstrip("s"))
    if "Retransmits" in values:
        result.retransmits = int(values["Retransmits"])
    if "RTT" in values:
        result.rtt_us = _parse_duration_us(values["RTT"])
    if result.is_udp and not result.direction_level_if_known:
        result.packets_sent = int(values["Packets Sent"])
        result.packets_received = int(values.get("Packets Received", "0"))
        if (lost := _LOST_TEXT.match(values.get("Lost", ""))) is not None:
            total = int(lost["lost"]) + result.packets_received
            result.lost_percent = RoundedValue.exact(100 * int(lost["lost"]) / max(1, total))
        if "Jitter" in values:
            result.jitter_us = _parse_duration_us(values["Jitter"])
    if "Packet Size" in values:
        result.datagram_bytes = int(values["Packet Size"].split()[0])
    return result


def _parse_duration_us(text: str) -> RoundedValue:
    number = re.match(DECIMAL_PATTERN, text)
    if number is None:
        raise ValueError(f"not a duration: {text[:20]!r}")
    unit = text[number.end() :].strip()
    return parse_with_unit(number[0], unit, SECONDS_BY_UNIT, 1e6)


def _result_of_csv(row: Mapping[str, str]) -> _XfrResult:
    def number(name: str, scale: float = 1.0) -> RoundedValue | None:
        return parse_rounded(row[name], scale) if row.get(name) else None

    jitter, lost = number("jitter_ms", 1e3), number("lost_percent")
    is_udp = bool((jitter and jitter.value) or (lost and lost.value) or row.get("udp_send_packets_received"))
    result = _XfrResult(
        throughput_bps=number("throughput_mbps", 1e6),
        forward_bps=number("throughput_send_mbps", 1e6),
        reverse_bps=number("throughput_recv_mbps", 1e6),
        duration_s=number("duration_secs"),
        is_udp=is_udp,
    )
    if is_udp:
        result.jitter_us, result.lost_percent = jitter, lost
    elif row.get("retransmits"):
        result.retransmits = int(row["retransmits"])
    return result


def is_xfr_document(document: Any) -> bool:
    """Return whether a JSON document is the result of a test."""
    return isinstance(document, dict) and {"bytes_total", "duration_ms", "throughput_mbps", "streams"} <= (
        document.keys()
    )


def _result_of_document(document: Any) -> _XfrResult:
    """Return the result in a JSON document. Raises what the parser expects for a malformed one."""
    udp, tcp = document.get("udp_stats") or {}, document.get("tcp_info") or {}
    result = _XfrResult(
        throughput_bps=RoundedValue.exact(1e6 * float(document["throughput_mbps"])),
        duration_s=RoundedValue.exact(float(document["duration_ms"]) / 1e3),
        is_udp=bool(udp),
        stream_count=len(document["streams"]) or None,
    )
    if "throughput_send_mbps" in document:
        result.forward_bps = RoundedValue.exact(1e6 * float(document["throughput_send_mbps"]))
        result.reverse_bps = RoundedValue.exact(1e6 * float(document["throughput_recv_mbps"]))
    if udp and result.direction_level_if_known != "both":
        result.packets_sent, result.packets_received = int(udp["packets_sent"]), int(udp["packets_received"])
        result.lost_percent = RoundedValue.exact(float(udp["lost_percent"]))
        result.jitter_us = RoundedValue.exact(1e3 * float(udp["jitter_ms"]))
    if udp:
        result.datagram_bytes = int(udp["packet_size"]) if "packet_size" in udp else None
    elif tcp and result.direction_level_if_known != "both":
        result.retransmits = sum(int(each.get("retransmits") or 0) for each in document["streams"])
        result.rtt_us = RoundedValue.exact(float(tcp["rtt_us"])) if "rtt_us" in tcp else None
    return result


def _build_run(
    result: _XfrResult, first_line: int, last_line: int, command_options: Mapping[str, str] | None
) -> Run:
    """Return the run of a result; `command_options` is None without a command line."""
    options = command_options or {}
    workload = UDP_STREAM if result.is_udp or "udp" in options else TCP_STREAM
    factors: dict[str, Level] = {}
    if result.stream_count:
        factors[WORKLOADS[workload].count_factor] = result.stream_count
    if result.datagram_bytes:
        factors["datagram_size"] = result.datagram_bytes
    if result.direction_level_if_known:
        factors["direction"] = result.direction_level_if_known
    elif command_options is not None:
        factors["direction"] = REVERSE if "reverse" in options else FORWARD
    if result.is_quic or "quic" in options:
        factors["label_transport"] = "quic"
    return Run(
        tool=TOOL,
        version="",
        first_line=first_line,
        last_line=last_line,
        workload=workload,
        factors=factors,
        metrics=_compute_metrics(result),
        measured_duration_s=result.duration_s.value if result.duration_s else None,
    )


def _compute_metrics(result: _XfrResult) -> dict[str, RoundedValue]:
    found = {
        "goodput_bps": result.throughput_bps,
        "goodput_forward_bps": result.forward_bps,
        "goodput_reverse_bps": result.reverse_bps,
        "loss_percent": result.lost_percent,
        "jitter_us": result.jitter_us,
        "rtt_us": None if result.direction_level_if_known else result.rtt_us,
    }
    duration = result.duration_s
    if duration is not None and duration.low > 0 and not result.direction_level_if_known:
        counts = {
            "datagrams_sent_per_s": result.packets_sent,
            "datagrams_received_per_s": result.packets_received,
            "retransmits_per_s": result.retransmits,
        }
        found |= {
            name: divide_values(RoundedValue.exact(count), duration)
            for name, count in counts.items()
            if count is not None
        }
    return {name: value for name, value in found.items() if value is not None}


def _parse_amount(text: str) -> RoundedValue:
    """Return the bytes of `3.65 MB`, or the exact number of `2368800`."""
    number, _, unit = text.partition(" ")
    return parse_rounded(number, _BYTES_BY_UNIT[unit]) if unit else parse_exact_count(number)


def _parse_rate(text: str) -> RoundedValue:
    """Return the bit/s of `30.6 Mbps`, or the number of `18.93`."""
    number, _, unit = text.partition(" ")
    return parse_rounded(number, BPS_BY_ABBREVIATED_UNIT[unit]) if unit else RoundedValue.exact(float(number))


_parse_printed_amounts, _parse_printed_rates = cache_values(_parse_amount), cache_values(_parse_rate)


def _build_intervals(rows: RowColumns, direction: Level) -> PackedIntervals:
    """Return the intervals. A test of both directions has none: xfr adds the directions up.

    An amount without a unit is exact, and its rate is in Mbit/s, without a unit as well.
    """
    if direction == "both" or not len(rows):
        return PackedIntervals()
    if any(" " in text for text in rows["amount"]):
        amounts, rates = _parse_printed_amounts(rows["amount"]), _parse_printed_rates(rows["rate"]).values
    else:
        amounts, rates = ValueColumn.exact(parse_floats(rows["amount"])), parse_floats(rows["rate"])
    is_exact = amounts.lows == amounts.highs
    bits = np.where(is_exact, 8e-6, 8.0) * amounts.values
    ends_s = np.cumsum(np.divide(bits, rates, out=np.zeros_like(rates), where=rates != 0))
    starts_s = np.concatenate(([0.0], ends_s))[:-1]
    return PackedIntervals.of_columns(starts_s, ends_s, {"bytes": amounts}, str(direction))


def read_document_runs(document: Any, first_line: int, last_line: int) -> list[Run]:
    """Return the run of a JSON document."""
    run = _build_run(_result_of_document(document), first_line, last_line, None)
    return [drop_invalid_levels_and_intervals(run)]
