"""The lines that a tool wrote of one run, told from what else stands among them."""

from __future__ import annotations

from collections.abc import Callable

from vnetbench.importers.log_lines import Lines

CUT_OFF = "cut off"
"""The fault of a run whose last lines are missing."""
NOISE = 8
"""So many lines of something else may stand between two of a run: what another program says meanwhile."""


def own_line(
    lines: Lines, begins: Callable[[Lines], bool], is_own: Callable[[str], object], noise: int = NOISE
) -> str | None:
    """The tool's next line, taken with the noise before it.

    None where a run begins before one comes, or too much else stands there; then nothing has been taken.
    """
    dropped: list[str] = []
    while (line := lines.peek()) is not None:
        if is_own(line):
            return lines.take()
        if begins(lines) or len(dropped) > noise:
            break
        dropped.append(lines.take())
    for line in reversed(dropped):
        lines.put_back(line)
    return None
