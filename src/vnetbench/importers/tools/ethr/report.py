"""Collect the output of one ethr test, from its text or its log file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, NamedTuple

from vnetbench.importers.command_line import CommandLine, OptionSyntax
from vnetbench.importers.json_documents import parse_json
from vnetbench.importers.line_report import LineReport
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.row_columns import SPACE, RowPattern
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.tools.ethr import run_builder
from vnetbench.importers.tools.ethr.amounts import (
    AMOUNT_PATTERN,
    DURATION_PARTS,
    parse_amount,
    parse_duration_us,
)
from vnetbench.importers.tools.ethr.server_report import SUM, ServerRow, build_server_runs

_OPTIONS_WITH_VALUE = ("c", "x", "d", "g", "i", "l", "b", "n", "p", "t", "w", "o", "T", "port")
_SWITCHES = ("s", "r", "ui", "ncs", "debug", "4", "6")
_VERSION_LINE = re.compile(
    r"Ethr: Comprehensive Network Performance Measurement Tool \(Version: (?P<version>[^)]*)\)"
)
_DESTINATION_LINE = re.compile(r"Using destination: ")
_END_LINE = re.compile(r"Ethr done, (?P<reason>.*)")
_CLIENT_STREAM_ROWS = RowPattern(
    rf"\[{SPACE}*(?P<stream>\d+|SUM)\]{SPACE}+(?P<protocol>TCP|UDP){SPACE}+(?P<second>\d{{3,}})-\d{{3,}}"
    rf" sec{SPACE}+(?P<bits>[\d.]+[KMGT]?)(?:{SPACE}+(?P<packets>[\d.]+[KMGT]?))?{SPACE}*",
    separator=r"- - - [- ]*",
)
"""`[    7]     TCP      000-001 sec     12.3G`."""
_CLIENT_ROW_WITHOUT_STREAM = re.compile(
    r"\s+(?P<protocol>TCP|UDP)\s+(?P<start>\d{3,})-\d{3,} sec\s+(?P<first>[\d.]+[KMGT]?)"
    r"(?:\s+(?P<second>[\d.]+[KMGT]?))?\s*$"
)
"""Connections per second, or bits and packets per second: `  TCP      000-001 sec     1.2K`."""
_SERVER_ROW = re.compile(
    r"\[\s*(?P<remote>[\w.:]+|\[SUM\])\]\s+(?P<protocol>TCP|UDP|ICMP)\s+(?P<bits>[\d.]+[KMGT]?|--)\s+"
    r"(?P<connections>[\d.]+[KMGT]?|--)\s+(?P<packets>[\d.]+[KMGT]?|--)\s++"
    r"(?:(?P<latency>[\d.][\w.]*\w|--)\s*+)?$"
)
"""Printed by a server: `[    127.0.0.1]    TCP    12.3G        1     --       --  `."""
_DURATION_TEXT_PATTERN = r"\d+(?:\.\d+)?(?:ns|us|ms|s)"
_LATENCY_ROW = re.compile(rf"\s*{_DURATION_TEXT_PATTERN}(?:\s+{_DURATION_TEXT_PATTERN}){{8}}\s*$")
"""`  63.1us    30.2us    58.9us …`, in the order of `_LATENCY_COLUMNS`."""
_LATENCY_COLUMNS = ("mean", "min", "p50", "p90", "p95", "p99", "p99_9", "p99_99", "max")
_LOG_FIELD_BY_STATISTIC = {
    "mean": "Avg",
    "p50": "P50",
    "p90": "P90",
    "p99": "P99",
    "p99_9": "P999",
    "p99_99": "P9999",
}
"""Fields of the log file that should hold the latencies."""
_SHIFTED_LOG_FIELD_BY_STATISTIC = {
    "mean": "Avg", "p50": "P90", "p90": "P95", "p99": "P999", "p99_9": "P9999", "p99_99": "Max",
}  # fmt: skip
"""Fields of the log file that hold the latencies (see the package's docstring)."""
_LOG_FIELD_BY_SERVER_VALUE = {
    "bits": "BitsPerSecond",
    "packets": "PacketsPerSecond",
    "connections": "ConnectionsPerSecond",
    "latency": "AverageLatency",
}
"""Fields of the log file that hold a server's row."""
_LATENCY_TEST_LINE = re.compile(r"Running latency test: (?P<count>\d+), (?P<size>\d+)")
_PING_RESULT_LINE = re.compile(r"\s*Sent = \d+, Received = (?P<count>\d+), Lost = \d+")
_PING_HEADER_LINE = re.compile(r"TCP connect statistics for ")
_CONNECTION_LINE = re.compile(r"\[\s*\d+\] local \S+ port \d+ connected to \S+ port \d+")
_OTHER_OUTPUT_LINE = re.compile(
    r"- - - |-{50,}$|\[\s*ID \]|Protocol\s+Interval|Maintainer: |Hint: |Accepting|Listening on port \d+ for"
    r"|\s+Avg\s+Min|\[RemoteAddress\]|\[tcp\] |Running in single|ServerAddress|Initializing"
)
_ERROR_LINE = re.compile(r"(?:Error|Failed|Unable|In client mode|In external mode|Destination .* is not) ?.*")
_JSON_LINE = re.compile(r'\{"Time":"[^"]*","Title":"[^"]*","Type":"')


@dataclass(frozen=True)
class LatencyLine:
    """A line of the log that reports latencies."""

    line_number: int
    latency_us_by_statistic: dict[str, RoundedValue]
    """Mean and percentiles, by name."""


class ClientRow(NamedTuple):
    """A row of a client."""

    second: int
    """Start of the interval, in seconds."""
    stream_id: str
    """`SUM` for all streams together; empty if ethr names no stream."""
    printed_value_by_name: dict[str, str]


@dataclass
class EthrReport(LineReport):
    """The text output of one test."""

    tool = "ethr"
    programs = ("ethr",)
    option_syntax = OptionSyntax(
        name_by_value_option={f"-{name}": name for name in _OPTIONS_WITH_VALUE},
        name_by_switch={f"-{name}": name for name in _SWITCHES},
    )

    row_patterns = (_CLIENT_STREAM_ROWS,)

    version: str = ""
    is_server: bool = False
    packet_and_connection_test_rows: list[re.Match[str]] = field(default_factory=list)
    """Rows of tests for which ethr names no streams."""
    latency_protocol: str = ""
    test_type: str = ""
    """`bandwidth`, `packets`, `connections`, `latency` or `ping`."""
    server_rows: list[ServerRow] = field(default_factory=list)
    latency_lines: list[LatencyLine] = field(default_factory=list)
    requests_per_latency_line: int = 0
    """Number of requests or pings per line of latencies."""
    request_bytes: int = 0
    started_at: datetime | None = None
    has_end_line: bool = False
    end_reason: str = ""
    has_shifted_percentile_names: bool = False
    test_title: str = ""
    needs_end_line: ClassVar[bool] = True
    """Whether a log without the last line was cut off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_server = "s" in self.options

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a test's version, its destination, or a command line is next."""
        line = lines.peek_line() or ""
        return (
            bool(_VERSION_LINE.match(line) or _DESTINATION_LINE.match(line))
            or cls.parse_command(line) is not None
        )

    @property
    def has_client_rows(self) -> bool:
        """Whether there are results of a client's test of bandwidth, packets or connections."""
        return bool(len(self.rows) or self.packet_and_connection_test_rows)

    @property
    def protocol(self) -> str:
        """`TCP` or `UDP`, from the last row; empty if no line says it."""
        if self.packet_and_connection_test_rows:
            return self.packet_and_connection_test_rows[-1]["protocol"]
        return self.rows["protocol"][-1] if len(self.rows) else self.latency_protocol

    def client_rows(self) -> Iterator[ClientRow]:
        """Yield a client's rows."""
        columns = (self.rows[name] for name in ("second", "stream", "bits", "packets"))
        for second, stream, bits, packets in zip(*columns, strict=True):
            values = {"bits": bits, "packets": packets} if packets else {"bits": bits}
            yield ClientRow(int(second), stream, values)
        for row in self.packet_and_connection_test_rows:
            has_packets = row["second"] is not None
            values = (
                {"bits": row["first"], "packets": row["second"]}
                if has_packets
                else {"connections": row["first"]}
            )
            yield ClientRow(int(row["start"]), "", values)

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test."""
        if self.has_end_line:
            return line.startswith("Hint: ")
        if _VERSION_LINE.match(line) or _DESTINATION_LINE.match(line):
            return not (self.has_client_rows or self.latency_lines or self.server_rows)
        patterns = (
            _END_LINE, _CLIENT_STREAM_ROWS.line, _CLIENT_ROW_WITHOUT_STREAM, _SERVER_ROW, _LATENCY_ROW,
            _LATENCY_TEST_LINE, _PING_RESULT_LINE,
            _PING_HEADER_LINE, _CONNECTION_LINE, _OTHER_OUTPUT_LINE, _ERROR_LINE,
        )  # fmt: skip
        return any(pattern.match(line) for pattern in patterns)

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if (row := _CLIENT_ROW_WITHOUT_STREAM.match(line)) is not None:
            self.packet_and_connection_test_rows.append(row)
            self.test_type = "connections" if row["second"] is None else "packets"
        elif (row := _SERVER_ROW.match(line)) is not None:
            self._add_server_row(row)
        elif _LATENCY_ROW.match(line):
            times = dict(zip(_LATENCY_COLUMNS, line.split(), strict=True))
            values_us = {name: parse_duration_us(times[name]) for name in _LOG_FIELD_BY_STATISTIC}
            self.latency_lines.append(LatencyLine(self.last_line, values_us))
        else:
            self._record_other_line(line)

    def _add_server_row(self, row: re.Match[str]) -> None:
        texts = {name: row[name] for name in ("bits", "packets", "connections", "latency")}
        self._add_server_values(row["protocol"], row["remote"], texts)

    def _add_server_values(
        self, protocol: str, client_address: str, text_by_name: Mapping[str, str | None]
    ) -> None:
        """Record a server's row. What it does not report is empty or `--`."""
        values = {
            name: parse_amount(text)
            for name in ("bits", "packets", "connections")
            if (text := text_by_name[name]) and AMOUNT_PATTERN.fullmatch(text)
        }
        latency = text_by_name["latency"] or ""
        if DURATION_PARTS.fullmatch(latency):
            values["latency_us"] = parse_duration_us(latency)
        self.is_server = True
        client = SUM if SUM in client_address else client_address
        self.server_rows.append(ServerRow(self.last_line, client, protocol, values))

    def _record_other_line(self, line: str) -> None:
        if (version := _VERSION_LINE.match(line)) is not None:
            self.version = "" if version["version"] == "UNKNOWN" else version["version"]
        elif (done := _END_LINE.match(line)) is not None:
            self.has_end_line, self.end_reason = True, done["reason"]
        elif (test := _LATENCY_TEST_LINE.match(line)) is not None:
            self.test_type, self.requests_per_latency_line, self.request_bytes = (
                "latency",
                int(test["count"]),
                int(test["size"]),
            )
        elif (pings := _PING_RESULT_LINE.match(line)) is not None:
            self.test_type, self.requests_per_latency_line = "ping", int(pings["count"])
        elif _ERROR_LINE.match(line):
            self.record_first_error(line.strip())
        elif line.startswith(("Listening on", "Accepting IP")):
            self.is_server = True

    def build_runs(self) -> list[Run]:
        """Return a client's test, or one run for each line of latencies, or a server's load."""
        if self.latency_lines:
            return run_builder.build_run_per_latency_line(self)
        if self.is_server:
            return build_server_runs(self)
        return [run_builder.build_throughput_run(self)]


@dataclass
class EthrLogFileReport(EthrReport):
    """The lines of one test in a log file. Every test appends to the file.

    ethr often exits before it has written its last line to the file.
    """

    needs_end_line = False

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a line of a log file is next."""
        return _is_json_line(lines.peek_line() or "")

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return None: a log file has no command line."""
        return None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test."""
        if not _is_json_line(line):
            return False
        is_next_test = '"Message":"Using destination: ' in line and bool(
            self.has_client_rows or self.latency_lines
        )
        return not is_next_test and not (self.has_end_line and '"Message":"Hint: ' not in line)

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        entry = parse_json(line)
        self.test_title = self.test_title or str(entry.get("Title", ""))
        time = datetime.fromisoformat(str(entry["Time"]))
        self.started_at = self.started_at or time
        if entry["Type"] == "LatencyResult":
            self.latency_protocol = str(entry["Protocol"])
            self.test_type = self.test_type or "latency"
            self.latency_lines.append(LatencyLine(self.last_line, self._parse_latencies(entry)))
        elif entry["Type"] == "TestResult":
            self._add_server_result(entry)
        elif isinstance(message := entry.get("Message"), str):
            self._add_message(message)

    def _add_message(self, message: str) -> None:
        if (row := _CLIENT_STREAM_ROWS.match_line(message)) is not None:
            self.add_rows([row], _CLIENT_STREAM_ROWS.names)
        else:
            super().add_non_row_line(message)

    def _parse_latencies(self, entry: Mapping[str, str]) -> dict[str, RoundedValue]:
        values = {
            name: parse_duration_us(str(entry[name])).value for name in _LOG_FIELD_BY_STATISTIC.values()
        }
        percentiles = [values[name] for name in ("P50", "P90", "P99", "P999", "P9999")]
        self.has_shifted_percentile_names = percentiles != sorted(percentiles)
        fields = (
            _SHIFTED_LOG_FIELD_BY_STATISTIC if self.has_shifted_percentile_names else _LOG_FIELD_BY_STATISTIC
        )
        return {ours: parse_duration_us(str(entry[name])) for ours, name in fields.items()}

    def _add_server_result(self, entry: Mapping[str, str]) -> None:
        """Record the result of one second. A client's own rows are in the log too, so they are enough."""
        if self.has_client_rows and not self.is_server:
            return
        texts = {ours: str(entry.get(name, "")).strip() for ours, name in _LOG_FIELD_BY_SERVER_VALUE.items()}
        self._add_server_values(str(entry["Protocol"]), str(entry["RemoteAddr"]), texts)


def _is_json_line(line: str) -> bool:
    return line.startswith('{"Time":"') and _JSON_LINE.match(line) is not None
