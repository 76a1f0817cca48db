"""Pick the lines of one run from a log that other programs write to as well."""

from __future__ import annotations

from collections.abc import Callable

from vnetbench.importers.log_lines import LogLines

MAX_CONSECUTIVE_FOREIGN_LINES = 8
"""Maximum lines of other programs between two lines of a run."""
MAX_FOREIGN_LINE_CHARACTERS = 2**16
"""A longer line ends the run, because foreign lines stay in memory until the next line of the run."""


def take_run_line(
    lines: LogLines,
    starts_any_run: Callable[[LogLines], bool],
    belongs_to_run: Callable[[str], object],
    max_consecutive_foreign_lines: int = MAX_CONSECUTIVE_FOREIGN_LINES,
) -> str | None:
    """Take and return the next line of the current run. Foreign lines in front of it are dropped.

    Returns None and takes nothing if another run starts first or too many foreign lines follow.
    """
    foreign: list[str] = []
    while (line := lines.peek_line()) is not None:
        if belongs_to_run(line):
            return lines.take_line()
        if (
            len(foreign) > max_consecutive_foreign_lines
            or len(line) > MAX_FOREIGN_LINE_CHARACTERS
            or starts_any_run(lines)
        ):
            break
        foreign.append(lines.take_line())
    for line in reversed(foreign):
        lines.put_back_rest_of_line(line)
    return None
