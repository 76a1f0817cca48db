"""What ethr tells of one test, read line by line from its text or its log file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.importers.arithmetic import times
from vnetbench.importers.command_line import Grammar
from vnetbench.importers.runs import Figure
from vnetbench.importers.units import SECONDS, in_unit, rounded

_VALUED = {
    f"-{name}": name for name in ("c", "x", "d", "g", "i", "l", "b", "n", "p", "t", "w", "o", "T", "port")
}
GRAMMAR = Grammar(
    valued=_VALUED, switches={f"-{name}": name for name in ("s", "r", "ui", "ncs", "debug", "4", "6")}
)
VERSION = re.compile(
    r"Ethr: Comprehensive Network Performance Measurement Tool \(Version: (?P<version>[^)]*)\)"
)
DESTINATION = re.compile(r"Using destination: ")
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
SHARES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9, "p99_99": 99.99}
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
JSON_LINE = re.compile(r'\{"Time":"[^"]*","Title":"[^"]*","Type":"')
_TRIMMED = 0.05
"""What may have been rounded away of a number whose `.0` is left out."""


@dataclass
class Report:
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
        if VERSION.match(line) or DESTINATION.match(line):
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
        if (version := VERSION.match(line)) is not None:
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
