"""iperf3's `--json-stream`: an event a line, so that a run is read while it lasts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vnetbench.importers.command_line import Command
from vnetbench.importers.json_documents import parsed
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.iperf3.json_document import Telling

_EVENT = re.compile(
    r'\s*\{\s*"event"\s*:\s*"(?P<name>start|interval|end|error|server_output_json|server_output_text)"'
)
_FULL = re.compile(r'\s*"cookie":\s*"(?P<cookie>\w+)"')
_COOKIE_WITHIN = 2000
"""Lines: it stands behind the connections of up to 128 streams each way, six lines each."""


def is_event(line: str) -> bool:
    """Whether a line is an event of iperf3's."""
    return line.lstrip().startswith('{"event"') and _EVENT.match(line) is not None


def begins(lines: Lines) -> bool:
    """Whether the next line is an event."""
    return is_event(lines.peek() or "")


def read(lines: Lines, begins_any: Callable[[Lines], bool], command: Command | None = None) -> list[Run]:
    """The run of the next events; the document that `--json-stream-full-output` adds is left out."""
    first = lines.number + 1
    telling, rest, broken = Telling({}), dict[str, Any](), list[int]()
    is_begun = False
    while (line := lines.peek()) is not None and (found := _EVENT.match(line)):
        if found["name"] == "start" and is_begun:
            break
        is_begun = True
        lines.take()
        try:
            data = parsed(line)["data"]
        except (ValueError, KeyError):
            broken.append(lines.number)
            continue
        if found["name"] == "start":
            telling = Telling(data if isinstance(data, dict) else {})
        elif found["name"] == "interval":
            telling.course.take(data if isinstance(data, dict) else {})
        else:
            rest[found["name"]] = data
        if found["name"] == "end":
            break
    telling.rest = rest
    if broken:
        telling.remarks.append(
            f"events that were not understood: {len(broken)}, the first is line {broken[0]}"
        )
    last = lines.number
    if (lines.peek() or "").rstrip() == "{" and _is_same(lines, telling.start.get("cookie")):
        while (line := lines.peek()) is not None and line.rstrip() != "}":
            lines.take()
        if lines.peek() is not None:
            lines.take()
    return [telling.run(first, last, command)]


def _is_same(lines: Lines, cookie: object) -> bool:
    """Whether the document that comes next is of the run with that cookie."""
    for ahead in range(_COOKIE_WITHIN):
        if found := _FULL.match(lines.peek(ahead) or ""):
            return found["cookie"] == cookie
    return False
