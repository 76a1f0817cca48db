"""Read iperf3's `--json-stream`: one event per line."""

from __future__ import annotations

import re
from typing import Any

from vnetbench.importers.command_line import CommandLine
from vnetbench.importers.json_documents import parse_json
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import StartsRun
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf3.json_document import DocumentRunBuilder

_EVENT_LINE_START = re.compile(
    r'\s*\{\s*"event"\s*:\s*"(?P<name>start|interval|end|error|server_output_json|server_output_text)"'
)
_COOKIE_LINE_START = re.compile(r'\s*"cookie":\s*"(?P<cookie>\w+)"')
_MAX_LINES_TO_COOKIE = 2000
"""The cookie follows the connections: up to 128 streams in each direction, six lines each."""


def is_event(line: str) -> bool:
    """Return whether the line is an event of iperf3."""
    return line.lstrip().startswith('{"event"') and _EVENT_LINE_START.match(line) is not None


def starts_run(lines: LogLines) -> bool:
    """Return whether the next line is an event."""
    return is_event(lines.peek_line() or "")


def read_next_events(
    lines: LogLines, starts_any_run: StartsRun, command: CommandLine | None = None
) -> list[Run]:
    """Return the run of the next events. The document that `--json-stream-full-output` adds is skipped."""
    first = lines.last_taken_number + 1
    builder, rest, broken = DocumentRunBuilder({}), dict[str, Any](), list[int]()
    is_begun = False
    while (line := lines.peek_line()) is not None and (found := _EVENT_LINE_START.match(line)):
        if found["name"] == "start" and is_begun:
            break
        is_begun = True
        lines.take_line()
        try:
            data = parse_json(line)["data"]
        except (ValueError, KeyError):
            broken.append(lines.last_taken_number)
            continue
        if found["name"] == "start":
            builder = DocumentRunBuilder(data if isinstance(data, dict) else {})
        elif found["name"] == "interval":
            builder.collector.add(data if isinstance(data, dict) else {})
        else:
            rest[found["name"]] = data
        if found["name"] == "end":
            break
    builder.other_parts = rest
    if broken:
        builder.remarks.append(
            f"The log has {len(broken)} unreadable events. The first is on line {broken[0]}."
        )
    last = lines.last_taken_number
    if (lines.peek_line() or "").rstrip() == "{" and _is_cookie_ahead(lines, builder.start.get("cookie")):
        while (line := lines.peek_line()) is not None and line.rstrip() != "}":
            lines.take_line()
        if lines.peek_line() is not None:
            lines.take_line()
    return [builder.build_run(first, last, command)]


def _is_cookie_ahead(lines: LogLines, cookie: object) -> bool:
    """Return whether the document that follows belongs to the run with this cookie."""
    for ahead in range(_MAX_LINES_TO_COOKIE):
        if found := _COOKIE_LINE_START.match(lines.peek_line(ahead) or ""):
            return found["cookie"] == cookie
    return False
