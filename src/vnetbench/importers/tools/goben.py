"""Read goben: what its client and server print, and the CSV that `--export csv` writes.

Source: `goben/client.go`, `server.go`, `csv.go` of udhos/goben (1.1). Mbps is a power of 1000. Both endpoints
send and receive at the same time unless one of them is passive. A reader's rate is what arrived, a writer's
rate what was handed to the kernel. The totals are sums of each connection's own average.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from vnetbench.importers.arithmetic import divide_values, scale_value, sum_values
from vnetbench.importers.command_line import CommandLine, OptionSyntax
from vnetbench.importers.line_report import LineReport, make_report_reader
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import SPACE, RowColumns, RowPattern
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.units import DECIMAL_PATTERN, SECONDS_BY_UNIT, parse_rounded
from vnetbench.importers.value_columns import Floats, ValueColumn, parse_floats, parse_rounded_column
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM, WORKLOADS

TOOL = "goben"
_LOG_LINE = re.compile(r"(?P<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)(?:\.\d+)? (?P<text>.*)")
_VERSION_TEXT = re.compile(r"goben version (?P<version>\S+) runtime ")
_AVERAGE_TEXT = re.compile(
    rf"\d+/\d+ +average +(?:client|server)(?P<what>Reader|Writer) rate: (?P<mbps>{DECIMAL_PATTERN}) Mbps"
    r" +(?P<calls>\d+)"
)
"""`0/1 average   clientReader rate: 3074.019951 Mbps    432 rcv/s`."""
_AGGREGATE_TEXT = re.compile(
    rf"aggregate (?P<what>reading|writing): (?P<mbps>{DECIMAL_PATTERN}) Mbps (?P<calls>\d+) "
)
_OPTIONS_TEXT = re.compile(
    r".*options (?:sent|received): \{(?P<interval>\S+) (?P<duration>\S+) \d+ (?P<tcp>\d+) \d+ (?P<udp>\d+) "
    r"(?P<passive_server>true|false) (?P<mbps>\S+) "
)
"""`options sent: {500ms 2s 1000000 1000000 64000 64000 false 0 map[]}`."""
_CONNECTIONS_TEXT = re.compile(r"connections=(?P<count>\d+) ")
_STARTING_TEXT = re.compile(r"(?:client|server)(?:Reader|Writer): starting: ")
_INCOMING_TEXT = re.compile(r"handleConnection: incoming: |handleUDP: incoming: ")
_ERROR_TEXT = re.compile(
    r"(?P<fatal>.*Failed to open connection: .*)"
    r"|workLoop: .*: (?P<text>\S.*(?:refused|unreachable|no route|timed out|denied|too long)).*"
)
_CHART_LINE = re.compile(r"\s*[\d.]+ ?[┤┼]|\s+(?:In|Out)put Mbps: ")
_CSV_HEADER = "DIRECTION,TIME,RATE"
_CSV_ROWS = RowPattern(
    r"(?P<direction>input|output),(?P<second>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<fraction>\.\d{1,6}|)\d* "
    rf"(?P<zone>[+-]\d{{4}})[^,\n]*,(?P<mbps>{DECIMAL_PATTERN}(?:e[+-]?\d+)?){SPACE}*"
)
"""`input,2026-11-23 04:28:56.5 +0000 UTC m=+0.51,6074.1`."""
_DIRECTION_BY_CSV_NAME = {"input": REVERSE, "output": FORWARD}
_DURATION_PARTS = re.compile(rf"({DECIMAL_PATTERN})(h|ms|m|s|us|µs|ns)")
_SECONDS_BY_DURATION_UNIT = {"h": 3600.0, "m": 60.0, **SECONDS_BY_UNIT}


@dataclass
class GobenReport(LineReport):
    """What a client or a server prints for one test.

    A server serves many tests. A connection that arrives when all earlier ones have ended starts a new test.
    """

    tool = TOOL
    programs = ("goben",)
    option_syntax = OptionSyntax(
        name_by_value_option={
            "-c": "connections", "--connections": "connections", "-H": "hosts", "--hosts": "hosts",
            "-m": "maxSpeed", "--maxSpeed": "maxSpeed", "-d": "totalDuration",
            "--totalDuration": "totalDuration", "-i": "reportInterval", "-l": "listeners",
            "--listeners": "listeners", "-e": "export", "--export": "export",
        },
        name_by_switch={
            "-u": "udp", "--udp": "udp", "--passiveClient": "passiveClient",
            "--passiveServer": "passiveServer",
        },
    )  # fmt: skip

    version: str = ""
    is_client: bool = False
    is_udp: bool = False
    connection_count: int = 0
    started_at: datetime | None = None
    rates_by_side: dict[str, list[RoundedValue]] = field(default_factory=dict)
    """Averages of the connections in bit/s, by `Reader` and `Writer`."""
    calls_per_s_by_side: dict[str, int] = field(default_factory=dict)
    aggregate_bps: dict[str, RoundedValue] = field(default_factory=dict)
    """A client's totals, by `reading` and `writing`."""
    aggregate_calls_per_s: dict[str, int] = field(default_factory=dict)
    sent_options: re.Match[str] | None = None
    unfinished_reader_writer_count: int = 0
    """Readers and writers that have started and not yet printed their average."""
    requested_connections: int = 0
    has_udp_clients: bool = False
    """Whether a server got UDP clients."""

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether goben's version, a server's next connection, or a command line is next."""
        line = lines.peek_line() or ""
        if line[:2] == "20":
            log = _LOG_LINE.match(line)
            return log is not None and bool(
                _VERSION_TEXT.match(log["text"]) or _INCOMING_TEXT.match(log["text"])
            )
        return cls.parse_command(line) is not None

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return goben's command line in this line, if there is one."""
        return super().parse_command(line) if "goben" in line else None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test: those after a client's totals do not."""
        log = _LOG_LINE.match(line)
        if log is not None and _VERSION_TEXT.match(log["text"]):
            return not self.version
        if log is not None and _INCOMING_TEXT.match(log["text"]) and self.rates_by_side:
            return self.unfinished_reader_writer_count > 0
        return "writing" not in self.aggregate_bps and (
            log is not None or _CHART_LINE.match(line) is not None
        )

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        log = _LOG_LINE.match(line)
        if log is None:
            return
        text = log["text"]
        if (version := _VERSION_TEXT.match(text)) is not None:
            self.version = version["version"]
            self.started_at = _parse_time(log)
        elif (average := _AVERAGE_TEXT.match(text)) is not None:
            side = average["what"]
            self.rates_by_side.setdefault(side, []).append(parse_rounded(average["mbps"], 1e6))
            self.calls_per_s_by_side[side] = self.calls_per_s_by_side.get(side, 0) + int(average["calls"])
            self.unfinished_reader_writer_count -= 1
        elif (aggregate := _AGGREGATE_TEXT.match(text)) is not None:
            self.aggregate_bps[aggregate["what"]] = parse_rounded(aggregate["mbps"], 1e6)
            self.aggregate_calls_per_s[aggregate["what"]] = int(aggregate["calls"])
        elif (error := _ERROR_TEXT.match(text)) is not None:
            self.record_first_error(error["fatal"] or error["text"])
        else:
            if _INCOMING_TEXT.match(text) and not self.connection_count:
                self.started_at = _parse_time(log)  # The server itself may have started long ago.
            self._add_setting(text)

    def _add_setting(self, text: str) -> None:
        self.sent_options = _OPTIONS_TEXT.match(text) or self.sent_options
        if text.startswith("client mode"):
            self.is_client, self.is_udp = True, "udp protocol" in text
        elif _STARTING_TEXT.match(text):
            self.unfinished_reader_writer_count += 1
            self.is_udp |= ": starting: UDP " in text
        elif _INCOMING_TEXT.match(text):
            self.connection_count += 1
            self.has_udp_clients |= text.startswith("handleUDP")
        elif not self.is_client and (connections := _CONNECTIONS_TEXT.match(text)) is not None:
            self.requested_connections = int(connections["count"])

    def build_runs(self) -> list[Run]:
        """Return the test; none for a server without clients."""
        is_idle_server = not (self.is_client or self.connection_count or "hosts" in self.options)
        return [] if is_idle_server else [self._build_run()]

    def _rates_bps_by_direction(self) -> dict[str, RoundedValue]:
        """Return the rates in bit/s by direction. The client is the first endpoint."""
        if self.is_client:
            found = {
                direction: self.aggregate_bps[name]
                for direction, name in ((FORWARD, "writing"), (REVERSE, "reading"))
                if name in self.aggregate_bps
            }
        else:
            found = {
                direction: sum_values(self.rates_by_side[name])
                for direction, name in ((FORWARD, "Reader"), (REVERSE, "Writer"))
                if name in self.rates_by_side
            }
        return {direction: rate for direction, rate in found.items() if rate.value > 0}

    def _build_run(self) -> Run:
        workload = UDP_STREAM if self.is_udp or "udp" in self.options else TCP_STREAM
        rates = self._rates_bps_by_direction()
        is_complete = (
            bool(rates)
            and (bool(self.aggregate_bps) or not self.is_client)
            and self.unfinished_reader_writer_count <= 0
        )
        count = self.requested_connections if self.is_client else self.connection_count
        factors: dict[str, Level] = {}
        if count:
            factors[WORKLOADS[workload].count_factor] = count
        if rates:
            factors["direction"] = "both" if len(rates) == 2 else next(iter(rates))
        if self.sent_options is not None:
            size = self.sent_options["udp" if workload == UDP_STREAM else "tcp"]
            factors[WORKLOADS[workload].size_factor] = int(size)
        return Run(
            tool=TOOL,
            version=self.version,
            first_line=self.first_line,
            last_line=self.last_line,
            workload=workload,
            factors=factors,
            metrics=self._compute_metrics(rates, is_udp=workload == UDP_STREAM) if is_complete else {},
            measured_duration_s=_parse_duration_s(self.sent_options["duration"])
            if self.sent_options
            else None,
            started_at=self.started_at,
            reported_by=self._reporting_endpoint(rates),
            command=self.command_text,
            failure=self._find_failure(is_complete=is_complete),
            remarks=tuple(self._list_remarks(rates)),
        )

    def _find_failure(self, *, is_complete: bool) -> str:
        if not is_complete and self.has_udp_clients and not self.error_message:
            return "goben's server prints no averages for UDP. Import the client's log"
        return self.failure_reason(is_complete=is_complete)

    def _reporting_endpoint(self, rates: dict[str, RoundedValue]) -> str:
        if len(rates) != 1:
            return ""
        return "sender" if (FORWARD in rates) == self.is_client else "receiver"

    def _compute_metrics(self, rates: dict[str, RoundedValue], *, is_udp: bool) -> dict[str, RoundedValue]:
        if len(rates) == 2 and not is_udp:
            return {
                "goodput_bps": sum_values(rates.values()),
                "goodput_forward_bps": rates[FORWARD],
                "goodput_reverse_bps": rates[REVERSE],
            }
        read, written = (REVERSE, FORWARD) if self.is_client else (FORWARD, REVERSE)
        if not is_udp:
            return {"goodput_bps": next(iter(rates.values()))}
        calls = self.aggregate_calls_per_s if self.is_client else self.calls_per_s_by_side
        names = ("reading", "writing") if self.is_client else ("Reader", "Writer")
        metrics = {}
        if read in rates:
            name = "goodput_bps" if len(rates) == 1 else f"goodput_{read}_bps"
            metrics[name] = rates[read]
            metrics["datagrams_received_per_s"] = parse_rounded(str(calls[names[0]]))
        if written in rates:
            metrics["datagrams_sent_per_s"] = parse_rounded(str(calls[names[1]]))
        return metrics

    def _list_remarks(self, rates: dict[str, RoundedValue]) -> list[str]:
        remarks = []
        if self.sent_options is not None and float(self.sent_options["mbps"]) > 0:
            limit = self.sent_options["mbps"]
            remarks.append(f"The option --maxSpeed limited each connection to {limit} Mbit/s.")
        if len(rates) == 2:
            remarks.append(
                "Both endpoints sent at the same time. What this endpoint sent may not all have arrived."
            )
        if self.error_message and rates:
            remarks.append(f"goben reported: {self.error_message}")
        return remarks


@dataclass
class GobenCsvReport(LineReport):
    """The CSV of one connection: a rate for each interval, received (`input`) and sent (`output`)."""

    tool = TOOL
    row_patterns = (_CSV_ROWS,)

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether the header is next."""
        return (lines.peek_line() or "").startswith(_CSV_HEADER)

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line is the header or a row."""
        is_header = line.startswith(_CSV_HEADER) and not len(self.rows)
        return is_header or _CSV_ROWS.match_line(line) is not None

    def add_non_row_line(self, line: str) -> None:
        """Record nothing: the header says the same in all files."""

    def build_runs(self) -> list[Run]:
        """Return the run of the connection. Its rates are means, because the file has no total."""
        times_us = _parse_times_us(self.rows)
        by_direction = _interval_lengths_s_and_bytes_by_direction(self.rows, times_us)
        rates = {}
        for direction, (lengths_s, amounts) in by_direction.items():
            bytes_ = RoundedValue(
                *(sum(each.tolist()) for each in (amounts.values, amounts.lows, amounts.highs))
            )
            ends_s = np.cumsum(lengths_s).tolist()
            length_s = sum(end_s - start_s for start_s, end_s in pairwise([0.0, *ends_s]))
            if length_s and bytes_.value:
                rates[direction] = divide_values(scale_value(bytes_, 8), RoundedValue.exact(length_s))
        metrics = {"goodput_bps": sum_values(rates.values())} if rates else {}
        if len(rates) == 2:
            metrics |= {"goodput_forward_bps": rates[FORWARD], "goodput_reverse_bps": rates[REVERSE]}
        intervals = PackedIntervals()
        for direction in rates:
            lengths_s, amounts = by_direction[direction]
            ends_s = np.cumsum(lengths_s)
            starts_s = np.concatenate(([0.0], ends_s))[:-1]
            intervals.extend_columns(starts_s, ends_s, {"bytes": amounts}, direction)
        durations_s = [
            float(np.cumsum(lengths_s).max()) for lengths_s, _ in by_direction.values() if len(lengths_s)
        ]
        run = Run(
            tool=TOOL,
            version="",
            first_line=self.first_line,
            last_line=self.last_line,
            workload=TCP_STREAM,
            factors={"streams": 1, "direction": "both" if len(rates) == 2 else next(iter(rates), FORWARD)},
            metrics=metrics,
            intervals=intervals,
            measured_duration_s=max(durations_s, default=None),
            started_at=_find_earliest_row_time(self.rows, times_us),
            failure=self.failure_reason(is_complete=len(times_us) > 0),
            remarks=(
                "The file has no total, so the result is the mean of its intervals.",
                "The file does not say whether the load used TCP or UDP.",
            ),
        )
        return [run]


def _interval_lengths_s_and_bytes_by_direction(
    rows: RowColumns, times_us: npt.NDArray[np.int64]
) -> dict[str, tuple[Floats, ValueColumn]]:
    """Return the lengths of the intervals in seconds and the bytes in them, by direction.

    A row has the time of its end, so the first interval is as long as the second.
    """
    names, rates = np.array(rows["direction"]), parse_rounded_column(rows["mbps"], 1e6)
    split: dict[str, tuple[Floats, ValueColumn]] = {}
    for name in dict.fromkeys(rows["direction"]):
        lengths_s = np.diff(times_us[names == name]) / 1e6
        lengths_s = np.concatenate((lengths_s[:1], lengths_s))
        own = rates.select(names == name) if len(lengths_s) else ValueColumn.exact([])
        split[_DIRECTION_BY_CSV_NAME[name]] = lengths_s, own.scale(lengths_s / 8)
    return split


def _parse_times_us(rows: RowColumns) -> npt.NDArray[np.int64]:
    """Return the times in µs since 1970. goben prints more digits."""
    texts = [second + zone for second, zone in zip(rows["second"], rows["zone"], strict=True)]
    seconds = {text: round(datetime.fromisoformat(text).timestamp()) for text in dict.fromkeys(texts)}
    fractions = np.rint(1e6 * parse_floats([f"0{fraction}" for fraction in rows["fraction"]]))
    whole = np.fromiter(map(seconds.__getitem__, texts), dtype=np.int64, count=len(texts))
    return 1_000_000 * whole + fractions.astype(np.int64)


def _find_earliest_row_time(rows: RowColumns, times_us: npt.NDArray[np.int64]) -> datetime | None:
    """Return the time of the earliest row; None if there is none."""
    if not len(times_us):
        return None
    row = int(times_us.argmin())
    second = datetime.fromisoformat(rows["second"][row] + rows["zone"][row])
    return second.replace(microsecond=int(times_us[row] % 1_000_000))


def _parse_time(log: re.Match[str]) -> datetime:
    return datetime.strptime(log["time"], "%Y/%m/%d %H:%M:%S")


def _parse_duration_s(text: str) -> float | None:
    parts = _DURATION_PARTS.findall(text)
    return sum(float(number) * _SECONDS_BY_DURATION_UNIT[unit] for number, unit in parts) if parts else None


READERS = (make_report_reader(GobenReport), make_report_reader(GobenCsvReport))
