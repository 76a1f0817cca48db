"""Read the text of NTttcp for Windows: 5.x, the tables of 3.0, and its line of totals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from vnetbench.importers.command_line import CommandLine, find_command_line
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import StartsRun, TextReader
from vnetbench.importers.runs import CUT_OFF_FAILURE, RoundedValue, Run
from vnetbench.importers.tools.ntttcp.endpoint_report import (
    WINDOWS,
    EndpointReport,
    build_run,
    rate_per_second,
)
from vnetbench.importers.tools.ntttcp.options import (
    MAX_CONSECUTIVE_FOREIGN_LINES,
    PROGRAMS,
    RECEIVER,
    SENDER,
    RequestedOptions,
    is_command_with_output_next,
    parse_windows_command,
    raw_write_size_level,
)
from vnetbench.importers.tools.ntttcp.windows_tables import TABLE_OPENING_PATTERN, WindowsTables
from vnetbench.importers.units import NUMBER_PATTERN, parse_rounded
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

_TIMESTAMP_PATTERN = r"(?:(?P<stamp>\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{1,2}:\d{1,2}) )?"
"""In front of each message of `-v`: month/day/year in every locale (PRINT_TIMESTAMPED_MSG)."""
_VERSION_LINE = re.compile(_TIMESTAMP_PATTERN + r"Copyright Version (?P<version>\d[\w.]*)")
_PROGRESS_LINE = re.compile(_TIMESTAMP_PATTERN + r"Network activity progressing\.\.\.")
_SUMMARY_LINE = re.compile(rf"Throughput\(Mbps\)\s*=\s*{NUMBER_PATTERN}")
"""`Throughput(Mbps)=9853.56 CPU=38.1% Cycles/Byte=1.48 Interrupts/Sec=22318`"""
_SUMMARY_VALUE_PATTERN = re.compile(
    rf"(?P<name>[A-Za-z][\w/().]*(?: [A-Za-z][\w/().]*)*)\s*=\s*(?P<value>{NUMBER_PATTERN})\s*%?"
)
_CHARACTERISTICS_HEADING = re.compile(r"Network Characteristics\s*+:?\s*+$", re.IGNORECASE)
_CHARACTERISTIC_LINE = re.compile(r"\s*(?P<name>[A-Za-z][^:=]{0,60}?)\s*[:=]\s*(?P<value>\S.{0,200}?)\s*$")
_TABLE_TITLE_PATTERN = re.compile(r"Throughput\(KB/s\)|Bytes\(MEG\)")
_FAILURE_LINE = re.compile(
    _TIMESTAMP_PATTERN + r"(?:Thread\s*\[?\d+\]?:?\s*)?ERROR: (?P<message>.+? failed.*)"
)
_OTHER_OUTPUT_PATTERN = re.compile(r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{1,2}:\d{1,2} |NOTE::")
_SETTING_PATTERN = re.compile(r"(?P<name>[a-z][A-Za-z0-9_]+)(?:\[\d+\])?: (?P<value>.*)")
"""`send_flag: 1` and the other settings that `-v` prints first (PrintFlags)."""
_FIRST_OUTPUT_PATTERN = re.compile(
    "|".join(
        f"(?:{each})"
        for each in (
            r"Copyright Version \d",
            r"(?<!INFO: )Network activity progressing\.\.\.",
            _SUMMARY_LINE.pattern,
            _TABLE_TITLE_PATTERN.pattern,
        )
    )
)
_HINT_WORDS = ("version", "network", "throughput", "bytes(meg)", "tttcp")

_COLUMN_TITLE_BY_SUMMARY_NAME = {
    "Throughput(Mbps)": "Throughput(Mbit/s)",
    "CPU": "Avg. CPU %",
    "Interrupts/Sec": "Intr(count/s)",
}
_BITS_PER_S_BY_COLUMN_TITLE = {"Throughput(Mbit/s)": 1e6, "Throughput(MB/s)": 8 * 2.0**20}
"""Bit/s of each unit. MB are 1024² bytes (ntttcp.c, BytesToMBytes)."""
_METRIC_BY_COLUMN_TITLE = {
    "Avg. CPU %": "busy_percent",
    "Cycles/Byte": "cycles_per_byte",
    "Intr(count/s)": "interrupts_per_s",
}
_OTHER_RESULT_COLUMN_TITLES = (
    "Bytes(MEG)", "Avg Frame Size", "Throughput(Buffers/s)", "Buffers", "DPCs(count/s)", "Pkts(num/DPC)",
    "Pkts(num/intr)", "Pkts(sent/intr)", "Pkts(recv/intr)", "Packets Sent", "Packets Received",
    "Retransmits", "Errors", "Avg latency (ns)", "Min latency (ns)", "Max latency (ns)",
)  # fmt: skip


@dataclass
class _WindowsRunReport:
    """The output of one run."""

    first_line: int
    command: CommandLine | None = None
    version: str = ""
    start_time_text: str = ""
    tables: WindowsTables = field(default_factory=WindowsTables)
    summary: dict[str, str] = field(default_factory=dict)
    network_characteristics: dict[str, str] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    failure: str = ""

    @property
    def is_complete(self) -> bool:
        return self.tables.is_complete or bool(self.summary)


class _RecordedLine(NamedTuple):
    is_own: bool
    """Whether the line is the run's own."""
    rest_of_other_run: str
    """What follows on the line and belongs to another run."""


def starts_run(lines: LogLines) -> bool:
    """Return whether a command line, a version, or the first table of a run is next."""
    line = lines.peek_line() or ""
    lower = line.lower()
    if not any(hint in lower for hint in _HINT_WORDS):
        return False
    if _FIRST_OUTPUT_PATTERN.search(line) or _CHARACTERISTICS_HEADING.match(line.strip()):
        return True
    return is_command_with_output_next(lines, _FIRST_OUTPUT_PATTERN)


def read_next_report(lines: LogLines, starts_any_run: StartsRun) -> list[Run]:
    """Return the run that starts with the next line."""
    report = _WindowsRunReport(lines.last_taken_number + 1)
    foreign, last_line = 0, lines.last_taken_number
    while (
        not report.is_complete
        and (line := lines.peek_line()) is not None
        and foreign < MAX_CONSECUTIVE_FOREIGN_LINES
    ):
        if _starts_next_run(report, line) or (
            not _start_line_belongs_to_run(report, line) and starts_any_run(lines)
        ):
            break
        is_own, rest = _record_line(report, lines.take_line())
        last_line = lines.last_taken_number
        foreign = 0 if is_own or not line.strip() else foreign + 1
        if rest.strip():
            lines.put_back_rest_of_line(rest)
            break
    while report.is_complete and _take_trailing_line(report, lines):
        last_line = lines.last_taken_number
    return [_build_run(report, last_line)]


def _start_line_belongs_to_run(report: _WindowsRunReport, line: str) -> bool:
    """Return whether a line that could start a run belongs to this one."""
    return bool(_FIRST_OUTPUT_PATTERN.search(line) or _CHARACTERISTICS_HEADING.match(line.strip())) or (
        report.command is None and not report.version and find_command_line(line, PROGRAMS) is not None
    )


def _starts_next_run(report: _WindowsRunReport, line: str) -> bool:
    """Return whether a line starts something that this run has already."""
    has_output = bool(report.version or report.tables.totals or report.tables.threads)
    if _VERSION_LINE.search(line) or find_command_line(line, PROGRAMS):
        return has_output or (report.command is not None and find_command_line(line, PROGRAMS) is not None)
    return bool(_TABLE_TITLE_PATTERN.search(line)) and "Thread" in line and bool(report.tables.threads)


def _record_line(report: _WindowsRunReport, line: str) -> _RecordedLine:
    """Record a line."""
    rest = report.tables.add_leading_tables_and_return_rest(line) if report.tables.is_open else None
    text = line if rest is None else rest
    if report.is_complete:
        return _RecordedLine(True, text)
    opening = None if _SUMMARY_LINE.search(text) else TABLE_OPENING_PATTERN.search(text)
    prose = text[: opening.start()] if opening else text
    is_own = _record_text(report, prose) or rest is not None
    if opening is None:
        return _RecordedLine(is_own, "")
    rest = report.tables.add_leading_tables_and_return_rest(text[opening.start() :])
    return _RecordedLine(True, rest or "" if report.is_complete else "")


def _record_text(report: _WindowsRunReport, text: str) -> bool:
    """Record text outside of tables. Return whether it is the run's own."""
    if (
        command := find_command_line(_FIRST_OUTPUT_PATTERN.split(text)[0], PROGRAMS)
    ) and report.command is None:
        report.command = command
        is_own = True
    else:
        is_own = not text.strip()
    if version := _VERSION_LINE.search(text):
        report.version, report.start_time_text = version["version"], version["stamp"] or ""
    progress = _PROGRESS_LINE.search(text)
    if progress and not report.start_time_text:
        report.start_time_text = progress["stamp"] or ""
    if failure := _FAILURE_LINE.search(text):
        report.failure = report.failure or failure["message"].strip()
    if flag := _SETTING_PATTERN.fullmatch(text.strip()):
        report.settings[flag["name"]] = flag["value"]
    if _CHARACTERISTICS_HEADING.match(text.strip()):
        report.network_characteristics = {}
        return True
    if _SUMMARY_LINE.search(text):
        report.summary = {pair["name"]: pair["value"] for pair in _SUMMARY_VALUE_PATTERN.finditer(text)}
        return True
    if report.network_characteristics is not None and (named := _CHARACTERISTIC_LINE.fullmatch(text)):
        report.network_characteristics[named["name"]] = named["value"]
        return True
    recognized = (version, progress, failure, flag, _OTHER_OUTPUT_PATTERN.match(text), "###" in text or None)
    return is_own or any(recognized)


def _take_trailing_line(report: _WindowsRunReport, lines: LogLines) -> bool:
    """Take the next line if it may follow a run's tables. Return whether it did."""
    offset = 0
    while (line := lines.peek_line(offset)) is not None and not line.strip() and offset < 3:
        offset += 1
    text = (line or "").strip()
    is_wanted = (
        (not report.summary and _SUMMARY_LINE.match(text))
        or (report.network_characteristics is None and _CHARACTERISTICS_HEADING.match(text))
        or (
            report.network_characteristics is not None
            and not offset
            and _matches_network_characteristic(text)
        )
        or text.startswith("NOTE::")
    )
    if not is_wanted:
        return False
    for _ in range(offset):
        lines.take_line()
    _record_text(report, lines.take_line())
    return True


def _matches_network_characteristic(text: str) -> bool:
    return bool(_CHARACTERISTIC_LINE.fullmatch(text)) and find_command_line(text, PROGRAMS) is None


def _build_run(report: _WindowsRunReport, last_line: int) -> Run:
    totals = {_COLUMN_TITLE_BY_SUMMARY_NAME.get(name, name): text for name, text in report.summary.items()}
    totals |= report.tables.totals
    requested = _find_requested_options(report)
    remarks: list[str] = []
    time_text = totals.get("realtime", "")
    endpoint_report = EndpointReport(
        WINDOWS,
        report.first_line,
        last_line,
        requested,
        report.version,
        throughput_bps=_find_throughput_bps(totals),
        datagram_bytes=_find_datagram_bytes(requested, report.tables, remarks),
        endpoint_values_by_name=_compute_endpoint_values(
            totals, time_text if not requested.has_datagrams else ""
        ),
        other_results=_collect_other_results(totals, report),
        duration_s=parse_rounded(time_text).value if time_text else None,
        omitted_s=requested.warm_up_s or 0.0,
        command=report.command.text if report.command else "",
        failure="" if report.is_complete else report.failure or CUT_OFF_FAILURE,
    )
    run = build_run(replace(endpoint_report, remarks=tuple(remarks)))
    return replace(run, started_at=_parse_timestamp(report.start_time_text))


def _find_requested_options(report: _WindowsRunReport) -> RequestedOptions:
    """Return the options from the command line or from the output.

    The output has settings with `-v`. The table of threads has their number.
    """
    requested = RequestedOptions()
    settings = report.settings
    if report.command:
        requested = parse_windows_command(report.command)
    elif {"send_flag", "udp_flag", "buffers_length"} <= settings.keys():
        endpoint, is_udp = SENDER if settings["send_flag"] == "1" else RECEIVER, settings["udp_flag"] == "1"
        length = int(settings["buffers_length"])
        levels: dict[str, object] = {"ip_version": 6 if settings.get("use_ipv6_flag") == "1" else 4}
        levels |= raw_write_size_level(is_udp, length) if endpoint == SENDER else {}
        warm_up_s = int(settings.get("warmup_time", "0")) / 1000
        requested = RequestedOptions(
            endpoint, UDP_STREAM if is_udp else TCP_STREAM, levels, length, warm_up_s
        )
    if report.tables.threads and "streams" not in requested.raw_level_by_factor:
        requested = replace(
            requested,
            raw_level_by_factor={**requested.raw_level_by_factor, "streams": len(report.tables.threads)},
        )
    return requested


def _find_throughput_bps(totals: dict[str, str]) -> RoundedValue | None:
    for name, scale in _BITS_PER_S_BY_COLUMN_TITLE.items():
        if name in totals:
            return parse_rounded(totals[name], scale)
    return None


def _compute_endpoint_values(
    totals: dict[str, str], retransmits_duration_text: str
) -> dict[str, RoundedValue]:
    """Return the values of one endpoint's machine. The text is empty if there are no retransmissions."""
    values = {
        ours: parse_rounded(totals[theirs])
        for theirs, ours in _METRIC_BY_COLUMN_TITLE.items()
        if theirs in totals
    }
    if "Retransmits" in totals and retransmits_duration_text:
        values["retransmits_per_s"] = rate_per_second(totals["Retransmits"], retransmits_duration_text)
    return values


def _collect_other_results(totals: dict[str, str], report: _WindowsRunReport) -> dict[str, str]:
    other_results = {name: totals[name] for name in _OTHER_RESULT_COLUMN_TITLES if name in totals}
    return other_results | {
        f"characteristic: {name}": text for name, text in (report.network_characteristics or {}).items()
    }


def _find_datagram_bytes(
    requested: RequestedOptions, tables: WindowsTables, remarks: list[str]
) -> int | None:
    """Return the size of a datagram, if every call sent or received exactly one buffer."""
    if not requested.has_datagrams or not requested.max_bytes_per_call:
        return None
    sizes = {parse_rounded(row["Avg B / Compl"]).value for row in tables.threads if "Avg B / Compl" in row}
    if sizes <= {float(requested.max_bytes_per_call)}:
        return requested.max_bytes_per_call
    remarks.append(
        "The calls sent or received other sizes than their buffer's, so the number of datagrams is unknown."
    )
    return None


def _parse_timestamp(timestamp_text: str) -> datetime | None:
    try:
        return datetime.strptime(timestamp_text, "%m/%d/%Y %H:%M:%S") if timestamp_text else None
    except ValueError:
        return None


READERS = (TextReader(WINDOWS, starts_run, read_next_report),)
