"""What is wrong with a study: each problem with its place and its fix, and all of them together."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable

_MAX_PRINTED_PROBLEMS = 50
"""Problems printed of one study; a file with more is wrong as a whole."""


class WrongValue(BenchError):
    """A value that a key of the study cannot have; its place is added where it is known."""


@dataclass(frozen=True)
class Problem:
    """One thing to change in a study."""

    what: str
    where: str
    """`file:line`, or the `--set` argument."""
    fix: str
    line: int | None
    """Line of the study file, from 1; None for a problem of a `--set` argument."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n  fix: {self.fix}"


@dataclass(frozen=True)
class StudyLocation:
    """Where something in a study stands: a line of its file, or a `--set` argument (no line)."""

    where: str
    line: int | None = None

    def make_problem(self, error: BenchError) -> Problem:
        """What `error` says, as a problem of this place."""
        return Problem(error.what, self.where, error.fix or "", self.line)


class StudyError(BenchError):
    """Everything that is wrong with a study, in the order of its lines; `problems` is never empty."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 10**9)
        self.problems: tuple[Problem, ...] = tuple(ordered)
        first = self.problems[0]
        super().__init__(first.what, where=first.where, fix=first.fix)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = [f"{len(self.problems)} things in the study must change:"]
        lines += [str(problem) for problem in self.problems[:_MAX_PRINTED_PROBLEMS]]
        if len(self.problems) > _MAX_PRINTED_PROBLEMS:
            lines.append(f"and {len(self.problems) - _MAX_PRINTED_PROBLEMS} more")
        return "\n".join(lines)


def find_nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that `word` was most likely meant to be, case aside; None when nothing is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    # A long word is near to nothing, and comparing it would take time that grows with its length.
    close = difflib.get_close_matches(word.lower()[:64], by_lower, n=1, cutoff=0.55)
    return by_lower[close[0]] if close else None


def suggest(word: str, choices: Iterable[str], *, otherwise: str) -> str:
    """ "did you mean …?" before `otherwise` when a choice is near, else `otherwise` alone."""
    near = find_nearest(word, choices)
    return f'did you mean "{near}"? {otherwise}' if near else otherwise


def format_raw_value(raw: object) -> str:
    """A raw TOML value as a person would recognise it, short and without control characters."""
    match raw:
        case bool():
            return "true" if raw else "false"
        case str():
            text = make_printable(raw[:61])
            return f'"{text[:60]}…"' if len(raw) > 60 else f'"{text}"'
        case int():
            # Beyond 4300 digits Python refuses to write an integer in decimal.
            return str(raw) if abs(raw) < 10**20 else "a number of more than 20 digits"
        case list():
            return "a list" if raw else "an empty list"
        case dict():
            return "a table"
        case datetime.datetime() | datetime.date() | datetime.time():
            return raw.isoformat()
    return str(raw)
