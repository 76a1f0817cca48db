"""Read the text of ntttcp for Linux 1.3 and 1.4, from the console or from its `-O` file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from vnetbench.importers.command_line import CommandLine, find_command_line
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import StartsRun, TextReader
from vnetbench.importers.runs import CUT_OFF_FAILURE, ReportInterval, RoundedValue, Run
from vnetbench.importers.tools.ntttcp.endpoint_report import (
    LINUX,
    EndpointReport,
    build_run,
    rate_per_second,
    subtract_from_whole,
)
from vnetbench.importers.tools.ntttcp.options import (
    MAX_CONSECUTIVE_FOREIGN_LINES,
    PROGRAMS,
    RECEIVER,
    SENDER,
    RequestedOptions,
    is_command_with_output_next,
    parse_linux_command,
    raw_cpu_label,
    raw_pacing_rate_level,
    raw_write_size_level,
)
from vnetbench.importers.units import (
    BPS_BY_ABBREVIATED_UNIT,
    NUMBER_PATTERN,
    parse_exact_count,
    parse_rounded,
)
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

_VERSION_LINE = re.compile(r"NTTTCP for Linux (?P<version>\d[\w.]*)")
_MESSAGE_LINE = re.compile(r"\d\d:\d\d:\d\d (?P<severity>INFO|ERR |DBG ): (?P<text>.*)")
"""`22:36:42 INFO: test duration\t:10.36 seconds` (logger.c, PRINT_LOG)"""
_FIRST_MESSAGE_LINE = re.compile(
    r"\d\d:\d\d:\d\d (?:INFO: (?:\d+ threads created|Test cycle time negotiated is"
    r"|Network activity progressing|Starting sender activity|main: set cpu affinity)"
    r"|DBG : user limits for|ERR : failed to connect to)"
)
"""The first message of a run without a version: in a file of `-O`, and after the first run of `-H`."""
_FIRST_OUTPUT_LINE = re.compile(rf"{_VERSION_LINE.pattern}|{_FIRST_MESSAGE_LINE.pattern}")
_HINT_WORDS = ("INFO: ", "DBG : ", "ERR : ", "NTTTCP", "tttcp", "TTTcp")
_REAL_TIME_THROUGHPUT_PATTERN = re.compile(
    rf"Real-time throughput: (?P<number>{NUMBER_PATTERN})(?P<unit>[KMG]?bps)"
)
"""A captured terminal has several on one line."""
_SETTING_PATTERN = re.compile(r"(?P<name>[a-z][\w /()-]+):+\t+ ?(?P<value>.*)")
"""`sender socket buffer (bytes):\t 131072`, of `-V` (parameter.c, print_flags)"""
_TOTAL_PATTERN = re.compile(
    rf"\s*(?P<name>[a-zA-Z](?:[\w/()]| ++(?=[\w/()]))*+)\s*+:(?P<number>{NUMBER_PATTERN})\s*(?P<unit>\S*)\s*"
)
"""`\t throughput\t:23.65Gbps`, `cpu busy (all)\t:159.81%`"""
_CONNECTION_COUNT_PATTERN = re.compile(r"(?P<number>\d+) connections tested")
_INTERRUPTION_PATTERN = re.compile(r"Interrupted by Ctrl\+C|Test was interrupted|sender side was interrupted")
_SEPARATOR_LINE = re.compile(r"-{20,}\s*$")

"""format_throughput() counts in powers of 1000."""
_WARM_UP_LINE_INTERVAL_S = 0.5
"""Time between the lines of the warm-up (THROUGHPUT_INTERVAL_U_SEC)."""
_MIN_REAL_TIME_LINE_INTERVAL_S, _MAX_REAL_TIME_LINE_INTERVAL_S = 0.495, 0.75
"""Time between other lines: 1000 sleeps of 500 µs, each longer by the time that the system needs to wake
up."""

_OTHER_RESULT_NAMES = (
    "total bytes", "retrans segs", "tx_packets", "rx_packets", "total", "interrupts/sec", "pkts/interrupt",
    "cpu cores", "cpu speed", "user", "system", "idle", "iowait", "softirq",
)  # fmt: skip
_MIN_RETRANSMIT_VERSION = (1, 4, 1)
"""From this version on (and in some 1.4.0) `retrans segs` is always printed for TCP (util.c)."""


class _PrintedTotal(NamedTuple):
    number: str
    unit: str


@dataclass
class _LinuxRunReport:
    """The output of one run."""

    first_line: int
    command: CommandLine | None = None
    version: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    roles: set[str] = field(default_factory=set)
    warm_up_line_rates_bps: list[RoundedValue] = field(default_factory=list)
    real_time_line_rates_bps: list[RoundedValue] = field(default_factory=list)
    """Rates of the real-time lines after the warm-up. `warm_up_line_rates_bps` has those of the warm-up."""
    has_load_begun: bool = False
    has_measurement_ended: bool = False
    total_by_name: dict[str, _PrintedTotal] = field(default_factory=dict)
    tested_connection_count: int | None = None
    error: str = ""
    is_interrupted: bool = False

    @property
    def is_complete(self) -> bool:
        return "cpu busy (all)" in self.total_by_name


def starts_run(lines: LogLines) -> bool:
    """Return whether a command line, a version, or the first message of a run is next."""
    line = lines.peek_line() or ""
    if not any(hint in line for hint in _HINT_WORDS):
        return False
    return bool(_FIRST_OUTPUT_LINE.match(line)) or is_command_with_output_next(lines, _FIRST_OUTPUT_LINE)


def read_next_report(lines: LogLines, starts_any_run: StartsRun) -> list[Run]:
    """Return the run that starts with the next line."""
    report = _LinuxRunReport(lines.last_taken_number + 1)
    foreign = 0
    while (
        not report.is_complete
        and (line := lines.peek_line()) is not None
        and foreign < MAX_CONSECUTIVE_FOREIGN_LINES
    ):
        if not _start_line_belongs_to_run(report, line) and starts_any_run(lines):
            break
        is_own = _record_line(report, lines.take_line())
        foreign = 0 if is_own or not line.strip() else foreign + 1
    while report.is_complete and _belongs_to_run_after_totals(lines.peek_line() or ""):
        _record_line(report, lines.take_line())
    return [_build_run(report, lines.last_taken_number)]


def _start_line_belongs_to_run(report: _LinuxRunReport, line: str) -> bool:
    """Return whether a line that could start a run belongs to this one."""
    if find_command_line(line, PROGRAMS):
        return report.command is None and not report.version and not report.has_load_begun
    if _VERSION_LINE.match(line):
        return not report.version and not report.has_load_begun
    if _FIRST_MESSAGE_LINE.match(line):
        return not (report.has_load_begun and "Network activity" in line) and not report.total_by_name
    return False


def _belongs_to_run_after_totals(line: str) -> bool:
    """Return whether a line belongs to what follows the totals."""
    message = _MESSAGE_LINE.match(line)
    if message is None:
        return bool(_SEPARATOR_LINE.match(line))
    is_behind = message["text"].startswith(
        ("tcpi rtt", "Test cooldown", "Test cycle finished", "Error writing")
    )
    return is_behind or (message["severity"] == "DBG " and not _FIRST_MESSAGE_LINE.match(line))


def _record_line(report: _LinuxRunReport, line: str) -> bool:
    """Record a line. Return whether it is the run's own."""
    rates = list(_REAL_TIME_THROUGHPUT_PATTERN.finditer(line))
    report.real_time_line_rates_bps += [
        parse_rounded(each["number"], BPS_BY_ABBREVIATED_UNIT[each["unit"]]) for each in rates
    ]
    # In a captured terminal the next message may follow on the same line.
    text = line[rates[-1].end() :].lstrip("\r") if rates else line
    if message := _MESSAGE_LINE.match(text):
        _add_message(report, message["severity"], message["text"])
        return True
    if version := _VERSION_LINE.match(line):
        report.version = version["version"]
    elif setting := _SETTING_PATTERN.match(line):
        report.settings[setting["name"]] = setting["value"].strip()
    elif line.startswith("***"):
        report.roles.add(line.strip("* \r"))
    elif report.command is None and (command := find_command_line(line, PROGRAMS)):
        report.command = command
    else:
        return bool(rates) or bool(_SEPARATOR_LINE.match(line))
    return True


def _add_message(report: _LinuxRunReport, severity: str, text: str) -> None:
    if severity == "ERR ":
        report.error = text.strip()
    elif connections := _CONNECTION_COUNT_PATTERN.match(text):
        report.tested_connection_count = int(connections["number"])
    elif text.startswith("Network activity progressing"):
        report.has_load_begun = True
    elif text.startswith("Test warmup completed"):
        report.warm_up_line_rates_bps, report.real_time_line_rates_bps = report.real_time_line_rates_bps, []
    elif text.startswith("Test run completed"):
        report.has_measurement_ended = True
    elif _INTERRUPTION_PATTERN.search(text):
        # A receiver prints this also for every sender that finishes first. Then its load has ended.
        report.is_interrupted = report.is_interrupted or not report.has_measurement_ended
    elif severity == "INFO" and (total := _TOTAL_PATTERN.fullmatch(text)):
        report.total_by_name.setdefault(total["name"], _PrintedTotal(total["number"], total["unit"]))


def _build_run(report: _LinuxRunReport, last_line: int) -> Run:
    totals, requested = report.total_by_name, _find_requested_options(report)
    remarks: list[str] = []
    duration = totals["test duration"].number if "test duration" in totals else ""
    duration_s = parse_rounded(duration).value if duration else None
    omitted_s = (
        requested.warm_up_s
        if requested.warm_up_s is not None
        else len(report.warm_up_line_rates_bps) * _WARM_UP_LINE_INTERVAL_S
    )
    throughput = totals.get("throughput")
    endpoint_report = EndpointReport(
        LINUX,
        report.first_line,
        last_line,
        requested,
        report.version,
        throughput_bps=parse_rounded(throughput.number, BPS_BY_ABBREVIATED_UNIT[throughput.unit])
        if throughput
        else None,
        datagram_bytes=requested.max_bytes_per_call if requested.endpoint == SENDER else None,
        endpoint_values_by_name=_compute_endpoint_values(totals, duration) if duration else {},
        other_results={name: "".join(totals[name]) for name in _OTHER_RESULT_NAMES if name in totals},
        duration_s=duration_s,
        omitted_s=omitted_s,
        intervals=_build_intervals(report, duration_s, omitted_s, remarks),
        command=report.command.text if report.command else "",
        failure=_find_failure(report),
    )
    return build_run(replace(endpoint_report, remarks=tuple(remarks)))


def _find_failure(report: _LinuxRunReport) -> str:
    if report.is_interrupted:
        return "interrupted"
    return "" if report.is_complete else report.error or CUT_OFF_FAILURE


def _find_requested_options(report: _LinuxRunReport) -> RequestedOptions:
    """Return the options from the command line, or else from the output.

    The output has settings with `-V`, and connections if it is that of a sender.
    """
    requested = RequestedOptions()
    if report.command:
        requested = parse_linux_command(report.command)
    elif "protocol" in report.settings:
        requested = _requested_options_from_settings(report)
    elif report.is_complete:
        requested = RequestedOptions(
            SENDER if report.tested_connection_count is not None else RECEIVER, _detect_workload(report)
        )
    if report.tested_connection_count is not None:
        requested = replace(
            requested,
            endpoint=SENDER,
            raw_level_by_factor={**requested.raw_level_by_factor, "streams": report.tested_connection_count},
        )
    return requested


def _detect_workload(report: _LinuxRunReport) -> str:
    """Return the workload, by what only TCP prints; empty if that does not decide it."""
    if "retrans segs" in report.total_by_name:
        return TCP_STREAM
    version = tuple(int(part) for part in report.version.split(".") if part.isdigit())
    return UDP_STREAM if version >= _MIN_RETRANSMIT_VERSION else ""


def _requested_options_from_settings(report: _LinuxRunReport) -> RequestedOptions:
    settings = report.settings
    endpoint = SENDER if "sender role" in report.roles else RECEIVER
    is_udp = settings["protocol"] == "UDP"
    length = _parse_integer(settings.get(f"{endpoint} socket buffer (bytes)", ""))
    levels: dict[str, object] = {"ip_version": 6 if settings.get("domain") == "IPv6" else 4}
    if endpoint == SENDER:
        levels |= raw_write_size_level(is_udp, length) | raw_pacing_rate_level(
            settings.get("fq rate limit (bits/sec)", "")
        )
    cpu = settings.get("cpu affinity", "*")
    levels |= raw_cpu_label(endpoint, cpu if cpu.isdigit() else "any")
    warm_up = settings.get("test warm-up (sec)", "no")
    return RequestedOptions(
        endpoint, UDP_STREAM if is_udp else TCP_STREAM, levels, length, float(_parse_integer(warm_up) or 0)
    )


def _parse_integer(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 16 else None


def _compute_endpoint_values(totals: Mapping[str, _PrintedTotal], duration: str) -> dict[str, RoundedValue]:
    values: dict[str, RoundedValue] = {}
    numbers = {name: number for name, (number, _) in totals.items()}
    if {"idle", "iowait"} <= numbers.keys():
        values["busy_percent"] = subtract_from_whole(
            100.0, parse_rounded(numbers["idle"]), parse_rounded(numbers["iowait"])
        )
    for theirs, ours in (("cpu busy (all)", "cpu_percent"), ("cycles/byte", "cycles_per_byte")):
        if theirs in numbers:
            values[ours] = parse_rounded(numbers[theirs])
    if "retrans segs" in numbers:
        values["retransmits_per_s"] = rate_per_second(numbers["retrans segs"], duration)
    if "rx_packets" in numbers:
        values["packets_per_s"] = rate_per_second(numbers["rx_packets"], duration)
    if "tcpi rtt" in numbers:
        values["rtt_us"] = parse_exact_count(numbers["tcpi rtt"])
    return values


def _build_intervals(
    report: _LinuxRunReport, duration_s: float | None, omitted_s: float, remarks: list[str]
) -> tuple[ReportInterval, ...]:
    """Return the real-time lines as intervals.

    They have no times, so they share the duration if they can fill it.
    """
    omitted = _make_intervals(report.warm_up_line_rates_bps, _WARM_UP_LINE_INTERVAL_S, is_omitted=True)
    if not report.real_time_line_rates_bps or not duration_s:
        return omitted
    length_s = duration_s / len(report.real_time_line_rates_bps)
    if not _MIN_REAL_TIME_LINE_INTERVAL_S <= length_s <= _MAX_REAL_TIME_LINE_INTERVAL_S:
        remarks.append("The real-time lines do not cover the run, so the run has no samples.")
        return omitted
    remarks.append(
        f"The real-time lines have no times, so vnetbench assumes that each line covers {length_s:.2f} s."
    )
    return omitted + _make_intervals(report.real_time_line_rates_bps, length_s, start_s=omitted_s)


def _make_intervals(
    rates_bps: list[RoundedValue], length_s: float, *, start_s: float = 0.0, is_omitted: bool = False
) -> tuple[ReportInterval, ...]:
    def scale_to_bytes(rate: RoundedValue) -> RoundedValue:
        return RoundedValue(*(x * length_s / 8 for x in (rate.value, rate.low, rate.high)))

    return tuple(
        ReportInterval(
            start_s + at * length_s,
            start_s + (at + 1) * length_s,
            {"bytes": scale_to_bytes(rate)},
            is_omitted=is_omitted,
        )
        for at, rate in enumerate(rates_bps)
    )


READERS = (TextReader(LINUX, starts_run, read_next_report),)
