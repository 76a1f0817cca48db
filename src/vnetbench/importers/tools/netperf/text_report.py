"""netperf's reports: a title, warnings and interim results, and then a table or results by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vnetbench.importers.arithmetic import times
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.run_lines import CUT_OFF, own_line
from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval, Run
from vnetbench.importers.tools.netperf import omni_results
from vnetbench.importers.tools.netperf.classic_tables import NUMBERS, Table, is_heading, latency_row, unit_in
from vnetbench.importers.tools.netperf.test_types import (
    BITS_PER_S,
    TESTS,
    TITLE,
    USUAL_UNIT,
    Asked,
    Test,
    asked,
    command_at,
    test_titled,
)
from vnetbench.study.model import Level
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, REQUESTS, STREAM

_INTERIM = re.compile(
    r"Interim result:\s*(?P<rate>\S+) (?P<unit>\S+)/s over (?P<over>[\d.]+) seconds ending at (?P<end>[\d.]+)"
)
"""`Interim result: 9384.36 10^6bits/s over 0.500 seconds ending at 1700000000.123`."""
_INTERIM_CSV = re.compile(r"\s*(?P<rate>[\d.]+),(?P<unit>[^,]+)/s,(?P<over>[\d.]+),(?P<end>\d+\.\d+)$")
_ACHIEVED = re.compile(r"!!! Confidence intervals: Throughput\s*: (?P<width>[\d.]+%)")
_ASKED_CONFIDENCE = re.compile(r"\+/-(?P<width>[\d.]+)% @ (?P<level>\d+)% conf")
_BURST = re.compile(r"first burst (?P<count>\d+)")
_FAILED = re.compile(
    r"establish.control: .*|establish_control could not .*|netperf: .*|recv_response\w*: .*|send_\w+: .*"
    r"|shutdown_control: .*|catcher: .*|get_transport_info: .*|remote error .*"
)
"""`establish control: are you sure there is a netserver listening on 10.0.0.2 at port 12865?`."""
_ASIDE = re.compile(
    r"Sorry, Demo Mode|Please consider reconfiguring netperf|--enable-\w+=yes|Resetting interim"
)
_MORE = re.compile(
    r"Alignment\s+Offset|Local\s+Remote\s+Local\s+Remote|Send\s+Recv\s+Send|Maximum$|Segment$|Size \(bytes\)"
)
"""Lines that `-v 2` adds below a table."""
_REMOTE = re.compile(r"\d+\s+\d+$")
"""The remote end's buffers, below a row of requests."""
_MOST_HEADINGS = 12
"""Lines of omni's headings: its longest have half as many."""
_NUMBER = re.compile(r"(?<!\S)-?\d+(?:\.\d+)?(?!\S)")


@dataclass
class _Report:
    """What has been read of one test."""

    asked: Asked
    test_name: str
    title: str = ""
    unit: str | None = None
    table: Table | None = None
    results: dict[str, str] = field(default_factory=dict)
    headings: list[str] = field(default_factory=list)
    """Of omni's table or CSV, until their values come."""
    interim: list[omni_results.Interim] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    mean_latency: Figure | None = None
    failure: str = ""
    awaits_latency: bool = False
    is_below: bool = False

    @property
    def test(self) -> Test | None:
        """The test; None of OMNI, whose results tell what it did."""
        return TESTS.get(self.test_name)

    @property
    def is_whole(self) -> bool:
        """Whether its results are there."""
        has_results = any(not name.startswith("NETPERF_") for name in self.results)
        return has_results or (self.table is not None and self.table.is_whole)

    def wants(self, line: str) -> bool:
        """Whether a line is of this report."""
        line = line.rstrip()
        if self.is_whole:
            return self._is_below(line)
        if TITLE.match(line):
            return not self.title
        patterns = (NUMBERS, _INTERIM, _INTERIM_CSV, omni_results.KEYED, _FAILED, _ASIDE)
        is_known = any(pattern.match(line) for pattern in patterns)
        return is_known or is_heading(line) or line.startswith("!!!")

    def _is_below(self, line: str) -> bool:
        """Whether a line still is of it when the results are there."""
        if self.results:
            return not self.headings and omni_results.KEYED.match(line) is not None
        is_remote = not self.is_below and _REMOTE.match(line) is not None
        return is_remote or bool(_MORE.match(line) or (self.is_below and NUMBERS.match(line)))

    def may_want(self, line: str) -> bool:
        """Whether it may be a line of omni's headings or values, which may be any words."""
        if not line.strip() or self.is_whole or len(self.headings) >= _MOST_HEADINGS:
            return False
        is_classic = self.test is not None and not self.asked.is_omni and bool(self.asked.text)
        return bool(self.headings) or bool(self.title and not is_classic and self.table is None)

    def take(self, line: str) -> None:
        """Add what a line tells."""
        line = line.rstrip()
        if (title := TITLE.match(line)) is not None and not self.is_whole:
            self._title(title)
        elif (interim := _INTERIM.match(line) or _INTERIM_CSV.match(line)) is not None:
            told = omni_results.Interim.of(interim["rate"], interim["unit"], interim["over"], interim["end"])
            self.interim.append(told)
        elif line.startswith("!!!"):
            if (achieved := _ACHIEVED.match(line)) is not None:
                self.remarks.append(
                    f"the confidence that -I asks for was not reached: {achieved['width']} wide"
                )
        elif (keyed := omni_results.KEYED.match(line)) is not None:
            self.results[keyed["name"]] = keyed["value"].strip('"')
        elif _FAILED.match(line):
            self.failure = self.failure or line
        elif not _ASIDE.match(line):
            self._of_table(line)

    def _title(self, title: re.Match[str]) -> None:
        self.title = title["title"]
        self.test_name = test_titled(self.title)
        if (confidence := _ASKED_CONFIDENCE.search(title["more"])) is not None:
            self.remarks.append(f"means over as many iterations as -I needed for ±{confidence['width']} %")
        burst = _BURST.search(title["more"])
        if burst is not None and int(burst["count"]):
            self.remarks.append(f"{int(burst['count']) + 1} requests at once on one connection (-b)")

    def _of_table(self, line: str) -> None:
        if _MORE.match(line):
            self.is_below = True
            self.awaits_latency = self.awaits_latency or "RoundTrip" in line
        elif self.is_below:
            self.mean_latency = latency_row(line.split()) if self.awaits_latency else None
            self.awaits_latency = False
        elif not self._classic(line):
            self._of_omni(line)

    def _classic(self, line: str) -> bool:
        """Take a line of a classic table; False where it is none."""
        if self.test is None or self.headings:
            return False
        if NUMBERS.match(line):
            table = self.table or Table(self.test)
            if not table.take(line.split()):
                return self.is_whole
            self.table = table
            return True
        if not is_heading(line):
            return False
        self.unit = self.unit or unit_in(line) or ("Trans" if "per sec" in line else None)
        return True

    def _of_omni(self, line: str) -> None:
        is_csv = bool(self.headings) and "," in self.headings[0]
        if self.headings and is_csv:
            names, values = self.headings[0].split(","), line.split(",")
            if len(names) == len(values):
                self.results = omni_results.by_name(names, values)
        elif self.headings and _NUMBER.search(line):
            self.results = omni_results.columns(self.headings, line)
        else:
            self.headings.append(line)


def begins(lines: Lines) -> bool:
    """Whether a table's title, results by name, or a command line of netperf is next."""
    line = lines.peek() or ""
    if " TEST " in line:
        title = TITLE.match(line)
        return title is not None and ("AF_" in line or test_titled(title["title"]) in TESTS)
    if line.startswith(omni_results.FIRST_KEYS):
        return True
    return asked(command_at(lines)).text != "" or line.startswith("establish control: ")


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The run of one test."""
    first = lines.number + 1
    command = asked(command_at(lines))
    report = _Report(command, command.test)
    if command.text:
        lines.take()
    last = first

    def is_own(line: str) -> bool:
        return report.wants(line) or (report.may_want(line) and not begins(lines))

    while (line := own_line(lines, begins, is_own)) is not None:
        report.take(line)
        last = lines.number
    return [_run(report, first, last)]


def _run(report: _Report, first: int, last: int) -> Run:
    results = omni_results.told(report.results)
    test = report.test
    workload = omni_results.workload(results, test.workload if test is not None else None)
    is_reverse = test.is_reverse if test is not None else results.get("DIRECTION") == "Recv"
    table = report.table if report.table is not None and not results else None
    elapsed = results.get("ELAPSED_TIME")
    return Run(
        tool="netperf",
        version="",
        first_line=first,
        last_line=last,
        workload=workload,
        factors=_factors(report, results, workload, is_reverse=is_reverse),
        figures=_figures(report, results, workload, is_reverse=is_reverse) if report.is_whole else {},
        intervals=tuple(_intervals(report, workload, is_reverse=is_reverse)),
        duration_s=float(elapsed) if elapsed else table.elapsed_s if table is not None else None,
        told_by="" if workload == DATAGRAMS else "receiver" if is_reverse else "sender",
        command=report.asked.text or results.get("COMMAND_LINE", ""),
        also=_also(results) if results else table.also() if table is not None else {},
        fault="" if report.is_whole else report.failure or CUT_OFF,
        remarks=tuple(_remarks(report, results, workload)),
    )


def _factors(
    report: _Report, results: dict[str, str], workload: str, *, is_reverse: bool
) -> dict[str, Level]:
    found: dict[str, Level] = dict(report.test.factors) if report.test is not None else {}
    found |= (
        omni_results.factors(results, workload) if results else report.table.factors() if report.table else {}
    )
    found["streams" if workload in (STREAM, DATAGRAMS) else "connections"] = 1
    found["direction"] = "reverse" if is_reverse else "forward"
    if report.test is None and workload == REQUESTS and results.get("PROTOCOL") == "UDP":
        found["label_protocol"] = "udp"
    return {**found, **report.asked.factors()}


def _figures(
    report: _Report, results: dict[str, str], workload: str, *, is_reverse: bool
) -> dict[str, Figure]:
    if results:
        return omni_results.figures(results, workload, is_reverse=is_reverse)
    if report.table is None:
        return {}
    is_rate = workload in (REQUESTS, CONNECTIONS)
    asked_unit = report.asked.general.get("f", "x")
    usual = ("Trans" if asked_unit == "x" else "other") if is_rate else report.asked.unit or USUAL_UNIT
    found = report.table.figures(report.unit or usual)
    return {**found, "latency_mean_us": report.mean_latency} if report.mean_latency is not None else found


def _intervals(report: _Report, workload: str, *, is_reverse: bool) -> Iterable[Interval]:
    """Those that -D prints, but of datagrams, where they tell what was sent."""
    told = report.interim or omni_results.interim(report.results)
    if workload in (DATAGRAMS, CONNECTIONS) or not told:
        return
    began = told[0].end_s - told[0].length_s
    for each in told:
        if each.unit == "Trans":
            values = {"transactions": times(each.rate, each.length_s)}
        elif each.unit in BITS_PER_S:
            values = {"bytes": times(each.rate, BITS_PER_S[each.unit] / 8 * each.length_s)}
        else:
            return
        end = each.end_s - began
        yield Interval(max(0.0, end - each.length_s), end, values, way=REVERSE if is_reverse else FORWARD)


def _also(results: dict[str, str]) -> dict[str, str]:
    """The results that are of no metric of ours, by netperf's names."""
    names = (
        "RT_LATENCY",
        "MIN_LATENCY",
        "MAX_LATENCY",
        "STDDEV_LATENCY",
        "LOCAL_SD",
        "REMOTE_SD",
        "SD_UNITS",
    )
    return {name: results[name] for name in names if name in results}


def _remarks(report: _Report, results: dict[str, str], workload: str) -> Iterable[str]:
    yield from report.remarks
    if report.failure and report.is_whole:
        yield f"it says: {report.failure}"
    if "P50_LATENCY" in results and workload in (REQUESTS, CONNECTIONS):
        yield "its percentiles are from a histogram: anywhere within a bucket of up to a tenth"
    if workload in (REQUESTS, CONNECTIONS) and report.unit not in (None, "Trans"):
        yield "-f gave another unit than transactions: their rate is not told"
