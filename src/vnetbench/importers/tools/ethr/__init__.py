"""ethr: what its client and server print, and the JSON lines of its log file.

Source: `clientui.go`, `serverui.go`, `log.go`, `utils.go` of microsoft/ethr. K, M, G, T are of 1000; a
trailing `.0` is left out, so `12G` is 12.0. It tells no figure of a whole run: here it is the mean of its
seconds. In the log file latencies stand under shifted names: `emitLatencyResults` takes max before the
percentiles, `logLatency` takes it last, so `P50` is the largest, `P90` the median, … `Max` the 99.99 % point.
"""

from __future__ import annotations

from collections.abc import Callable

from vnetbench.importers.command_line import Command, command_in, options_of
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import TextReader
from vnetbench.importers.run_lines import own_line
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.ethr.report import DESTINATION, GRAMMAR, JSON_LINE, VERSION, Report
from vnetbench.importers.tools.ethr.run_builder import runs_of
from vnetbench.importers.validation import credibly


def _command_at(lines: Lines) -> Command | None:
    return command_in(lines.peek() or "", ("ethr",))


def begins(lines: Lines) -> bool:
    """Whether a test's version, destination or command line is next."""
    line = lines.peek() or ""
    return bool(VERSION.match(line) or DESTINATION.match(line)) or _command_at(lines) is not None


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """A test of a client, each line of latencies a run; or what a server saw."""
    first = lines.number + 1
    command = _command_at(lines)
    report = Report(options_of(command.words, GRAMMAR) if command is not None else {})
    report.is_serving = "s" in report.options
    if command is not None:
        lines.take()
    last = first
    while (line := own_line(lines, begins, report.wants)) is not None:
        report.take(line, lines.number)
        last = lines.number
    return runs_of(report, command.text if command is not None else "", first, last)


def begins_json(lines: Lines) -> bool:
    """Whether a line of ethr's log file is next."""
    line = lines.peek() or ""
    return line.startswith('{"Time":"') and JSON_LINE.match(line) is not None


def read_json(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The lines of one test in a log file, to which every test appends."""
    first = last = lines.number + 1
    report = Report({})

    def is_own(line: str) -> bool:
        if not line.startswith('{"Time":"') or not JSON_LINE.match(line):
            return False
        is_another = '"Message":"Using destination: ' in line and bool(report.rows or report.latencies)
        return not is_another and not (report.is_done and '"Message":"Hint: ' not in line)

    while (line := own_line(lines, begins, is_own)) is not None:
        last = lines.number
        report.take_json(line, last)
    return runs_of(report, "", first, last)


READERS = (TextReader("ethr", begins_json, credibly(read_json)), TextReader("ethr", begins, credibly(read)))
