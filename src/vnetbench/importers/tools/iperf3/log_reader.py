"""What stands in a log of iperf3: text, events, and command lines with any of its forms after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vnetbench.importers.command_line import Command, command_in
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf3 import json_stream, line_patterns, text_report
from vnetbench.importers.tools.iperf3.json_document import after_command
from vnetbench.importers.tools.iperf3.options import PROGRAMS, asked_by, is_of_server

_BETWEEN = 3
"""Lines that may stand between a command line and its output: warnings, blank ones."""


def begins(lines: Lines) -> bool:
    """Whether a run begins with the next line, or a command line whose output follows."""
    line = lines.peek()
    return line is not None and (_is_output(lines, 0) or _command(lines) is not None)


def read(lines: Lines, begins_any: Callable[[Lines], bool]) -> list[Run]:
    """The run, or the test of a server, that begins with the next line."""
    command = _command(lines)
    if command is None:
        return _output(lines, begins_any, None)
    lines.take()
    first = lines.number
    while not _is_output(lines, 0) and not _is_document(lines, 0):
        lines.take()
    runs = _output(lines, begins_any, command)
    return [
        replace(run, first_line=first if number == 0 else run.first_line) for number, run in enumerate(runs)
    ]


def _output(lines: Lines, begins_any: Callable[[Lines], bool], command: Command | None) -> list[Run]:
    if json_stream.begins(lines):
        return json_stream.read(lines, begins_any, command)
    if command is not None and _is_document(lines, 0):
        return after_command(lines, begins_any, command)
    return text_report.read(lines, begins_any, command)


def _command(lines: Lines) -> Command | None:
    """The command line that the next line is, if output follows it."""
    command = command_in(lines.peek() or "", PROGRAMS)
    if command is None or not (asked_by(command) or is_of_server(command)):
        return None
    for ahead in range(1, _BETWEEN + 1):
        if _is_output(lines, ahead) or _is_document(lines, ahead):
            return command
        if command_in(lines.peek(ahead) or "", PROGRAMS):
            return None
    return None


def _is_output(lines: Lines, ahead: int) -> bool:
    line = lines.peek(ahead)
    if line is None:
        return False
    if line.rstrip().endswith(line_patterns.DASHES):
        return "Server listening on" in (lines.peek(ahead + 1) or "")
    return line_patterns.beginning_in(line) is not None or json_stream.is_event(line)


def _is_document(lines: Lines, ahead: int) -> bool:
    return (lines.peek(ahead) or "").startswith("{")
