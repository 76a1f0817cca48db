"""uperf: the master's lines of transactions, its averages (`-a`), its raw samples (`-R`) and run statistics.

Source: `print.c`, `numbers.c`, `master.c`. KB, MB, GB are of 1024, Kb/s, Mb/s, Gb/s of 1000. Bytes and
operations count what is written and what is read alike: which of the two it was, only the averages tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from vnetbench.importers.arithmetic import over
from vnetbench.importers.command_line import Command, Grammar, command_in, options_of
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import TextReader
from vnetbench.importers.run_lines import CUT_OFF, own_line
from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval, Run
from vnetbench.importers.units import NUMBER, counted, rounded
from vnetbench.importers.validation import credibly
from vnetbench.study.model import Level
from vnetbench.study.workloads import REQUESTS, STREAM

_GRAMMAR = Grammar(
    valued={"-m": "profile", "-i": "interval", "-P": "port", "-X": "file", "-E": "events", "-S": "name"},
    switches={"-s": "slave", "-h": "help", "-V": "version", "-a": "averages", "-R": "raw"},
)
_STARTING = re.compile(
    r"Starting (?P<count>\d+) (?:threads|processes).*? running profile:(?P<profile>.*?) \.\.\."
)
"""`Starting 2 threads running profile:netperf ...   0.00 seconds`."""
_ROW = re.compile(
    rf"(?P<name>\S+)\s+(?P<data>{NUMBER}[KMGTP]?B?)\s*/\s*(?P<seconds>{NUMBER}) *\(s\) =\s+"
    rf"(?P<rate>{NUMBER}(?:[KMGTP]?b/s)?)\s+(?P<ops>\d+)(?:op|txn)/s"
)
"""`Txn2     5.46GB /  30.23(s) =     1.55Gb/s       83322op/s`; a row is printed over again as it grows."""
_RAW = re.compile(
    r"timestamp_ms:(?P<ms>\d+\.\d+) name:(?P<name>\S+) nr_bytes:(?P<bytes>\d+) nr_ops:(?P<ops>\d+)"
)
"""With -R: `timestamp_ms:1589482100127.3811 name:Txn2 nr_bytes:131072 nr_ops:2`, counted since Txn2 began."""
_AVERAGES = re.compile(r"(?P<of>Txn|Flowop)\s+Count\s+avg\s+cpu\s+max\s+min")
_AVERAGE = re.compile(
    rf"(?P<name>\w+)\s+(?P<count>\d+)\s+(?P<avg>{NUMBER}\w+)\s+{NUMBER}\w+\s+{NUMBER}\w+\s+{NUMBER}\w+"
)
_STATISTICS = re.compile(r"Hostname\s+Time\s+Data\s+Throughput\s+Operations\s+Errors")
_DIFFERENCE = re.compile(r"Difference\(%\)")
_HOST = re.compile(
    rf"(?P<host>\S+)\s+(?P<seconds>{NUMBER})s\s+(?P<data>{NUMBER}[KMGTP]?B?)\s+"
    rf"(?P<rate>{NUMBER}(?:[KMGTP]?b/s)?)\s+(?P<ops>\d+)\s+(?P<errors>{NUMBER})\s*$"
)
_OWN = re.compile(
    r"-{20,}$|Group Details|Strand Details|Run Statistics|Netstat statistics|Nic\s+opkts/s"
    r"|\w+(?:\s+\d+){2}(?:\s+\S+b/s){2}|Allocating shared memory|Waiting to exchange stats"
    r"|(?:Completed|Starting) handshake|Handshake phase|\s+(?:Done|Sending|Sent) |Sending \d+ slave_info_t"
    r"|TX worklist success"
)
"""Headings, rows of adapters (`eth0    81205    40602    9.77Gb/s    21.44Mb/s`), and the steps of `-v`."""
_FAILED = re.compile(
    r"\*\*\* Slave aborted! \*\*\*|WARNING: \d+ Errors detected during run|\*\* .*|[Ee]rror .*"
)
_TOTAL = "Total"
_SCALES = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_AMOUNT = re.compile(rf"(?P<number>{NUMBER})(?P<prefix>[KMGTP]?)(?P<unit>B|b/s)?")
_WRITES = ("write", "send", "sendfile", "sendfilev")
_READS = ("read", "recv")


@dataclass
class _Report:
    """What has been read of one run of the master."""

    options: Mapping[str, str]
    threads: int = 0
    profile: str = ""
    rows: dict[str, re.Match[str]] = field(default_factory=dict)
    """The last row of each transaction, and of `Total`."""
    raw: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Seconds and bytes since the beginning, of each transaction."""
    flowops: dict[str, int] = field(default_factory=dict)
    averages_of: str = ""
    is_listing_hosts: bool = False
    errors: str = ""
    is_closed: bool = False
    failure: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether its total is there."""
        return _TOTAL in self.rows or _TOTAL in self.raw or self.is_closed

    def wants(self, line: str) -> bool:
        """Whether a line is of this run."""
        if _STARTING.match(line):
            return not self.threads
        if self.is_closed:
            return False
        patterns = (_ROW, _RAW, _AVERAGES, _STATISTICS, _DIFFERENCE, _OWN, _FAILED)
        is_listed = bool(self.averages_of and _AVERAGE.match(line)) or bool(
            self.is_listing_hosts and _HOST.match(line)
        )
        return is_listed or any(pattern.match(line) for pattern in patterns)

    def take(self, line: str) -> None:
        """Add what a line tells."""
        if (starting := _STARTING.match(line)) is not None:
            self.threads, self.profile = int(starting["count"]), starting["profile"]
        elif (row := _ROW.match(line)) is not None:
            self.rows[row["name"]] = row
        elif (raw := _RAW.match(line)) is not None:
            self.raw.setdefault(raw["name"], []).append((float(raw["ms"]) / 1e3, int(raw["bytes"])))
        elif (averages := _AVERAGES.match(line)) is not None:
            self.averages_of = averages["of"]
        elif self.is_listing_hosts and (host := _HOST.match(line)) is not None:
            self.errors = host["errors"]
        elif self.averages_of and (average := _AVERAGE.match(line)) is not None:
            if self.averages_of == "Flowop":
                name = average["name"].lower()
                self.flowops[name] = self.flowops.get(name, 0) + int(average["count"])
        else:
            self._remark(line)

    def _remark(self, line: str) -> None:
        if _STATISTICS.match(line):
            self.is_listing_hosts, self.averages_of = True, ""
        elif _DIFFERENCE.match(line):
            self.is_closed = True
        elif _FAILED.match(line):
            self.failure = self.failure or line.strip(" *")


def _command_at(lines: Lines) -> Command | None:
    return command_in(lines.peek() or "", ("uperf",))


def begins(lines: Lines) -> bool:
    """Whether a master's first line, or its command line, is next."""
    line = lines.peek() or ""
    return (line.startswith("Starting ") and _STARTING.match(line) is not None) or _command_at(
        lines
    ) is not None


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The run of a master; none of a slave."""
    first = lines.number + 1
    command = _command_at(lines)
    report = _Report(options_of(command.words, _GRAMMAR) if command is not None else {})
    if command is not None:
        lines.take()
    last = first
    while (line := own_line(lines, begins, report.wants)) is not None:
        report.take(line)
        last = lines.number
    if {"slave", "help", "version"} & set(report.options):
        return []
    return [_run(report, command.text if command is not None else "", first, last)]


def _run(report: _Report, command: str, first: int, last: int) -> Run:
    writes = sum(report.flowops.get(name, 0) for name in _WRITES)
    reads = sum(report.flowops.get(name, 0) for name in _READS)
    is_requests = bool(writes and reads)
    is_reverse = bool(reads and not writes)
    way = REVERSE if is_reverse else FORWARD
    loaded = _loaded(report)
    factors: dict[str, Level] = {}
    if report.threads:
        factors["connections" if is_requests else "streams"] = report.threads
    is_known = bool(report.flowops) and loaded is not None
    return Run(
        tool="uperf",
        version="",
        first_line=first,
        last_line=last,
        workload=REQUESTS if is_requests else STREAM,
        factors={**factors, "direction": "reverse" if is_reverse else "forward"},
        figures=_figures(report, reads if is_requests else 0) if report.is_whole and is_known else {},
        intervals=tuple(_intervals(report, way)) if is_known and not is_requests else (),
        duration_s=_length(report),
        told_by="receiver" if is_reverse else "sender",
        command=command,
        also=_also(report, loaded),
        fault="" if report.is_whole else report.failure or CUT_OFF,
        remarks=tuple(_remarks(report, loaded)),
    )


def _loaded(report: _Report) -> str | None:
    """The transaction that carried the data: those before and after it connect and disconnect."""
    sizes = {name: _bytes(row["data"]).value for name, row in report.rows.items() if name != _TOTAL}
    sizes |= {name: float(samples[-1][1]) for name, samples in report.raw.items() if name != _TOTAL}
    return max(sizes, key=lambda name: sizes[name]) if sizes else None


def _length(report: _Report) -> float | None:
    name = _loaded(report)
    if name in report.rows:
        return float(report.rows[name]["seconds"])
    samples = report.raw.get(name or "", [])
    return samples[-1][0] - samples[0][0] if len(samples) > 1 else None


def _figures(report: _Report, requests: int) -> dict[str, Figure]:
    """Of the transaction that carried the data."""
    name, length = _loaded(report) or "", _length(report)
    if requests and length:
        return {"transactions_per_s": over(counted(str(requests)), Figure.exact(length))}
    if name in report.rows:
        return {"goodput_bps": _bits(report.rows[name]["rate"])}
    samples = report.raw.get(name, [])
    if length:
        return {"goodput_bps": Figure.exact(8 * (samples[-1][1] - samples[0][1]) / length)}
    return {}


def _intervals(report: _Report, way: str) -> Iterable[Interval]:
    """Of -R: between its samples of the transaction that carried the data."""
    samples = report.raw.get(_loaded(report) or "", [])
    for (start, before), (end, after) in pairwise(samples):
        if end > start and after >= before:
            began = samples[0][0]
            yield Interval(start - began, end - began, {"bytes": Figure.exact(after - before)}, way=way)


def _bytes(text: str) -> Figure:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"no amount: {text[:20]!r}")
    return rounded(found["number"], 1024.0 ** _SCALES[found["prefix"]])


def _bits(text: str) -> Figure:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"no rate: {text[:20]!r}")
    return rounded(found["number"], 1000.0 ** _SCALES[found["prefix"]])


def _also(report: _Report, loaded: str | None) -> dict[str, str]:
    also = {"profile": report.profile} if report.profile else {}
    for name, row in report.rows.items():
        if name not in (loaded, _TOTAL):
            continue
        also[name] = f"{row['data']} in {row['seconds']} s, {row['rate']}, {row['ops']} op/s"
    if report.errors:
        also["errors"] = f"{report.errors} %"
    return also


def _remarks(report: _Report, loaded: str | None) -> Iterable[str]:
    if not report.flowops:
        yield "whether bytes were written, read or both is not told without -a: no goodput is read off"
    elif loaded is not None:
        yield f"of {loaded}, which carried the data; Total counts connecting too"
        yield "whether over TCP or UDP is not told"
    if report.failure and report.is_whole:
        yield f"it says: {report.failure}"


READERS = (TextReader("uperf", begins, credibly(read)),)
