"""Problems of a study: each with its location and its fix, and all of them as one error."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable

_MAX_PRINTED_PROBLEMS = 50
"""Maximum problems that the error text of one study lists."""


class WrongValue(BenchError):
    """A value that a key or factor cannot have; the caller adds its location."""


@dataclass(frozen=True)
class Problem:
    """One thing to change in a study."""

    what: str
    where: str
    """`file:line`, or the `--set` argument."""
    fix: str
    study_line: int | None
    """Line of the study file, starting at 1; None for a problem of a `--set` argument."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n  fix: {self.fix}"


@dataclass(frozen=True)
class StudyLocation:
    """Location of a value in a study: a line of its file, or a `--set` argument (no line)."""

    where: str
    study_line: int | None = None

    def make_problem(self, what: str, *, fix: str) -> Problem:
        """Return a problem at this location."""
        return Problem(what, self.where, fix, self.study_line)

    def wrap_error(self, error: BenchError) -> Problem:
        """Return the error as a problem at this location."""
        return Problem(error.what, self.where, error.fix or "", self.study_line)


KeyLocator = Callable[..., StudyLocation]
"""Returns the location of a key, given its path: section, key and position in a list."""


class StudyError(BenchError):
    """All problems of a study in the order of its lines; `problems` is never empty."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.study_line or 10**9)
        self.problems: tuple[Problem, ...] = tuple(ordered)
        first = self.problems[0]
        super().__init__(first.what, where=first.where, fix=first.fix)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = [f"{len(self.problems)} problems in the study:"]
        lines += [str(problem) for problem in self.problems[:_MAX_PRINTED_PROBLEMS]]
        if len(self.problems) > _MAX_PRINTED_PROBLEMS:
            lines.append(f"and {len(self.problems) - _MAX_PRINTED_PROBLEMS} more")
        return "\n".join(lines)


def find_nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to `word`, ignoring case; None if none is similar."""
    by_lower = {choice.lower(): choice for choice in choices}
    # The time of a comparison grows with the length, and a long word is similar to no choice.
    close = difflib.get_close_matches(word.lower()[:64], by_lower, n=1, cutoff=0.55)
    return by_lower[close[0]] if close else None


def suggest_fix(word: str, choices: Iterable[str], *, otherwise: str) -> str:
    """Return a fix: "did you mean …?" if a choice is similar to `word`, followed by `otherwise`."""
    near = find_nearest(word, choices)
    return f'did you mean "{near}"? {otherwise}' if near else otherwise


def format_raw_value(raw: object) -> str:
    """Return a raw TOML value for an error message, short and without control characters."""
    match raw:
        case bool():
            return "true" if raw else "false"
        case str():
            text = make_printable(raw[:61])
            return f'"{text[:60]}…"' if len(raw) > 60 else f'"{text}"'
        case int():
            # Python raises an error for integers of more than 4300 decimal digits.
            return str(raw) if abs(raw) < 10**20 else "a number of more than 20 digits"
        case list():
            return "a list" if raw else "an empty list"
        case dict():
            return "a table"
        case datetime.datetime() | datetime.date() | datetime.time():
            return raw.isoformat()
    return str(raw)
