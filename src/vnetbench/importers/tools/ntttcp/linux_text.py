"""The text of ntttcp for Linux, of 1.3 and 1.4, from the console or from its `-O` file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from vnetbench.importers.command_line import Command, command_in
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import TextReader
from vnetbench.importers.runs import Figure, Interval, Run
from vnetbench.importers.tools.ntttcp.endpoint_report import LINUX, Told, difference, per_second, run_of
from vnetbench.importers.tools.ntttcp.options import (
    PROGRAMS,
    RECEIVER,
    SENDER,
    STRAY,
    Asked,
    asked_on_linux,
    comes_with_output,
    cpus_of,
    pacing,
    sent_in_one_call,
)
from vnetbench.importers.units import NUMBER, counted, rounded
from vnetbench.study.workloads import DATAGRAMS, STREAM

_VERSION = re.compile(r"NTTTCP for Linux (?P<version>\d[\w.]*)")
_MESSAGE = re.compile(r"\d\d:\d\d:\d\d (?P<kind>INFO|ERR |DBG ): (?P<text>.*)")
"""`22:36:42 INFO: test duration\t:10.36 seconds` (logger.c, PRINT_LOG)"""
_BEGINNING = re.compile(
    r"\d\d:\d\d:\d\d (?:INFO: (?:\d+ threads created|Test cycle time negotiated is"
    r"|Network activity progressing|Starting sender activity|main: set cpu affinity)"
    r"|DBG : user limits for|ERR : failed to connect to)"
)
"""What a run begins with where no version is told: in a file of `-O`, and after the first run of `-H`."""
_SIGNS = re.compile(rf"{_VERSION.pattern}|{_BEGINNING.pattern}")
_HINTS = ("INFO: ", "DBG : ", "ERR : ", "NTTTCP", "tttcp", "TTTcp")
_REAL_TIME = re.compile(rf"Real-time throughput: (?P<number>{NUMBER})(?P<unit>[KMG]?bps)")
"""Several on one line where a terminal was captured."""
_SETTING = re.compile(r"(?P<name>[a-z][\w /()-]+):+\t+ ?(?P<value>.*)")
"""`sender socket buffer (bytes):\t 131072`, of `-V` (parameter.c, print_flags)"""
_TOTAL = re.compile(rf"\s*(?P<name>[a-zA-Z][\w /()]*?)\s*:(?P<number>{NUMBER})\s*(?P<unit>\S*)\s*")
"""`\t throughput\t:23.65Gbps`, `cpu busy (all)\t:159.81%`"""
_CONNECTIONS = re.compile(r"(?P<number>\d+) connections tested")
_INTERRUPTED = re.compile(r"Interrupted by Ctrl\+C|Test was interrupted|sender side was interrupted")
_RULER = re.compile(r"-{20,}\s*$")

_BPS = {"bps": 1.0, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}
"""format_throughput(): powers of 1000."""
_WARM_UP_LINE_S = 0.5
"""THROUGHPUT_INTERVAL_U_SEC: how far apart the lines of the warm-up are."""
_SHORTEST_LINE_S, _LONGEST_LINE_S = 0.495, 0.75
"""Other lines come after 1000 sleeps of 500 µs, each of them longer by what the system needs to wake."""

_ALSO = (
    "total bytes", "retrans segs", "tx_packets", "rx_packets", "total", "interrupts/sec", "pkts/interrupt",
    "cpu cores", "cpu speed", "user", "system", "idle", "iowait", "softirq",
)  # fmt: skip
_TELLS_RETRANSMITS = (1, 4, 1)
"""From this version on (some of 1.4.0 did, too) `retrans segs` is always printed of TCP (util.c)."""


@dataclass
class _Reading:
    """A run while its lines are read."""

    first_line: int
    command: Command | None = None
    version: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    roles: set[str] = field(default_factory=set)
    warm_up: list[Figure] = field(default_factory=list)
    lines: list[Figure] = field(default_factory=list)
    """The real-time lines, in bits/s: of the warm-up, and after it."""
    has_begun: bool = False
    is_measured: bool = False
    totals: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Number and unit, by name."""
    connections: int | None = None
    error: str = ""
    is_interrupted: bool = False

    @property
    def is_whole(self) -> bool:
        return "cpu busy (all)" in self.totals


def begins(lines: Lines) -> bool:
    """Whether a run begins: with its command line, its version, or the first of its messages."""
    line = lines.peek() or ""
    if not any(hint in line for hint in _HINTS):
        return False
    return bool(_SIGNS.match(line)) or comes_with_output(lines, _SIGNS)


def read(lines: Lines, begins_any: Callable[[Lines], bool]) -> list[Run]:
    """The run that begins with the next line."""
    reading = _Reading(lines.number + 1)
    stray = 0
    while not reading.is_whole and (line := lines.peek()) is not None and stray < STRAY:
        if not _goes_on(reading, line) and begins_any(lines):
            break
        is_own = _take(reading, lines.take())
        stray = 0 if is_own or not line.strip() else stray + 1
    while reading.is_whole and _is_tail(lines.peek() or ""):
        _take(reading, lines.take())
    return [_run(reading, lines.number)]


def _goes_on(reading: _Reading, line: str) -> bool:
    """Whether a line that could begin a run is of this one."""
    if command_in(line, PROGRAMS):
        return reading.command is None and not reading.version and not reading.has_begun
    if _VERSION.match(line):
        return not reading.version and not reading.has_begun
    if _BEGINNING.match(line):
        return not (reading.has_begun and "Network activity" in line) and not reading.totals
    return False


def _is_tail(line: str) -> bool:
    """Whether a line is of what stands behind the last of the totals."""
    message = _MESSAGE.match(line)
    if message is None:
        return bool(_RULER.match(line))
    is_behind = message["text"].startswith(
        ("tcpi rtt", "Test cooldown", "Test cycle finished", "Error writing")
    )
    return is_behind or (message["kind"] == "DBG " and not _BEGINNING.match(line))


def _take(reading: _Reading, line: str) -> bool:
    """Takes a line; returns whether it is the run's own."""
    found = list(_REAL_TIME.finditer(line))
    reading.lines += [rounded(each["number"], _BPS[each["unit"]]) for each in found]
    # A terminal's line goes on with the next message where the one before had no end.
    text = line[found[-1].end() :].lstrip("\r") if found else line
    if message := _MESSAGE.match(text):
        _take_message(reading, message["kind"], message["text"])
        return True
    if version := _VERSION.match(line):
        reading.version = version["version"]
    elif setting := _SETTING.match(line):
        reading.settings[setting["name"]] = setting["value"].strip()
    elif line.startswith("***"):
        reading.roles.add(line.strip("* \r"))
    elif reading.command is None and (command := command_in(line, PROGRAMS)):
        reading.command = command
    else:
        return bool(found) or bool(_RULER.match(line))
    return True


def _take_message(reading: _Reading, kind: str, text: str) -> None:
    if kind == "ERR ":
        reading.error = text.strip()
    elif connections := _CONNECTIONS.match(text):
        reading.connections = int(connections["number"])
    elif text.startswith("Network activity progressing"):
        reading.has_begun = True
    elif text.startswith("Test warmup completed"):
        reading.warm_up, reading.lines = reading.lines, []
    elif text.startswith("Test run completed"):
        reading.is_measured = True
    elif _INTERRUPTED.search(text):
        # A receiver is told so of every sender that is done before it, too: then its load has ended.
        reading.is_interrupted = reading.is_interrupted or not reading.is_measured
    elif kind == "INFO" and (total := _TOTAL.fullmatch(text)):
        reading.totals.setdefault(total["name"], (total["number"], total["unit"]))


def _run(reading: _Reading, last_line: int) -> Run:
    totals, asked = reading.totals, _asked(reading)
    remarks: list[str] = []
    duration = totals.get("test duration", ("", ""))[0]
    duration_s = rounded(duration).value if duration else None
    omitted_s = asked.warm_up_s if asked.warm_up_s is not None else len(reading.warm_up) * _WARM_UP_LINE_S
    throughput = totals.get("throughput")
    told = Told(
        LINUX,
        reading.first_line,
        last_line,
        asked,
        reading.version,
        throughput_bps=rounded(throughput[0], _BPS[throughput[1]]) if throughput else None,
        datagram_bytes=asked.buffer_bytes if asked.end == SENDER else None,
        figures=_figures(totals, duration) if duration else {},
        also={name: "".join(totals[name]) for name in _ALSO if name in totals},
        duration_s=duration_s,
        omitted_s=omitted_s,
        intervals=_intervals(reading, duration_s, remarks),
        command=reading.command.text if reading.command else "",
        fault=_fault(reading),
    )
    return run_of(replace(told, remarks=tuple(remarks)))


def _fault(reading: _Reading) -> str:
    if reading.is_interrupted:
        return "interrupted"
    return "" if reading.is_whole else reading.error or "cut off"


def _asked(reading: _Reading) -> Asked:
    """By its command line, else by what `-V` prints, else by what only senders tell: connections."""
    asked = Asked()
    if reading.command:
        asked = asked_on_linux(reading.command)
    elif "protocol" in reading.settings:
        asked = _as_set(reading)
    elif reading.is_whole:
        asked = Asked(SENDER if reading.connections is not None else RECEIVER, _workload(reading))
    if reading.connections is not None:
        asked = replace(asked, end=SENDER, levels={**asked.levels, "streams": reading.connections})
    return asked


def _workload(reading: _Reading) -> str:
    """By what is printed of TCP only; empty where that tells nothing."""
    if "retrans segs" in reading.totals:
        return STREAM
    version = tuple(int(part) for part in reading.version.split(".") if part.isdigit())
    return DATAGRAMS if version >= _TELLS_RETRANSMITS else ""


def _as_set(reading: _Reading) -> Asked:
    settings = reading.settings
    end = SENDER if "sender role" in reading.roles else RECEIVER
    is_udp = settings["protocol"] == "UDP"
    length = _whole(settings.get(f"{end} socket buffer (bytes)", ""))
    levels: dict[str, object] = {"ip_version": 6 if settings.get("domain") == "IPv6" else 4}
    if end == SENDER:
        levels |= sent_in_one_call(is_udp, length) | pacing(settings.get("fq rate limit (bits/sec)", ""))
    cpu = settings.get("cpu affinity", "*")
    levels |= cpus_of(end, cpu if cpu.isdigit() else "any")
    warm_up = settings.get("test warm-up (sec)", "no")
    return Asked(end, DATAGRAMS if is_udp else STREAM, levels, length, float(_whole(warm_up) or 0))


def _whole(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 16 else None


def _figures(totals: Mapping[str, tuple[str, str]], duration: str) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    printed = {name: number for name, (number, _) in totals.items()}
    if {"idle", "iowait"} <= printed.keys():
        found["busy_percent"] = difference(100.0, rounded(printed["idle"]), rounded(printed["iowait"]))
    for theirs, ours in (("cpu busy (all)", "cpu_percent"), ("cycles/byte", "cycles_per_byte")):
        if theirs in printed:
            found[ours] = rounded(printed[theirs])
    if "retrans segs" in printed:
        found["retransmits_per_s"] = per_second(printed["retrans segs"], duration)
    if "rx_packets" in printed:
        found["packets_per_s"] = per_second(printed["rx_packets"], duration)
    if "tcpi rtt" in printed:
        found["rtt_us"] = counted(printed["tcpi rtt"])
    return found


def _intervals(reading: _Reading, duration_s: float | None, remarks: list[str]) -> tuple[Interval, ...]:
    """The real-time lines, which tell no times: those of a run share its time where they can fill it."""
    omitted = _spread(reading.warm_up, _WARM_UP_LINE_S, is_omitted=True)
    if not reading.lines or not duration_s:
        return omitted
    length_s = duration_s / len(reading.lines)
    if not _SHORTEST_LINE_S <= length_s <= _LONGEST_LINE_S:
        remarks.append("its real-time lines do not cover the run, so they are no samples")
        return omitted
    remarks.append(f"its real-time lines tell no times: each is taken as {length_s:.2f} s long")
    return omitted + _spread(reading.lines, length_s, is_omitted=False)


def _spread(rates: list[Figure], length_s: float, *, is_omitted: bool) -> tuple[Interval, ...]:
    def moved(rate: Figure) -> Figure:
        return Figure(*(x * length_s / 8 for x in (rate.value, rate.low, rate.high)))

    return tuple(
        Interval(at * length_s, (at + 1) * length_s, {"bytes": moved(rate)}, is_omitted=is_omitted)
        for at, rate in enumerate(rates)
    )


READERS = (TextReader(LINUX, begins, read),)
