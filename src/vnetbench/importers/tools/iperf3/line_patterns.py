"""The patterns of all lines of iperf3's text, in all of its versions (iperf_locale.c)."""

from __future__ import annotations

import re

from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.row_columns import SPACE, RowPattern

_SEPARATOR = "(?:- ){24}-"
_ROW_COLUMNS = r"""(?x:
    \[\ *+(?P<name>(?:\d{1,5}|SUM)(?:\]\[[TR]X-[CS])?)\]
    \ ++(?P<times>\d{1,9}\.\d\d-\d{1,9}\.\d\d)\ ++sec
    \ ++(?P<transfer>\d{1,9}(?:\.\d{1,9})?\ [KMGT]?Bytes)
    \ ++(?P<rate>[-\w.]{1,20})\ (?P<rate_unit>[KMGT]?(?:bits|Bytes))/sec\ *+
    (?:
        (?P<jitter>\d{1,9}\.\d{1,9})\ ms\ ++(?P<lost>-?\d{1,18}|Unknown)/(?P<total>-?\d{1,18})
            (?:\ \([^)]{1,20}\))?
      | (?P<count>\d{1,18})(?:\ ++(?P<cwnd>\d{1,9}(?:\.\d{1,9})?\ [KMGT]?Bytes))?
    )?
    \ *+)"""
ROW_PATTERN = re.compile(rf"{_ROW_COLUMNS}(?P<mark>\(omitted\)|sender|receiver)?\s*+$")
"""An interval, or a row of the summary:

    [  5]   0.00-1.00   sec  1.62 GBytes  13.9 Gbits/sec    0   3.12 MBytes       (omitted)
    [  5][RX-C]   0.00-1.00   sec   112 MBytes   943 Mbits/sec
    [SUM]   0.00-1.00   sec  2.38 MBytes  20.0 Mbits/sec  0.012 ms  0/1724 (0%)
    [  5]   0.00-1.00   sec  1.19 MBytes  10.0 Mbits/sec  862
    [  4]   0.00-10.00  sec  1.10 GBytes   941 Mbits/sec                  receiver

A prefix is allowed (`--timestamps`, `--title`, or a syslog's own)."""

_INTERVAL_COLUMNS = "(?:|.+?)" + re.sub(r"\(\?P<rate\w*>", "(?:", _ROW_COLUMNS).replace("|Unknown", "")
_RULE_BETWEEN_INTERVALS = rf"(?:|.+?){_SEPARATOR}{SPACE}*+(?=\n.*\[)(?!\n.*(?:\[ ID\]|Test Complete))"
INTERVAL_ROWS = RowPattern(rf"{_INTERVAL_COLUMNS}{SPACE}*+", _RULE_BETWEEN_INTERVALS)
"""Intervals without a mark, and the rules between them. A rule in front of a header starts the summary."""

OMITTED_ROWS = RowPattern(rf"{_INTERVAL_COLUMNS}\(omitted\){SPACE}*+", _RULE_BETWEEN_INTERVALS)
"""Intervals that iperf3 omits from its results, and the rules between them."""

VERSION_PATTERN = re.compile(
    r"\biperf (?:version )?(?P<version>3\.\d[\w.+-]*)(?: \((?:cJSON [\d.]+|\d+ \w+ \d+)\))?"
    r"|(?:^|(?<=\s))(?P<other_version>riperf3 \d[\w.+-]*)$"
)
"""`iperf 3.12`; `iperf 3.12 (cJSON 1.7.15)` of `--version`; `iperf version 3.0.1 (10 January 2014)`."""


def split_tool_and_version(printed_version: str) -> tuple[str, str]:
    """Return the tool and its version: `iperf 3.12` is iperf3's 3.12, `riperf3 0.8.0` riperf3's 0.8.0.

    riperf3 prints as iperf3 does, except for its version.
    """
    if printed_version.startswith("riperf3 "):
        return "riperf3", printed_version.removeprefix("riperf3 ")
    return "iperf3", VERSION_PATTERN.sub(r"\g<version>", printed_version)


START_LINE_PATTERNS_BY_NAME = {
    "version": VERSION_PATTERN.pattern,
    "listening": r"Server listening on \d+(?: \((?:test #\d+|[\da-fA-F.:]+)\))?",
    "connecting": r"Connecting to host \S+, port \d+",
    "accepted": r"Accepted connection from \S+, port \d+",
    "connected": r"\[ *\d+\] local (?P<address>\S+) port (?P<port>\d+) connected to (?P<remote>\S+ port \d+)",
    "header": r"\[ ID\](?P<roles>\[Role\])? Interval {11}Transfer {5}B(?:itrate|andwidth)(?P<columns>.*)",
    "error": r"\br?iperf3: (?P<error>(?:error|interrupt|SERVER ERROR|parameter error) - .*"
    r"|the (?:client|server) has .*|Server restart .* during .*|Client total requested .*"
    r"|(?:unrecognized|invalid) option .*|option requires .*|option '.*)",
}
"""Lines with which a run may start, in the order in which they follow each other."""

START_LINE_PATTERN = re.compile(
    f"(?:{'|'.join(f'(?P<is_{name}>{form})' for name, form in START_LINE_PATTERNS_BY_NAME.items())})\\s*$"
)
_START_HINTS = ("Connecting to host", "iperf", "Accepted conn", "Server listening", " connected to ", "[ ID]")
_JSON_LINE_STARTS = ("{", '"')
"""How lines of a JSON document start. Its `server_output_text` contains a whole log."""


def find_start_line(line: str) -> re.Match[str] | None:
    """Return the match of a line that may start a run.

    Called for every line of a log, so it tests for hints first.
    """
    if not any(mark in line for mark in _START_HINTS) or line.lstrip().startswith(_JSON_LINE_STARTS):
        return None
    return START_LINE_PATTERN.search(line)


def is_start_line_next(lines: LogLines, *start_line_names: str) -> bool:
    """Return whether one of these starts is next, or follows the title of the summary."""
    line = lines.peek_line() or ""
    if "Test Complete" in line:
        line = lines.peek_line(1) or ""
    start = find_start_line(line)
    return start is not None and start.lastgroup in start_line_names


SERVER_WAIT_SEPARATOR = "-" * 59
"""Rule around what a server prints while it waits."""

OTHER_LINE_PATTERNS_BY_NAME = {
    "separator": rf"{_SEPARATOR}$",
    "dashes": rf"(?<!-){SERVER_WAIT_SEPARATOR}$",
    "reverse": r"Reverse mode, remote host \S{1,300} is sending$",
    "done": r"(?:iperf Done|vnetbench iperf3 done)\.$",
    "servers_output": r"Server output:$",
    "servers_document": r"Server JSON output:$",
    "time": r"\bTime: (?P<time>\w{3}, \d+ \w{3} \d{4} [\d:]+ GMT)",
    "test": r"Starting Test: protocol: (?P<protocol>\w+), \d+ streams, (?P<block>\d+) byte blocks",
    "bit_rate": r"Target Bitrate: (?P<bit_rate>\d+)$",
    "cpu": r"CPU Utilization: local/\w+ (?P<local>[\d.]+)% \([^)]{1,60}\), remote/\w+ (?P<remote>[\d.]+)%",
    "congestion": r"snd_tcp_congestion (?P<congestion>\S+)$",
    "named_value": r"(?P<value_name>Cookie|Control connection MSS|TCP MSS|SNDBUF is|RCVBUF is"
    r"|rcv_tcp_congestion):? (?P<value>\d.*|\w+)$",
    "disorder": r"(?<!\d)(?P<disorder>\d++) datagrams received out-of-order$",
    "warning": r"^(?i:warning): (?P<warning>.*)$",
    "nothing": r"\[ *(?:\d+|SUM)\] \((?:sender|receiver) statistics not available\)$"
    r"|\[ *\d+\] Sent \d+ datagrams$|Test Complete\. Summary Results:$"
    r"|Finished omit period, starting real test$|Optional features available: .*"
    r"|OUT OF ORDER - |Sent +[\d.]+ [KMGT]?Byte / |\br?iperf3: exiting$",
    "broken": r"\[ *+(?:\d{1,5}|SUM)\](?:\[[TR]X-[CS]\])? ",
}
"""Other lines of a run: those of `-V`, the end of the output, and last the remains of a broken row."""

OTHER_LINE_PATTERN = re.compile(
    f"(?:{'|'.join(f'(?P<is_{name}>{form})' for name, form in OTHER_LINE_PATTERNS_BY_NAME.items())})"
)


def find_other_line(line: str) -> re.Match[str] | None:
    """Return the match of any other line of a run."""
    return OTHER_LINE_PATTERN.search(line.rstrip())


USAGE_LINE_PATTERN = re.compile(
    r"\s|$|Usage: |(?:Server or Client|Server specific|Client specific):$|\[KMG\]|iperf3 homepage at"
    r"|Report bugs to|Try `iperf3 --help'"
)
"""A line of the help that follows an invalid option."""
