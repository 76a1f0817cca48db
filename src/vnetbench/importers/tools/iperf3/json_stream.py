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

_EVENT = re.compile(
    r'\s*\{\s*"event"\s*:\s*"(?P<name>start|interval|end|error|server_output_json|server_output_text)"'
)
_COOKIE = re.compile(r'\s*"cookie":\s*"(?P<cookie>\w+)"')
_COOKIE_SEARCH_LINES = 2000
"""The cookie follows the connections: up to 128 streams in each direction, six lines each."""


def is_event(line: str) -> bool:
    """Return whether the line is an event of iperf3."""
    return line.lstrip().startswith('{"event"') and _EVENT.match(line) is not None


def starts_run(lines: LogLines) -> bool:
    """Return whether the next line is an event."""
    return is_event(lines.peek() or "")


def read_runs(lines: LogLines, starts_run: StartsRun, command: CommandLine | None = None) -> list[Run]:
    """Return the run of the next events. The document that `--json-stream-full-output` adds is skipped."""
    first = lines.number + 1
    builder, rest, broken = DocumentRunBuilder({}), dict[str, Any](), list[int]()
    is_begun = False
    while (line := lines.peek()) is not None and (found := _EVENT.match(line)):
        if found["name"] == "start" and is_begun:
            break
        is_begun = True
        lines.take()
        try:
            data = parse_json(line)["data"]
        except (ValueError, KeyError):
            broken.append(lines.number)
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
        builder.remarks.append(f"Unreadable events: {len(broken)}, the first on line {broken[0]}.")
    last = lines.number
    if (lines.peek() or "").rstrip() == "{" and _has_cookie(lines, builder.start.get("cookie")):
        while (line := lines.peek()) is not None and line.rstrip() != "}":
            lines.take()
        if lines.peek() is not None:
            lines.take()
    return [builder.build_run(first, last, command)]


def _has_cookie(lines: LogLines, cookie: object) -> bool:
    """Return whether the document that follows belongs to the run with this cookie."""
    for ahead in range(_COOKIE_SEARCH_LINES):
        if found := _COOKIE.match(lines.peek(ahead) or ""):
            return found["cookie"] == cookie
    return False
