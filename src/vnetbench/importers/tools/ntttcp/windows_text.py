"""The text of NTttcp for Windows: 5.x, the tables of 3.0, and its line of totals."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from vnetbench.importers.command_line import Command, command_in
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import TextReader
from vnetbench.importers.runs import Figure, Run
from vnetbench.importers.tools.ntttcp.endpoint_report import WINDOWS, Told, per_second, run_of
from vnetbench.importers.tools.ntttcp.options import (
    PROGRAMS,
    RECEIVER,
    SENDER,
    STRAY,
    Asked,
    asked_on_windows,
    comes_with_output,
    sent_in_one_call,
)
from vnetbench.importers.tools.ntttcp.windows_tables import OPENING, Tables
from vnetbench.importers.units import NUMBER, rounded
from vnetbench.study.workloads import DATAGRAMS, STREAM

_STAMP = r"(?:(?P<stamp>\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{1,2}:\d{1,2}) )?"
"""Before each message of `-v`: month/day/year in every locale (PRINT_TIMESTAMPED_MSG)."""
_VERSION = re.compile(_STAMP + r"Copyright Version (?P<version>\d[\w.]*)")
_PROGRESS = re.compile(_STAMP + r"Network activity progressing\.\.\.")
_SUMMARY = re.compile(rf"Throughput\(Mbps\)\s*=\s*{NUMBER}")
"""`Throughput(Mbps)=9853.56 CPU=38.1% Cycles/Byte=1.48 Interrupts/Sec=22318`"""
_PAIR = re.compile(rf"(?P<name>[A-Za-z][\w/().]*(?: [A-Za-z][\w/().]*)*)\s*=\s*(?P<value>{NUMBER})\s*%?")
_CHARACTERISTICS = re.compile(r"Network Characteristics\s*:?\s*$", re.IGNORECASE)
_CHARACTERISTIC = re.compile(r"\s*(?P<name>[A-Za-z][^:=]{0,60}?)\s*[:=]\s*(?P<value>\S.{0,200}?)\s*$")
_TABLE = re.compile(r"Throughput\(KB/s\)|Bytes\(MEG\)")
_FAILURE = re.compile(_STAMP + r"(?:Thread\s*\[?\d+\]?:?\s*)?ERROR: (?P<what>.+? failed.*)")
_CHATTER = re.compile(r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{1,2}:\d{1,2} |NOTE::")
_FLAG = re.compile(r"(?P<name>[a-z][A-Za-z0-9_]+)(?:\[\d+\])?: (?P<value>.*)")
"""`send_flag: 1` and the rest of what `-v` prints first (PrintFlags)."""
_SIGNS = re.compile(
    "|".join(
        f"(?:{each})"
        for each in (
            r"Copyright Version \d",
            r"(?<!INFO: )Network activity progressing\.\.\.",
            _SUMMARY.pattern,
            _TABLE.pattern,
        )
    )
)
_HINTS = ("version", "network", "throughput", "bytes(meg)", "tttcp")

_SUMMARY_NAMES = {
    "Throughput(Mbps)": "Throughput(Mbit/s)",
    "CPU": "Avg. CPU %",
    "Interrupts/Sec": "Intr(count/s)",
}
_THROUGHPUTS = {"Throughput(Mbit/s)": 1e6, "Throughput(MB/s)": 8 * 2.0**20}
"""Bits/s of each: MB are of 1024² bytes (ntttcp.c, BytesToMBytes)."""
_FIGURES = {
    "Avg. CPU %": "busy_percent",
    "Cycles/Byte": "cycles_per_byte",
    "Intr(count/s)": "interrupts_per_s",
}
_ALSO = (
    "Bytes(MEG)", "Avg Frame Size", "Throughput(Buffers/s)", "Buffers", "DPCs(count/s)", "Pkts(num/DPC)",
    "Pkts(num/intr)", "Pkts(sent/intr)", "Pkts(recv/intr)", "Packets Sent", "Packets Received",
    "Retransmits", "Errors", "Avg latency (ns)", "Min latency (ns)", "Max latency (ns)",
)  # fmt: skip


@dataclass
class _Reading:
    """A run while its lines are read."""

    first_line: int
    command: Command | None = None
    version: str = ""
    stamp: str = ""
    tables: Tables = field(default_factory=Tables)
    summary: dict[str, str] = field(default_factory=dict)
    characteristics: dict[str, str] | None = None
    flags: dict[str, str] = field(default_factory=dict)
    failure: str = ""

    @property
    def is_whole(self) -> bool:
        return self.tables.is_whole or bool(self.summary)


def begins(lines: Lines) -> bool:
    """Whether a run begins: with its command line, its version, or the first of its tables."""
    line = lines.peek() or ""
    small = line.lower()
    if not any(hint in small for hint in _HINTS):
        return False
    if _SIGNS.search(line) or _CHARACTERISTICS.match(line.strip()):
        return True
    return comes_with_output(lines, _SIGNS)


def read(lines: Lines, begins_any: Callable[[Lines], bool]) -> list[Run]:
    """The run that begins with the next line."""
    reading = _Reading(lines.number + 1)
    stray, last_line = 0, lines.number
    while not reading.is_whole and (line := lines.peek()) is not None and stray < STRAY:
        if _is_another(reading, line) or (not _is_own(reading, line) and begins_any(lines)):
            break
        is_own, rest = _take(reading, lines.take())
        last_line = lines.number
        stray = 0 if is_own or not line.strip() else stray + 1
        if rest.strip():
            lines.put_back(rest)
            break
    while reading.is_whole and _take_tail(reading, lines):
        last_line = lines.number
    return [_run(reading, last_line)]


def _is_own(reading: _Reading, line: str) -> bool:
    """Whether a line that could begin a run goes on with this one."""
    return bool(_SIGNS.search(line) or _CHARACTERISTICS.match(line.strip())) or (
        reading.command is None and not reading.version and command_in(line, PROGRAMS) is not None
    )


def _is_another(reading: _Reading, line: str) -> bool:
    """Whether a line begins what this run has begun already."""
    has_output = bool(reading.version or reading.tables.totals or reading.tables.threads)
    if _VERSION.search(line) or command_in(line, PROGRAMS):
        return has_output or (reading.command is not None and command_in(line, PROGRAMS) is not None)
    return bool(_TABLE.search(line)) and "Thread" in line and bool(reading.tables.threads)


def _take(reading: _Reading, line: str) -> tuple[bool, str]:
    """Takes a line; returns whether it is the run's own, and the rest of it that is of another run."""
    rest = reading.tables.take(line) if reading.tables.is_open else None
    text = line if rest is None else rest
    if reading.is_whole:
        return True, text
    opening = None if _SUMMARY.search(text) else OPENING.search(text)
    prose = text[: opening.start()] if opening else text
    is_own = _take_prose(reading, prose) or rest is not None
    if opening is None:
        return is_own, ""
    rest = reading.tables.take(text[opening.start() :])
    return True, rest or "" if reading.is_whole else ""


def _take_prose(reading: _Reading, text: str) -> bool:
    """Takes what stands outside of tables; returns whether it is the run's own."""
    if (command := command_in(_SIGNS.split(text)[0], PROGRAMS)) and reading.command is None:
        reading.command = command
        is_own = True
    else:
        is_own = not text.strip()
    if version := _VERSION.search(text):
        reading.version, reading.stamp = version["version"], version["stamp"] or ""
    progress = _PROGRESS.search(text)
    if progress and not reading.stamp:
        reading.stamp = progress["stamp"] or ""
    if failure := _FAILURE.search(text):
        reading.failure = reading.failure or failure["what"].strip()
    if flag := _FLAG.fullmatch(text.strip()):
        reading.flags[flag["name"]] = flag["value"]
    if _CHARACTERISTICS.match(text.strip()):
        reading.characteristics = {}
        return True
    if _SUMMARY.search(text):
        reading.summary = {pair["name"]: pair["value"] for pair in _PAIR.finditer(text)}
        return True
    if reading.characteristics is not None and (named := _CHARACTERISTIC.fullmatch(text)):
        reading.characteristics[named["name"]] = named["value"]
        return True
    known = (version, progress, failure, flag, _CHATTER.match(text), "###" in text or None)
    return is_own or any(known)


def _take_tail(reading: _Reading, lines: Lines) -> bool:
    """Takes what of its own may stand behind a run's tables: its line of totals, its characteristics."""
    ahead = 0
    while (line := lines.peek(ahead)) is not None and not line.strip() and ahead < 3:
        ahead += 1
    text = (line or "").strip()
    is_wanted = (
        (not reading.summary and _SUMMARY.match(text))
        or (reading.characteristics is None and _CHARACTERISTICS.match(text))
        or (reading.characteristics is not None and not ahead and _is_characteristic(text))
        or text.startswith("NOTE::")
    )
    if not is_wanted:
        return False
    for _ in range(ahead):
        lines.take()
    _take_prose(reading, lines.take())
    return True


def _is_characteristic(text: str) -> bool:
    return bool(_CHARACTERISTIC.fullmatch(text)) and command_in(text, PROGRAMS) is None


def _run(reading: _Reading, last_line: int) -> Run:
    totals = {_SUMMARY_NAMES.get(name, name): text for name, text in reading.summary.items()}
    totals |= reading.tables.totals
    asked = _asked(reading)
    remarks: list[str] = []
    time_text = totals.get("realtime", "")
    told = Told(
        WINDOWS,
        reading.first_line,
        last_line,
        asked,
        reading.version,
        throughput_bps=_throughput(totals),
        datagram_bytes=_datagram_bytes(asked, reading.tables, remarks),
        figures=_figures(totals, time_text if asked.workload != DATAGRAMS else ""),
        also=_also(totals, reading),
        duration_s=rounded(time_text).value if time_text else None,
        omitted_s=asked.warm_up_s or 0.0,
        command=reading.command.text if reading.command else "",
        fault="" if reading.is_whole else reading.failure or "cut off",
    )
    run = run_of(replace(told, remarks=tuple(remarks)))
    return replace(run, started_at=_moment(reading.stamp))


def _asked(reading: _Reading) -> Asked:
    """By its command line, else by what `-v` prints; the number of threads by their table."""
    asked = Asked()
    flags = reading.flags
    if reading.command:
        asked = asked_on_windows(reading.command)
    elif {"send_flag", "udp_flag", "buffers_length"} <= flags.keys():
        end, is_udp = SENDER if flags["send_flag"] == "1" else RECEIVER, flags["udp_flag"] == "1"
        length = int(flags["buffers_length"])
        levels: dict[str, object] = {"ip_version": 6 if flags.get("use_ipv6_flag") == "1" else 4}
        levels |= sent_in_one_call(is_udp, length) if end == SENDER else {}
        warm_up_s = int(flags.get("warmup_time", "0")) / 1000
        asked = Asked(end, DATAGRAMS if is_udp else STREAM, levels, length, warm_up_s)
    if reading.tables.threads and "streams" not in asked.levels:
        asked = replace(asked, levels={**asked.levels, "streams": len(reading.tables.threads)})
    return asked


def _throughput(totals: dict[str, str]) -> Figure | None:
    for name, scale in _THROUGHPUTS.items():
        if name in totals:
            return rounded(totals[name], scale)
    return None


def _figures(totals: dict[str, str], time_text: str) -> dict[str, Figure]:
    """Those of one end's machine; `time_text` is empty where nothing can be sent again."""
    found = {ours: rounded(totals[theirs]) for theirs, ours in _FIGURES.items() if theirs in totals}
    if "Retransmits" in totals and time_text:
        found["retransmits_per_s"] = per_second(totals["Retransmits"], time_text)
    return found


def _also(totals: dict[str, str], reading: _Reading) -> dict[str, str]:
    also = {name: totals[name] for name in _ALSO if name in totals}
    return also | {f"characteristic: {name}": text for name, text in (reading.characteristics or {}).items()}


def _datagram_bytes(asked: Asked, tables: Tables, remarks: list[str]) -> int | None:
    """The size of a datagram, where every call moved as much as its buffer holds."""
    if asked.workload != DATAGRAMS or not asked.buffer_bytes:
        return None
    moved = {rounded(row["Avg B / Compl"]).value for row in tables.threads if "Avg B / Compl" in row}
    if moved <= {float(asked.buffer_bytes)}:
        return asked.buffer_bytes
    remarks.append("calls moved other sizes than their buffer's: how many datagrams there were is not known")
    return None


def _moment(stamp: str) -> datetime | None:
    try:
        return datetime.strptime(stamp, "%m/%d/%Y %H:%M:%S") if stamp else None
    except ValueError:
        return None


READERS = (TextReader(WINDOWS, begins, read),)
