"""Read iperf3's output from a log: text, events, and command lines followed by any of its formats."""

from __future__ import annotations

from dataclasses import replace

from vnetbench.importers.command_line import CommandLine, find_command_line
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import StartsRun
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf3 import json_stream, line_patterns, text_report
from vnetbench.importers.tools.iperf3.json_document import read_document_after_command
from vnetbench.importers.tools.iperf3.options import PROGRAMS, is_server_command, parse_client_command

_MAX_LINES_FROM_COMMAND_TO_OUTPUT = 3
"""Maximum lines between a command line and its output, such as warnings and blank lines."""


def starts_run(lines: LogLines) -> bool:
    """Return whether the next line starts a run, or is a command line that output follows."""
    line = lines.peek_line()
    return line is not None and (_is_text_output(lines, 0) or _peek_command_before_output(lines) is not None)


def read_next_report(lines: LogLines, starts_any_run: StartsRun) -> list[Run]:
    """Return the run, or the test of a server, that starts with the next line."""
    command = _peek_command_before_output(lines)
    if command is None:
        return _read_next_text_or_json(lines, starts_any_run, None)
    lines.take_line()
    first = lines.last_taken_number
    while not _is_text_output(lines, 0) and not _is_json_output(lines, 0):
        lines.take_line()
    runs = _read_next_text_or_json(lines, starts_any_run, command)
    return [
        replace(run, first_line=first if number == 0 else run.first_line) for number, run in enumerate(runs)
    ]


def _read_next_text_or_json(
    lines: LogLines, starts_any_run: StartsRun, command: CommandLine | None
) -> list[Run]:
    if json_stream.starts_run(lines):
        return json_stream.read_next_events(lines, starts_any_run, command)
    if command is not None and _is_json_output(lines, 0):
        return read_document_after_command(lines, starts_any_run, command)
    return text_report.read_next_text_report(lines, starts_any_run, command)


def _peek_command_before_output(lines: LogLines) -> CommandLine | None:
    """Return the command line in the next line, if output follows it."""
    command = find_command_line(lines.peek_line() or "", PROGRAMS)
    if command is None or not (parse_client_command(command) or is_server_command(command)):
        return None
    for ahead in range(1, _MAX_LINES_FROM_COMMAND_TO_OUTPUT + 1):
        if _is_text_output(lines, ahead) or _is_json_output(lines, ahead):
            return command
        if find_command_line(lines.peek_line(ahead) or "", PROGRAMS):
            return None
    return None


def _is_text_output(lines: LogLines, ahead: int) -> bool:
    line = lines.peek_line(ahead)
    if line is None:
        return False
    if line.rstrip().endswith(line_patterns.SERVER_WAIT_SEPARATOR):
        return "Server listening on" in (lines.peek_line(ahead + 1) or "")
    return line_patterns.find_start_line(line) is not None or json_stream.is_event(line)


def _is_json_output(lines: LogLines, ahead: int) -> bool:
    return (lines.peek_line(ahead) or "").startswith("{")
