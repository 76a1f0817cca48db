"""iperf 2's reports for people, of a client and of a server, with and without `-e`.

Source: `src/Locale.c` and `src/ReportOutputs.c` of iperf 2 (2.0.5 to 2.2). Bits are counted in powers of
1000, bytes in powers of 1024. A server's log has no end: each group of connections at once is a run of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.importers.log_lines import Lines
from vnetbench.importers.run_lines import own_line
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf2.connection_groups import Group, Told
from vnetbench.importers.tools.iperf2.options import asked, command_at
from vnetbench.importers.tools.iperf2.report_rows import BOUNCED, ROW, Row
from vnetbench.importers.tools.iperf2.run_builder import run_of

_BANNER = re.compile(
    r"Client connecting to \S+, (?P<client>TCP|UDP) port (?P<port>\d+)"
    r"|Server listening on (?P<server>TCP|UDP) port (?P<at>\d+)"
)
"""`Client connecting to 10.0.0.2, TCP port 5001`."""
_CONNECTED = re.compile(
    r"\[\s*\*?(?P<id>\d+)\] local \S+ port (?P<local_port>\d+) connected with "
    r"\S+ port (?P<port>\d+)(?P<more>.*)"
)
"""`[  3] local 10.0.0.1 port 50366 connected with 10.0.0.2 port 5001 (reverse) (peer 2.1.8)`."""
_RULE = re.compile(r"-{40,}\s*$")
_OF_STREAM = re.compile(r"\[\s*\*?(?:\d+|SUM|SUM-\d+|FD\d+|ID|CT)\]")
"""Any line that begins as its reports do: `[SUM-2] Sent 10004 datagrams`, `[ ID] Interval …`."""
_SENT = re.compile(r"\[\s*(?P<id>\d+)\] Sent (?P<datagrams>\d+) datagrams")
_LATE = re.compile(r"\[\s*\d+\].* sec\s+(?P<datagrams>\d+) datagrams received out-of-order")
_REPORT = re.compile(r"\[\s*(?P<id>\d+)\] Server Report:")
_NO_REPORT = re.compile(r"\[\s*\d+\] WARNING: (?:did not receive ack|ack of last datagram failed)")
_FAILED = re.compile(r"(?:[a-z]+ )?(?:connect|read|write|recv|accept|bind|shutdown)2? failed: .*|ERROR: .*")
"""`connect failed: Connection refused`."""
_SETTING = re.compile(
    r"TCP window size|UDP buffer size|Write buffer size|Read buffer size|Bursting|Bounce-back test|TOS set"
    r"|Sending \d|Receiving \d|Binding to|Setting multicast|Joining multicast|Waiting for server|WARNING: "
)
"""How a line of the head begins."""
_SIZES = {
    "datagram_size": re.compile(r"Sending (\d+) byte datagrams"),
    "message_size": re.compile(r"Write buffer size: +(\d+) Byte$"),
    "request_size": re.compile(r"Bounce-back test \(size= (\d+) Byte\)"),
}
"""What the head tells in whole bytes, by our factors."""
_BUFFER = re.compile(r"(?P<name>TCP window size|UDP buffer size): *(?P<size>.*)")
_PEER = re.compile(r"\(peer (?P<version>\d[\w.-]*)\)")
_STARTED = re.compile(r" on (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_USUAL_PORT = 5001


@dataclass
class _Session:
    """What has been read of a client, or of one group of connections of a server."""

    told: Told
    groups: list[Group] = field(default_factory=list)
    port: int = _USUAL_PORT
    dialled: int | None = None
    """The port that a server connects back to (-d, -r)."""
    has_banner: bool = False
    has_dialled: bool = False
    """It has a client's banner."""

    def wants(self, line: str) -> bool:
        """Whether this line is one of it: a server's next connections are not, nor is another banner."""
        if line.startswith("["):
            if _CONNECTED.match(line):
                return self.told.is_client or not self.groups or not self.groups[-1].is_over
            return bool((self.groups or self.has_banner) and _OF_STREAM.match(line))
        if (banner := _BANNER.match(line)) is not None or _RULE.match(line):
            has_failed = self.has_dialled and bool(self.told.failure)
            is_another = self.has_dialled and banner is not None and banner["client"] is not None
            return not (has_failed or is_another or (self.groups and self.groups[-1].flows))
        return bool(_SETTING.match(line) or _FAILED.match(line))

    def take(self, line: str, number: int) -> None:
        """Add what a line tells."""
        if line.startswith("["):
            self._of_stream(line, number)
        elif (banner := _BANNER.match(line)) is not None:
            self._banner(banner)
        elif _FAILED.match(line):
            self.told.failure = self.told.failure or line.strip()
        else:
            self._setting(line)

    def _banner(self, banner: re.Match[str]) -> None:
        self.has_banner = True
        self.has_dialled = self.has_dialled or banner["client"] is not None
        self.told.is_udp = "UDP" in (banner["client"], banner["server"])
        if banner["client"] and self.groups and not self.told.is_client:
            self.dialled = int(banner["port"])
        elif banner["client"] or not self.told.is_client:
            self.told.is_client = self.told.is_client or banner["client"] is not None
            self.port = int(banner["port"] or banner["at"])

    def _setting(self, line: str) -> None:
        for name, pattern in _SIZES.items():
            if (found := pattern.match(line)) is not None:
                self.told.sizes[name] = int(found[1])
        if (buffer := _BUFFER.match(line)) is not None:
            self.told.also[buffer["name"]] = buffer["size"].strip()

    def _of_stream(self, line: str, number: int) -> None:
        if (connected := _CONNECTED.match(line)) is not None:
            self._connect(connected, number)
        group = self._group(number)
        group.last_line = number
        if (row := BOUNCED.match(line) or ROW.match(line)) is not None:
            group.add(Row.of(row))
        elif (sent := _SENT.match(line)) is not None:
            group.sent[sent["id"]] = int(sent["datagrams"])
        elif (report := _REPORT.match(line)) is not None:
            group.reporting.add(report["id"])
        elif (late := _LATE.match(line)) is not None:
            group.reordered = (group.reordered or 0) + int(late["datagrams"])
        elif _NO_REPORT.match(line):
            group.is_unanswered = True

    def _connect(self, connected: re.Match[str], number: int) -> None:
        if not self.groups or self.groups[-1].is_over:
            self.groups.append(Group(number))
        group, more = self.groups[-1], connected["more"]
        # What connects to a client (-d, -r), or what a server connects to, is the load of the other way.
        port = int(connected["port"])
        is_back = port != self.port if self.told.is_client else port == self.dialled
        group.ids[connected["id"]] = is_back or "(reverse)" in more
        peer, started = _PEER.search(more), _STARTED.search(more)
        group.peer = peer["version"] if peer else group.peer
        if started is not None and group.started_at is None:
            group.started_at = datetime.fromisoformat(started["at"])

    def _group(self, number: int) -> Group:
        if not self.groups:
            self.groups.append(Group(number))
        return self.groups[-1]


def begins(lines: Lines) -> bool:
    """Whether a client's or server's report, connections of a server, or a command line is next."""
    line = lines.peek() or ""
    if line.startswith("["):
        return _CONNECTED.match(line) is not None
    if line.startswith("----"):
        return _RULE.match(line) is not None and _BANNER.match(lines.peek(1) or "") is not None
    return _BANNER.match(line) is not None or command_at(lines) is not None


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The runs of a client's report; of a server those connections that are next, none of its banner."""
    first = lines.number + 1
    command = asked(command_at(lines))
    session = _Session(Told(command, command.is_client, "udp" in command.options))
    if command.text:
        lines.take()
    last = first
    while (line := own_line(lines, begins, session.wants)) is not None:
        session.take(line, lines.number)
        last = lines.number
    if not session.told.is_client:
        return [run_of(group, session.told) for group in session.groups if group.ids]
    groups = session.groups or [Group(first)]
    groups[0].first_line, groups[-1].last_line = first, last
    return [run_of(group, session.told) for group in groups]
