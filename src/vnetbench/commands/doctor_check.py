"""Result of one `doctor` check, and its output line."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

GOOD, LIMITED, MISSING = "ok", "limited", "missing"
_STYLE_BY_STATE = {GOOD: "green", LIMITED: "yellow", MISSING: "red"}


@dataclass(frozen=True)
class Check:
    """Result of one check: its state, the outcome in words and the fix."""

    name: str
    state: str
    outcome: str
    fix: str = ""


def print_check(console: Console, check: Check) -> None:
    """Print a line with the result, and a second line with the fix if there is one."""
    line = Text(f"{check.name:<22} ")
    line.append(f"{check.state:<8}", style=_STYLE_BY_STATE[check.state])
    line.append(check.outcome)
    console.print(line, soft_wrap=True)
    if check.fix:
        console.print(Text(f"{'':<31}{check.fix}"), soft_wrap=True)
