"""Read the log of an xfr server: two lines a test. Only they name its direction."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vnetbench.importers.arithmetic import divide_values
from vnetbench.importers.command_line import CommandLine
from vnetbench.importers.line_report import LineReport
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.tools.xfr.client_report import TOOL
from vnetbench.importers.units import parse_rounded
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM, WORKLOADS

_CLIENT_LINE = re.compile(r"\s*INFO Client connected: \S+ \(xfr/(?P<version>[\w.+-]+),")
_REQUEST_LINE = re.compile(
    r"\s*INFO (?:(?P<quic>QUIC) test|Test) requested: (?:(?P<protocol>TCP|UDP) )?(?P<streams>\d+) streams, "
    r"(?P<mode>Upload|Download|Bidirectional) mode, "
)
"""`INFO Test requested: TCP 1 streams, Upload mode, 2s`."""
_RESULT_LINE = re.compile(
    r"\s*INFO (?:QUIC test|Test) [\w-]+ complete: (?P<mbps>\d+(?:\.\d+)?) Mbps, (?P<bytes>\d+) bytes"
)
_OTHER_LINE = re.compile(r"\s*(?:INFO|WARN) (?:\w+ listening on |QUIC |Accepted )")
_ERROR_LINE = re.compile(r"\s*ERROR (?P<error>.*)")
_DIRECTION_BY_MODE = {"Upload": FORWARD, "Download": REVERSE, "Bidirectional": "both"}


@dataclass
class XfrServerReport(LineReport):
    """The lines of one test at a server."""

    tool = TOOL

    version: str = ""
    request: re.Match[str] | None = None
    result: re.Match[str] | None = None

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a client's connection or its request is next."""
        line = lines.peek_line() or ""
        if "INFO " not in line:
            return False
        return bool(_CLIENT_LINE.match(line) or _REQUEST_LINE.match(line))

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return None: a server's options change no test."""
        return None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test."""
        if self.result is not None:
            return False
        if _CLIENT_LINE.match(line):
            return not (self.version or self.request)
        if _REQUEST_LINE.match(line):
            return self.request is None
        return any(pattern.match(line) for pattern in (_RESULT_LINE, _OTHER_LINE, _ERROR_LINE))

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if (client := _CLIENT_LINE.match(line)) is not None:
            self.version = client["version"]
        elif (error := _ERROR_LINE.match(line)) is not None:
            self.record_first_error(error["error"])
        self.request = self.request or _REQUEST_LINE.match(line)
        self.result = self.result or _RESULT_LINE.match(line)

    def build_runs(self) -> list[Run]:
        """Return the test; none for a client that requested none."""
        if self.request is None:
            return []
        is_udp = self.request["protocol"] == "UDP"
        workload = UDP_STREAM if is_udp else TCP_STREAM
        direction = _DIRECTION_BY_MODE[self.request["mode"]]
        factors: dict[str, Level] = {
            WORKLOADS[workload].count_factor: int(self.request["streams"]),
            "direction": direction,
        }
        if self.request["quic"]:
            factors["label_transport"] = "quic"
        metrics, duration_s = {}, None
        if self.result is not None:
            rate = parse_rounded(self.result["mbps"], 1e6)
            bits = RoundedValue.exact(8.0 * int(self.result["bytes"]))
            metrics = {"goodput_bps": rate}
            duration_s = divide_values(bits, rate).value if rate.low > 0 else None
        run = Run(
            tool=TOOL,
            version=self.version,
            first_line=self.first_line,
            last_line=self.last_line,
            workload=workload,
            factors=factors,
            metrics=metrics,
            measured_duration_s=duration_s,
            failure=self.failure_reason(is_complete=self.result is not None),
        )
        return [run]
