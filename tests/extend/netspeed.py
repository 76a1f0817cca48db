"""The importer of docs/how-to/extend/add-an-importer.md: a tool that prints one line per interval.

The log of one run:

    netspeed 2.1 to 192.0.2.7, 4 streams
      1 s   941.2 Mbit/s
      2 s   940.8 Mbit/s
    mean    941.0 Mbit/s over 2 s
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vnetbench.importers.line_report import LineReport, make_report_reader
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.importers.units import parse_rounded

_TITLE = re.compile(r"netspeed (?P<version>[\d.]+) to \S+, (?P<streams>\d+) streams")
_INTERVAL = re.compile(r"\s+(?P<end>\d+) s\s+(?P<rate>[\d.]+) Mbit/s")
_MEAN = re.compile(r"mean\s+(?P<rate>[\d.]+) Mbit/s over (?P<duration>\d+) s")


@dataclass
class NetspeedReport(LineReport):
    """The output of one run."""

    tool = "netspeed"

    version: str = ""
    streams: int = 1
    intervals: list[ReportInterval] = field(default_factory=list)
    goodput: RoundedValue | None = None
    duration_s: float | None = None

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether the title line is next."""
        return _TITLE.match(lines.peek_line() or "") is not None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line is the title, an interval or the mean."""
        if self.goodput is not None:
            return False
        return any(pattern.match(line) for pattern in (_TITLE, _INTERVAL, _MEAN))

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if title := _TITLE.match(line):
            self.version, self.streams = title["version"], int(title["streams"])
        elif interval := _INTERVAL.match(line):
            end_s = float(interval["end"])
            rate = parse_rounded(interval["rate"], 1e6 / 8)
            self.intervals.append(ReportInterval(end_s - 1, end_s, {"bytes": rate}))
        elif mean := _MEAN.match(line):
            self.goodput = parse_rounded(mean["rate"], 1e6)
            self.duration_s = float(mean["duration"])

    def build_runs(self) -> list[Run]:
        """Return the run, with a failure if its mean is missing."""
        run = Run(
            tool=self.tool,
            version=self.version,
            first_line=self.first_line,
            last_line=self.last_line,
            workload="tcp_stream",
            factors={"streams": self.streams},
            metrics={"goodput_bps": self.goodput} if self.goodput else {},
            intervals=tuple(self.intervals),
            measured_duration_s=self.duration_s,
            failure=self.failure_reason(is_complete=self.goodput is not None),
        )
        return [run]


READERS = (make_report_reader(NetspeedReport),)
