"""One thing that was looked at, and the line that says what was found."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

GOOD, LIMITED, MISSING = "ok", "limited", "missing"
_STYLES = {GOOD: "green", LIMITED: "yellow", MISSING: "red"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: str
    found: str
    fix: str = ""


def print_check(console: Console, check: Check) -> None:
    """A line with the state, and one below it with the fix where there is one."""
    line = Text(f"{check.name:<22} ")
    line.append(f"{check.state:<8}", style=_STYLES[check.state])
    line.append(check.found)
    console.print(line, soft_wrap=True)
    if check.fix:
        console.print(Text(f"{'':<31}{check.fix}"), soft_wrap=True)
