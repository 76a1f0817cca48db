"""Read iperf 2's `-y C`: one line for each interval and stream, usually without a header.

Source: `src/Locale.c`, `src/ReportCSV.c`. Up to 2.1.8 the columns are time, two addresses with ports, stream,
`start-end`, bytes, bit/s, and for UDP jitter (ms), lost, total, lost in percent, out of order. 2.1.9 adds
columns for `-e`. 2.2 has a header and separate columns for start and end. Stream -1 is all streams together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf2.connection_groups import ConnectionGroup, ReportHeader
from vnetbench.importers.tools.iperf2.report_rows import ALL_STREAMS_ID, ReportRow
from vnetbench.importers.tools.iperf2.run_builder import build_run
from vnetbench.importers.tools.iperf2.text_report import Iperf2Report
from vnetbench.importers.units import parse_exact_count, parse_rounded

_HEADER_LINE = re.compile(r"time,srcaddress,srcport,dstaddr,dstport,transferid,istart,iend,bytes,speed\b")
_ROW_PATTERN = re.compile(
    r"(?P<zone>[-+]\d{4}:)?(?P<time>\d{14})(?:\.\d+)?,(?P<connection>[^,]*,\d+,[^,]*,\d+,(?P<stream>-?\d+)),"
    r"(?P<start>\d+\.\d+)[-,](?P<end>\d+\.\d+),(?P<bytes>\d+),(?P<bps>-?\d+)(?P<details>.*)"
)
"""`20260208083114,10.0.0.2,37818,10.0.0.1,5001,3,0.0-10.0,1203240960,962534720`."""
_UDP_DETAILS_PATTERN = re.compile(
    r",(?P<jitter>\d+\.\d+),(?P<lost>-?\d+),(?P<total>-?\d+),-?\d+\.\d+,(?P<late>-?\d+)"
)
_MESSAGE_LINE = re.compile(
    r"(?P<error>(?:[a-z]+ )?(?:connect|read|write|bind)2? failed: .*)|Waiting for server"
)
_YEAR_OF_UNREAD_CLOCK = 1970
"""The year of lines for which 2.1.8 has not read the clock."""


@dataclass
class CsvReport(Iperf2Report):
    """The lines of connections that ran at the same time."""

    header: ReportHeader = field(init=False)
    group: ConnectionGroup = field(init=False)
    latest_row_time: datetime = datetime.min
    """When the latest line was written."""
    latest_end_s_by_connection: dict[str, float] = field(default_factory=dict)
    """End of the latest row of each connection, by its addresses, ports and stream."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.header = self.create_header()
        self.header.is_endpoint_known = self.command is not None
        self.group = ConnectionGroup(self.first_line)

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether CSV lines, their header, or the command line in front of them is next."""
        line = lines.peek_line() or ""
        if line[:1].isdigit() or line[:1] in ("+", "-"):
            return _ROW_PATTERN.match(line) is not None
        if line.startswith("time,"):
            return _HEADER_LINE.match(line) is not None
        command = cls.parse_command(line)
        return command is not None and cls(command, 0).options.get("style", "").upper() == "C"

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line is of a connection that ran at the same time as the others."""
        row = _ROW_PATTERN.match(line)
        if row is None:
            is_header = _HEADER_LINE.match(line) is not None and not self.group.rows_by_stream_and_is_reverse
            return _MESSAGE_LINE.match(line) is not None or is_header
        latest_end_s = self.latest_end_s_by_connection.get(row["connection"])
        if latest_end_s is not None and float(row["end"]) >= latest_end_s:
            return True  # The times of the lines have no fractions of seconds.
        started_at = _parse_time(row) - timedelta(seconds=float(row["end"]))
        return not self.group.rows_by_stream_and_is_reverse or started_at < self.latest_row_time

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if (row := _ROW_PATTERN.match(line)) is not None:
            self.group.add_row(_parse_row(row))
            self.latest_end_s_by_connection[row["connection"]] = float(row["end"])
            self.latest_row_time = max(self.latest_row_time, _parse_time(row))
            self.group.started_at = self.group.started_at or _compute_start_time(row)
        elif (message := _MESSAGE_LINE.match(line)) is not None and message["error"]:
            self.header.error_message = self.header.error_message or message["error"]
        elif "readcnt" in line or "tcpretry" in line:  # Each endpoint has its own columns for TCP.
            self.header.is_endpoint_known, self.header.is_client = True, "tcpretry" in line

    def build_runs(self) -> list[Run]:
        """Return the run of the connections; none for a server's command line."""
        self.group.last_line = self.last_line
        has_run = self.group.rows_by_stream_and_is_reverse or self.header.is_client
        return [build_run(self.group, self.header)] if has_run else []


def _parse_row(row: re.Match[str]) -> ReportRow:
    stream = ALL_STREAMS_ID if row["stream"] == "-1" else row["stream"]
    values = {"bytes": parse_exact_count(row["bytes"])}
    if (udp := _UDP_DETAILS_PATTERN.match(row["details"])) is not None:
        values["jitter_us"] = parse_rounded(udp["jitter"], 1e3)
        values["lost"] = parse_exact_count(udp["lost"])
        values["datagrams"] = parse_exact_count(udp["total"])
    end, rate = parse_rounded(row["end"]), parse_rounded(row["bps"])
    return ReportRow(stream, False, float(row["start"]), end, rate, values)


def _parse_time(row: re.Match[str]) -> datetime:
    """Return when the line was written, by the clock of its endpoint."""
    return datetime.strptime(row["time"], "%Y%m%d%H%M%S")


def _compute_start_time(row: re.Match[str]) -> datetime | None:
    written_at = _parse_time(row)
    if written_at.year == _YEAR_OF_UNREAD_CLOCK:
        return None
    zone = datetime.strptime(row["zone"], "%z:").tzinfo if row["zone"] else None
    return written_at.replace(tzinfo=zone) - timedelta(seconds=float(row["end"]))
