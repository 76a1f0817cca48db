"""iperf 2's `-y C`: one line an interval and stream, with no word of what the columns are.

Source: `src/Locale.c`, `src/ReportCSV.c`. To 2.1.8: time, two addresses with ports, stream, `start-end`,
bytes, bit/s, and of datagrams jitter (ms), lost, all, lost in percent, out of order. 2.1.9 adds columns for
`-e`; 2.2 has a line of names, and start and end apart. Stream -1 is all together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from vnetbench.importers.log_lines import Lines
from vnetbench.importers.run_lines import own_line
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf2.connection_groups import Group, Told
from vnetbench.importers.tools.iperf2.options import asked, command_at
from vnetbench.importers.tools.iperf2.report_rows import ALL, Row
from vnetbench.importers.tools.iperf2.run_builder import run_of
from vnetbench.importers.units import counted, rounded

_NAMES = re.compile(r"time,srcaddress,srcport,dstaddr,dstport,transferid,istart,iend,bytes,speed\b")
_LINE = re.compile(
    r"(?P<zone>[-+]\d{4}:)?(?P<time>\d{14})(?:\.\d+)?,[^,]*,\d+,[^,]*,\d+,(?P<stream>-?\d+),"
    r"(?P<start>\d+\.\d+)[-,](?P<end>\d+\.\d+),(?P<bytes>\d+),(?P<bps>-?\d+)(?P<more>.*)"
)
"""`20260208083114,10.0.0.2,37818,10.0.0.1,5001,3,0.0-10.0,1203240960,962534720`."""
_DATAGRAMS = re.compile(r",(?P<jitter>\d+\.\d+),(?P<lost>-?\d+),(?P<total>-?\d+),-?\d+\.\d+,(?P<late>-?\d+)")
_SAID = re.compile(r"(?P<failure>(?:[a-z]+ )?(?:connect|read|write|bind)2? failed: .*)|Waiting for server")
_UNSET = 1970
"""The year of lines for which 2.1.8 has not asked for the time."""


def begins(lines: Lines) -> bool:
    """Whether lines of this CSV are next, or their names, or the command line before them."""
    line = lines.peek() or ""
    if line[:1].isdigit() or line[:1] in ("+", "-"):
        return _LINE.match(line) is not None
    if line.startswith("time,"):
        return _NAMES.match(line) is not None
    return asked(command_at(lines)).options.get("style", "").upper() == "C"


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The connections that are next: those that were at work at one time."""
    first = lines.number + 1
    command = asked(command_at(lines))
    told = Told(command, command.is_client, "udp" in command.options, bool(command.text))
    group, latest = Group(first), datetime.min
    if command.text:
        lines.take()

    def is_own(line: str) -> bool:
        found = _LINE.match(line)
        if found is None:
            return _SAID.match(line) is not None or (_NAMES.match(line) is not None and not group.flows)
        began = _time(found) - timedelta(seconds=float(found["end"]))
        return not group.flows or began < latest

    last = first
    while (line := own_line(lines, begins, is_own)) is not None:
        last = lines.number
        if (found := _LINE.match(line)) is not None:
            group.add(_row(found))
            latest = max(latest, _time(found))
            group.started_at = group.started_at or _began(found)
        elif (said := _SAID.match(line)) is not None and said["failure"]:
            told.failure = told.failure or said["failure"]
        elif "readcnt" in line or "tcpretry" in line:  # The names of TCP's columns tell whose they are.
            told.is_end_known, told.is_client = True, "tcpretry" in line
    group.last_line = last
    return [run_of(group, told)] if group.flows or told.is_client else []


def _row(line: re.Match[str]) -> Row:
    stream = ALL if line["stream"] == "-1" else line["stream"]
    values = {"bytes": counted(line["bytes"])}
    if (datagrams := _DATAGRAMS.match(line["more"])) is not None:
        values |= {
            "jitter_us": rounded(datagrams["jitter"], 1e3),
            "lost": counted(datagrams["lost"]),
            "datagrams": counted(datagrams["total"]),
        }
    return Row(stream, False, float(line["start"]), rounded(line["end"]), rounded(line["bps"]), values)


def _time(line: re.Match[str]) -> datetime:
    """When the line was written, by the clock of its end."""
    return datetime.strptime(line["time"], "%Y%m%d%H%M%S")


def _began(line: re.Match[str]) -> datetime | None:
    at = _time(line)
    if at.year == _UNSET:
        return None
    zone = datetime.strptime(line["zone"], "%z:").tzinfo if line["zone"] else None
    return at.replace(tzinfo=zone) - timedelta(seconds=float(line["end"]))
