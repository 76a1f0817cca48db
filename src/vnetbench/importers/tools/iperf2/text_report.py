"""Read iperf 2's text reports, of a client and of a server, with and without `-e`.

Source: `src/Locale.c` and `src/ReportOutputs.c` of iperf 2 (2.0.5 to 2.2). Bits are powers of 1000, bytes
powers of 1024. A server's log has no end: each group of simultaneous connections is a run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.importers.command_line import CommandLine
from vnetbench.importers.dates import parse_time_zone
from vnetbench.importers.line_report import LineReport
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.row_columns import Row
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf2.connection_groups import ConnectionGroup, ReportHeader
from vnetbench.importers.tools.iperf2.options import OPTION_SYNTAX
from vnetbench.importers.tools.iperf2.report_rows import BOUNCEBACK_ROW_PATTERN, STREAM_ROWS, ReportRow
from vnetbench.importers.tools.iperf2.run_builder import TOOL, build_run

_BANNER_LINE = re.compile(
    r"Client connecting to \S+, (?P<client>TCP|UDP) port (?P<port>\d+)"
    r"|Server listening on (?P<server>TCP|UDP) port (?P<listening_port>\d+)"
)
"""`Client connecting to 10.0.0.2, TCP port 5001`."""
_CONNECTION_LINE = re.compile(
    r"\[\s*\*?(?P<id>\d+)\] local \S+ port (?P<local_port>\d+) connected with "
    r"\S+ port (?P<port>\d+)(?P<details>.*)"
)
"""`[  3] local 10.0.0.1 port 50366 connected with 10.0.0.2 port 5001 (reverse) (peer 2.1.8)`."""
_SEPARATOR_LINE = re.compile(r"-{40,}\s*$")
_ANY_STREAM_LINE = re.compile(r"\[\s*\*?(?:\d+|SUM|SUM-(?:\d+|cnt)|FD\d+|ID|CT)\]")
"""How every line of a report starts: `[SUM-2] Sent 10004 datagrams`, `[ ID] Interval …`."""
_SENT_DATAGRAMS_LINE = re.compile(r"\[\s*(?P<id>\d+)\] Sent (?P<datagrams>\d+) datagrams")
_REORDERED_DATAGRAMS_LINE = re.compile(
    r"\[\s*\d+\].* sec\s+(?P<datagrams>\d+) datagrams received out-of-order"
)
_RECEIVER_REPORT_LINE = re.compile(r"\[\s*(?P<id>\d+)\] Server Report:")
_NO_RECEIVER_REPORT_LINE = re.compile(
    r"\[\s*\d+\] WARNING: (?:did not receive ack|ack of last datagram failed)"
)
_ERROR_LINE = re.compile(
    r"(?:[a-z]+ )?(?:connect|read|write|recv|accept|bind|shutdown)2? failed: .*|ERROR: .*"
)
"""`connect failed: Connection refused`."""
_SETTING_LINE = re.compile(
    r"TCP window size|UDP buffer size|Write buffer size|Read buffer size|Bursting|Isochronous|MSS |Binding to"
    r"|TCP three-way|TCP near-cong|Bounce-back test|TOS set|Sending \d|Receiving \d|Setting multicast"
    r"|Joining multicast|Waiting for server|WARNING: "
)
"""How a line of the head starts."""
_SIZE_PATTERN_BY_FACTOR = {
    "datagram_size": re.compile(r"Sending (\d+) byte datagrams"),
    "message_size": re.compile(r"Write buffer size: +(\d+) Byte$"),
    "request_size": re.compile(r"Bounce-back test \(size= (\d+) Byte\)"),
}
"""Sizes that the head prints in whole bytes, by factor."""
_BUFFER_SIZE_PATTERN = re.compile(r"(?P<name>TCP window size|UDP buffer size): *(?P<size>.*)")
_PEER_VERSION_PATTERN = re.compile(r"\(peer (?P<version>\d[\w.-]*)\)")
_START_TIME_PATTERN = re.compile(
    r" on (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)?(?: \((?P<zone>[^)]{1,8})\))?"
)
"""`on 2026-11-21 21:22:58 (UTC)`."""
_BOUNCE_BACK_DETAIL_PATTERN = re.compile(r"\(bb\b(?:[^)]*len/hold=(?P<size>\d+)/)?")
"""What both endpoints print after the connection: `(bb w/quickack len/hold=100/0)`."""
_BURST_LINE = re.compile(r"(?:Bursting|Isochronous): +(?P<burst>\S.*)")
"""`Bursting: 97.7 KByte writes 1 times every 0.10 second(s)`."""
_DEFAULT_PORT = 5001


@dataclass
class Iperf2Report(LineReport):
    """What the text and the CSV of iperf 2 have in common."""

    tool = TOOL
    programs = ("iperf", "iperf2")
    option_syntax = OPTION_SYNTAX

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return iperf 2's command line in this line, if there is one."""
        return super().parse_command(line) if "iperf" in line and "iperf3" not in line else None

    def create_header(self) -> ReportHeader:
        """Return a header with what the command line says."""
        is_client, is_udp = "client" in self.options, "udp" in self.options
        return ReportHeader(self.command_text, self.options, is_client, is_udp)


@dataclass
class TextReport(Iperf2Report):
    """The output of a client, or of one group of connections of a server."""

    row_patterns = (STREAM_ROWS,)

    header: ReportHeader = field(init=False)
    groups: list[ConnectionGroup] = field(default_factory=list)
    server_port: int = _DEFAULT_PORT
    client_callback_port: int | None = None
    """The port that a server connects back to (`-d`, `-r`)."""
    remote_ports: set[int] = field(default_factory=set)
    """Ports of the other endpoint in the connections so far."""
    has_banner: bool = False
    has_client_banner: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.header = self.create_header()

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a client's or server's report, a server's connection, or a command line is next."""
        line = lines.peek_line() or ""
        if line.startswith("["):
            return _CONNECTION_LINE.match(line) is not None
        if line.startswith("----"):
            return (
                _SEPARATOR_LINE.match(line) is not None
                and _BANNER_LINE.match(lines.peek_line(1) or "") is not None
            )
        return _BANNER_LINE.match(line) is not None or cls.parse_command(line) is not None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs here: a server's next connections and a second banner do not."""
        if line.startswith("["):
            if _CONNECTION_LINE.match(line):
                return self.header.is_client or not self.groups or not self.groups[-1].has_all_whole_run_rows
            return bool((self.groups or self.has_banner) and _ANY_STREAM_LINE.match(line))
        if (banner := _BANNER_LINE.match(line)) is not None or _SEPARATOR_LINE.match(line):
            has_failed = self.has_client_banner and bool(self.header.error_message)
            is_next_client = self.has_client_banner and banner is not None and banner["client"] is not None
            return not (
                has_failed
                or is_next_client
                or (self.groups and self.groups[-1].rows_by_stream_and_is_reverse)
            )
        return bool(_SETTING_LINE.match(line) or _ERROR_LINE.match(line))

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if line.startswith("["):
            self._add_stream_line(line)
        elif (banner := _BANNER_LINE.match(line)) is not None:
            self._add_banner(banner)
        elif _ERROR_LINE.match(line):
            self.header.error_message = self.header.error_message or line.strip()
        else:
            self._add_setting(line)

    def _add_banner(self, banner: re.Match[str]) -> None:
        self.has_banner = True
        self.has_client_banner = self.has_client_banner or banner["client"] is not None
        self.header.is_udp = "UDP" in (banner["client"], banner["server"])
        # A thread of a client may connect before the banner; a server connects back to another port.
        is_own_port = banner["client"] is not None and int(banner["port"]) in self.remote_ports
        if banner["client"] and self.groups and not self.header.is_client and not is_own_port:
            self.client_callback_port = int(banner["port"])
        elif banner["client"] or not self.header.is_client:
            self.header.is_client = self.header.is_client or banner["client"] is not None
            self.server_port = int(banner["port"] or banner["listening_port"])

    def _add_setting(self, line: str) -> None:
        for name, pattern in _SIZE_PATTERN_BY_FACTOR.items():
            if (size := pattern.match(line)) is not None:
                self.header.size_bytes_by_factor[name] = int(size[1])
        self.header.only_connects |= line.startswith("TCP three-way-handshake (3WHS) only")
        if (burst := _BURST_LINE.match(line)) is not None:
            self.header.burst_text = burst["burst"].strip()
        if (buffer := _BUFFER_SIZE_PATTERN.match(line)) is not None:
            self.header.other_results[buffer["name"]] = buffer["size"].strip()

    def _add_stream_line(self, line: str) -> None:
        if (connected := _CONNECTION_LINE.match(line)) is not None:
            self._add_connection(connected)
        group = self._current_group()
        if (row := BOUNCEBACK_ROW_PATTERN.match(line)) is not None:
            group.add_row(ReportRow.parse(row.groupdict("")))
        elif (sent := _SENT_DATAGRAMS_LINE.match(line)) is not None:
            group.sent_datagrams_by_stream_id[sent["id"]] = int(sent["datagrams"])
        elif (report := _RECEIVER_REPORT_LINE.match(line)) is not None:
            group.stream_ids_whose_next_row_is_server_report.add(report["id"])
        elif (reordered := _REORDERED_DATAGRAMS_LINE.match(line)) is not None:
            group.reordered_datagrams = (group.reordered_datagrams or 0) + int(reordered["datagrams"])
        elif _NO_RECEIVER_REPORT_LINE.match(line):
            group.lacks_receiver_report = True

    def add_rows(self, rows: Sequence[Row], value_names: Sequence[str]) -> None:
        """Record rows of the current group of connections."""
        self._current_group().add_rows(rows)

    def _current_group(self) -> ConnectionGroup:
        if not self.groups:
            self.groups.append(ConnectionGroup(self.last_line))
        self.groups[-1].last_line = self.last_line
        return self.groups[-1]

    def _add_connection(self, connected: re.Match[str]) -> None:
        if not self.groups or self.groups[-1].has_all_whole_run_rows:
            self.groups.append(ConnectionGroup(self.last_line))
        group, details = self.groups[-1], connected["details"]
        # A connection to a client (-d, -r), or from a server, carries the load of the reverse direction.
        port = int(connected["port"])
        self.remote_ports.add(port)
        is_callback = port != self.server_port if self.header.is_client else port == self.client_callback_port
        group.is_reverse_by_stream_id[connected["id"]] = is_callback or "(reverse)" in details
        if (bounce_back := _BOUNCE_BACK_DETAIL_PATTERN.search(details)) is not None:
            group.has_requests = True
            group.request_bytes = int(bounce_back["size"]) if bounce_back["size"] else None
        peer, started = _PEER_VERSION_PATTERN.search(details), _START_TIME_PATTERN.search(details)
        group.peer_version = peer["version"] if peer else group.peer_version
        if started is not None and group.started_at is None:
            started_at = datetime.fromisoformat(started["time"])
            group.started_at = started_at.replace(tzinfo=parse_time_zone(started["zone"]))

    def build_runs(self) -> list[Run]:
        """Return a client's runs, or those of a server's connections; none for a server's banner alone."""
        if not self.header.is_client:
            groups = [each for each in self.groups if each.has_connections_or_results]
            return [build_run(group, self.header) for group in groups]
        groups = self.groups or [ConnectionGroup(self.first_line)]
        groups[0].first_line, groups[-1].last_line = self.first_line, self.last_line
        return [build_run(group, self.header) for group in groups]
