"""ethr: what its client and server print, and the JSON lines of its log file.

Source: `clientui.go`, `serverui.go`, `log.go`, `utils.go` of microsoft/ethr. K, M, G, T are of 1000; a
trailing `.0` is left out, so `12G` is 12.0. It tells no figure of a whole run: here it is the mean of its
seconds. In the log file latencies stand under shifted names: `emitLatencyResults` takes max before the
percentiles, `logLatency` takes it last, so `P50` is the largest, `P90` the median, … `Max` the 99.99 % point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.importers.arithmetic import mean, times, total
from vnetbench.importers.command import Command, Grammar, command_in, options_of
from vnetbench.importers.credible import credibly
from vnetbench.importers.lines import Lines
from vnetbench.importers.own_lines import CUT_OFF, own_line
from vnetbench.importers.reader import TextReader
from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval, Run
from vnetbench.importers.units import SECONDS, in_unit, rounded
from vnetbench.study.model import Level
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, REQUESTS, STREAM

_VALUED = {
    f"-{name}": name for name in ("c", "x", "d", "g", "i", "l", "b", "n", "p", "t", "w", "o", "T", "port")
}
_GRAMMAR = Grammar(
    valued=_VALUED, switches={f"-{name}": name for name in ("s", "r", "ui", "ncs", "debug", "4", "6")}
)
_VERSION = re.compile(
    r"Ethr: Comprehensive Network Performance Measurement Tool \(Version: (?P<version>[^)]*)\)"
)
_DESTINATION = re.compile(r"Using destination: ")
_DONE = re.compile(r"Ethr done, (?P<how>.*)")
_STREAM_ROW = re.compile(
    r"\[\s*(?P<id>\d+|SUM)\]\s+(?P<protocol>TCP|UDP)\s+(?P<start>\d{3,})-\d{3,} sec\s+"
    r"(?P<bits>[\d.]+[KMGT]?)(?:\s+(?P<packets>[\d.]+[KMGT]?))?\s*$"
)
"""`[    7]     TCP      000-001 sec     12.3G`."""
_PLAIN_ROW = re.compile(
    r"\s+(?P<protocol>TCP|UDP)\s+(?P<start>\d{3,})-\d{3,} sec\s+(?P<first>[\d.]+[KMGT]?)"
    r"(?:\s+(?P<second>[\d.]+[KMGT]?))?\s*$"
)
"""Of connections a second, or bits and packets a second: `  TCP      000-001 sec     1.2K`."""
_SERVER_ROW = re.compile(
    r"\[\s*(?P<remote>[\w.:]+|\[SUM\])\]\s+(?P<protocol>TCP|UDP|ICMP)\s+(?P<bits>[\d.]+[KMGT]?|--)\s+"
    r"(?P<connections>[\d.]+[KMGT]?|--)\s+(?P<packets>[\d.]+[KMGT]?|--)\s+(?P<latency>[\d.]+\w+|--)?\s*$"
)
"""Of a server: `[    127.0.0.1]    TCP    12.3G        1     --       --  `."""
_DURATION = r"\d+(?:\.\d+)?(?:ns|us|ms|s)"
_LATENCIES = re.compile(rf"\s*{_DURATION}(?:\s+{_DURATION}){{8}}\s*$")
"""`  63.1us    30.2us    58.9us …`: avg, min, 50 %, 90 %, 95 %, 99 %, 99.9 %, 99.99 %, max."""
_COLUMNS = ("mean", "min", "p50", "p90", "p95", "p99", "p99_9", "p99_99", "max")
_NAMES = {"mean": "Avg", "p50": "P50", "p90": "P90", "p99": "P99", "p99_9": "P999", "p99_99": "P9999"}
"""The fields of the log file that ought to hold them."""
_SHIFTED = {"mean": "Avg", "p50": "P90", "p90": "P95", "p99": "P999", "p99_9": "P9999", "p99_99": "Max"}
"""The fields of the log file that hold them."""
_SHARES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9, "p99_99": 99.99}
_LATENCY_TEST = re.compile(r"Running latency test: (?P<count>\d+), (?P<size>\d+)")
_PINGS = re.compile(r"\s*Sent = \d+, Received = (?P<count>\d+), Lost = \d+")
_PING_HEAD = re.compile(r"TCP connect statistics for ")
_CONNECTED = re.compile(r"\[\s*\d+\] local \S+ port \d+ connected to \S+ port \d+")
_OWN = re.compile(
    r"- - - |-{50,}$|\[\s*ID \]|Protocol\s+Interval|Maintainer: |Hint: |Accepting|Listening on port \d+ for"
    r"|\s+Avg\s+Min|\[RemoteAddress\]|\[tcp\] |Running in single|ServerAddress|Initializing"
)
_FAILED = re.compile(r"(?:Error|Failed|Unable|In client mode|In external mode|Destination .* is not) ?.*")
_DURATION_PARTS = re.compile(r"(?P<number>[\d.]+)(?P<unit>ns|us|ms|s)")
_SUFFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SIZES = re.compile(r"(?P<number>[\d.]+)(?P<suffix>[KMGT]?)")
_JSON_LINE = re.compile(r'\{"Time":"[^"]*","Title":"[^"]*","Type":"')
_TRIMMED = 0.05
"""What may have been rounded away of a number whose `.0` is left out."""


@dataclass
class _Report:
    """What has been read of one test."""

    options: Mapping[str, str]
    version: str = ""
    is_serving: bool = False
    streams: set[str] = field(default_factory=set)
    rows: dict[tuple[int, str], dict[str, Figure]] = field(default_factory=dict)
    """By the second and the stream (`SUM`, or empty where there are none)."""
    protocol: str = ""
    kind: str = ""
    """`bandwidth`, `packets`, `connections`, `latency` or `ping`."""
    latencies: list[tuple[int, dict[str, Figure]]] = field(default_factory=list)
    """Each with its line."""
    count: int = 0
    size: int = 0
    started_at: datetime | None = None
    is_done: bool = False
    how: str = ""
    failure: str = ""
    is_shifted: bool = False
    title: str = ""

    def wants(self, line: str) -> bool:
        """Whether a line is of this test."""
        if self.is_done:
            return line.startswith("Hint: ")
        if _VERSION.match(line) or _DESTINATION.match(line):
            return not (self.rows or self.latencies)
        patterns = (
            _DONE,
            _STREAM_ROW,
            _PLAIN_ROW,
            _SERVER_ROW,
            _LATENCIES,
            _LATENCY_TEST,
            _PINGS,
            _PING_HEAD,
        )
        return any(p.match(line) for p in (*patterns, _CONNECTED, _OWN, _FAILED))

    def take(self, line: str, number: int) -> None:
        """Add what a line tells."""
        if (row := _STREAM_ROW.match(line)) is not None:
            self._row(row, row["id"], {"bits": row["bits"], "packets": row["packets"]})
        elif (row := _PLAIN_ROW.match(line)) is not None:
            told = (
                {"bits": row["first"], "packets": row["second"]}
                if row["second"]
                else {"connections": row["first"]}
            )
            self._row(row, "", told)
        elif (row := _SERVER_ROW.match(line)) is not None:
            self._server_row(row)
        elif _LATENCIES.match(line):
            told = dict(zip(_COLUMNS, line.split(), strict=True))
            self.latencies.append((number, {name: _time(told[name]) for name in _NAMES}))
        else:
            self._remark(line)

    def _row(self, row: re.Match[str], stream: str, told: Mapping[str, str | None]) -> None:
        self.protocol = row["protocol"]
        self.kind = "connections" if "connections" in told else "bandwidth" if stream else "packets"
        if stream.isdigit():
            self.streams.add(stream)
        self.rows[int(row["start"]), stream] = {name: _amount(text) for name, text in told.items() if text}

    def _server_row(self, row: re.Match[str]) -> None:
        self.is_serving = True
        self.protocol = row["protocol"]
        self.kind = "bandwidth"
        stream = "SUM" if "SUM" in row["remote"] else row["remote"]
        second = sum(1 for _, name in self.rows if name == stream)
        told = {"bits": row["bits"], "packets": row["packets"] if row["protocol"] == "UDP" else None}
        self.rows[second, stream] = {n: _amount(text) for n, text in told.items() if text and text != "--"}

    def _remark(self, line: str) -> None:
        if (version := _VERSION.match(line)) is not None:
            self.version = "" if version["version"] == "UNKNOWN" else version["version"]
        elif (done := _DONE.match(line)) is not None:
            self.is_done, self.how = True, done["how"]
        elif (test := _LATENCY_TEST.match(line)) is not None:
            self.kind, self.count, self.size = "latency", int(test["count"]), int(test["size"])
        elif (pings := _PINGS.match(line)) is not None:
            self.kind, self.count = "ping", int(pings["count"])
        elif _FAILED.match(line):
            self.failure = self.failure or line.strip()
        elif line.startswith(("Listening on", "Accepting IP")):
            self.is_serving = True

    def take_json(self, line: str, number: int) -> None:
        """Add what a line of the log file tells."""
        told = json.loads(line)
        self.title = self.title or str(told.get("Title", ""))
        at = datetime.fromisoformat(str(told["Time"]))
        self.started_at = self.started_at or at
        if told["Type"] == "LatencyResult":
            self.protocol = str(told["Protocol"])
            self.kind = self.kind or "latency"
            self.latencies.append((number, self._latency(told)))
        elif told["Type"] == "TestResult":
            self._json_result(told)
        elif isinstance(message := told.get("Message"), str):
            self.take(message, number)

    def _latency(self, told: Mapping[str, str]) -> dict[str, Figure]:
        values = {name: _time(str(told[name])).value for name in _NAMES.values()}
        rising = [values[name] for name in ("P50", "P90", "P99", "P999", "P9999")]
        self.is_shifted = rising != sorted(rising)
        return {
            ours: _time(str(told[name])) for ours, name in (_SHIFTED if self.is_shifted else _NAMES).items()
        }

    def _json_result(self, told: Mapping[str, str]) -> None:
        """A second's result; a client has printed its own rows, which are in the log too."""
        if self.rows and not self.is_serving:
            return
        self.is_serving = True
        self.kind, self.protocol = "bandwidth", str(told["Protocol"])
        stream = "SUM" if "SUM" in str(told["RemoteAddr"]) else str(told["RemoteAddr"])
        second = sum(1 for _, name in self.rows if name == stream)
        named = {"bits": "BitsPerSecond", "packets": "PacketsPerSecond"}
        texts = {ours: str(told.get(name, "")).strip() for ours, name in named.items()}
        self.rows[second, stream] = {n: _amount(x) for n, x in texts.items() if _SIZES.fullmatch(x)}


def _amount(text: str) -> Figure:
    """`12.3G`, `12G` (12.0) or `875`."""
    found = _SIZES.fullmatch(text)
    if found is None:
        raise ValueError(f"no amount: {text[:20]!r}")
    scale = _SUFFIXES[found["suffix"]]
    if "." in found["number"]:
        return rounded(found["number"], scale)
    value = float(found["number"])
    slack = _TRIMMED if found["suffix"] else 0.0
    return times(Figure(value, value - slack, value + slack), scale)


def _time(text: str) -> Figure:
    """`63.120us` in µs."""
    found = _DURATION_PARTS.fullmatch(text)
    if found is None:
        raise ValueError(f"no time: {text[:20]!r}")
    return in_unit(found["number"], found["unit"], SECONDS, 1e6)


def _command_at(lines: Lines) -> Command | None:
    return command_in(lines.peek() or "", ("ethr",))


def begins(lines: Lines) -> bool:
    """Whether a test's version, destination or command line is next."""
    line = lines.peek() or ""
    return bool(_VERSION.match(line) or _DESTINATION.match(line)) or _command_at(lines) is not None


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """A test of a client, each line of latencies a run; or what a server saw."""
    first = lines.number + 1
    command = _command_at(lines)
    report = _Report(options_of(command.words, _GRAMMAR) if command is not None else {})
    report.is_serving = "s" in report.options
    if command is not None:
        lines.take()
    last = first
    while (line := own_line(lines, begins, report.wants)) is not None:
        report.take(line, lines.number)
        last = lines.number
    return _runs(report, command.text if command is not None else "", first, last)


def begins_json(lines: Lines) -> bool:
    """Whether a line of ethr's log file is next."""
    line = lines.peek() or ""
    return line.startswith('{"Time":"') and _JSON_LINE.match(line) is not None


def read_json(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The lines of one test in a log file, to which every test appends."""
    first = last = lines.number + 1
    report = _Report({})

    def is_own(line: str) -> bool:
        if not line.startswith('{"Time":"') or not _JSON_LINE.match(line):
            return False
        is_another = '"Message":"Using destination: ' in line and bool(report.rows or report.latencies)
        return not is_another and not (report.is_done and '"Message":"Hint: ' not in line)

    while (line := own_line(lines, begins, is_own)) is not None:
        last = lines.number
        report.take_json(line, last)
    return _runs(report, "", first, last)


def _runs(report: _Report, command: str, first: int, last: int) -> list[Run]:
    if report.latencies:
        begun = [first, *(number for number, _ in report.latencies[1:])]
        ends = [*(number for number, _ in report.latencies[:-1]), last]
        return [
            _of_latencies(report, command, told, lines)
            for (_, told), *lines in zip(report.latencies, begun, ends, strict=True)
        ]
    if report.is_serving and not report.rows:
        return []
    return [_of_rows(report, command, first, last)]


def _of_latencies(report: _Report, command: str, told: Mapping[str, Figure], lines: list[int]) -> Run:
    is_ping = report.kind == "ping" or report.options.get("t") == "pi"
    of = "connect" if is_ping else "latency"
    figures = {
        f"{of}_{name}_us": figure
        for name, figure in told.items()
        if name == "mean" or not report.count or report.count * (100 - _SHARES[name]) >= 100
    }
    sizes: dict[str, Level] = {}
    if report.size and not is_ping:
        sizes = {"request_size": report.size, "response_size": report.size}
    remarks = (
        ("ethr wrote its percentiles under shifted names: they are put right",) if report.is_shifted else ()
    )
    return Run(
        tool="ethr",
        version=report.version,
        first_line=lines[0],
        last_line=lines[1],
        workload=CONNECTIONS if is_ping else REQUESTS,
        factors={**sizes, "connections": 1, "direction": "forward"},
        figures=figures,
        started_at=report.started_at,
        told_by="sender",
        command=command,
        also=_also(report),
        remarks=remarks,
    )


def _of_rows(report: _Report, command: str, first: int, last: int) -> Run:
    workload = DATAGRAMS if report.protocol == "UDP" or report.options.get("p") == "udp" else STREAM
    if report.kind == "connections" or report.options.get("t") == "c":
        workload = CONNECTIONS
    is_reverse = "r" in report.options
    seconds = dict(_seconds(report))
    is_whole = bool(seconds) and (report.is_done or report.is_serving)
    factors: dict[str, Level] = {"direction": "reverse" if is_reverse else "forward"}
    count = len(report.streams) or int(report.options.get("n", "1") or 1)
    factors["connections" if workload == CONNECTIONS else "streams"] = count
    return Run(
        tool="ethr",
        version=report.version,
        first_line=first,
        last_line=last,
        workload=workload,
        factors=factors,
        figures=_figures(report, workload, seconds) if is_whole else {},
        intervals=tuple(_intervals(report, workload, seconds, REVERSE if is_reverse else FORWARD)),
        duration_s=float(len(seconds)) or None,
        started_at=report.started_at,
        told_by="receiver" if report.is_serving or is_reverse else "sender",
        command=command,
        also={**_also(report), **_untold(workload, seconds)},
        fault="" if is_whole else report.failure or CUT_OFF,
        remarks=tuple(_remarks(report, workload)),
    )


def _seconds(report: _Report) -> Iterable[tuple[int, dict[str, Figure]]]:
    """Each second, all streams together: as ethr sums them, else added up here."""
    for second in sorted({second for second, _ in report.rows}):
        told = {stream: row for (at, stream), row in report.rows.items() if at == second}
        rows = [told["SUM"]] if "SUM" in told else list(told.values())
        names = set(rows[0]).intersection(*rows)
        yield second, {name: total(row[name] for row in rows) for name in sorted(names)}


def _is_sending(report: _Report) -> bool:
    return not report.is_serving and "r" not in report.options


def _figures(report: _Report, workload: str, seconds: Mapping[int, dict[str, Figure]]) -> dict[str, Figure]:
    names = {"bits": "goodput_bps"} if workload == STREAM else {}
    if workload == DATAGRAMS:
        arrived = {"bits": "goodput_bps", "packets": "datagrams_received_per_s"}
        names = {"packets": "datagrams_sent_per_s"} if _is_sending(report) else arrived
    return {
        ours: mean(row[theirs] for row in seconds.values())
        for theirs, ours in names.items()
        if all(theirs in row for row in seconds.values())
    }


def _intervals(
    report: _Report, workload: str, seconds: Mapping[int, dict[str, Figure]], way: str
) -> Iterable[Interval]:
    """Of datagrams only a receiver's: a sender knows nothing of what arrived."""
    if workload == CONNECTIONS or (workload == DATAGRAMS and _is_sending(report)):
        return
    for second, row in seconds.items():
        if "bits" in row:
            yield Interval(float(second), second + 1.0, {"bytes": times(row["bits"], 1 / 8)}, way=way)


def _also(report: _Report) -> dict[str, str]:
    return {name: text for name, text in (("title", report.title), ("ended", report.how)) if text}


def _untold(workload: str, seconds: Mapping[int, dict[str, Figure]]) -> dict[str, str]:
    """Connections a second without a request, which no metric of ours counts."""
    rows = [row["connections"] for row in seconds.values() if "connections" in row]
    return {"Conn/s": f"{mean(rows).value:g}"} if workload == CONNECTIONS and rows else {}


def _remarks(report: _Report, workload: str) -> Iterable[str]:
    if workload == CONNECTIONS:
        yield "its connections carry no request: their rate is none of our metrics"
    elif workload == DATAGRAMS and _is_sending(report):
        yield "what arrived is not told"
    elif report.rows:
        yield "ethr tells no figure of the whole run: this is the mean of its seconds"
    if report.failure and report.rows:
        yield f"it says: {report.failure}"


READERS = (TextReader("ethr", begins_json, credibly(read_json)), TextReader("ethr", begins, credibly(read)))
