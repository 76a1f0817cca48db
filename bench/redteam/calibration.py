"""How often each confidence word is right, and how much that depends on any single cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.redteam.intervals import format_share

WORDS = ("confirmed", "very likely", "likely", "possible")


@dataclass(frozen=True)
class NamedRun:
    """The first name of a run's explanation: whether it is right, for which cause or control."""

    cause: str
    word: str
    is_right: bool


def format_calibration(runs: Sequence[NamedRun]) -> Iterator[str]:
    """Yield a line for each word: the share that is right, and its range when any one cause is left out.

    Runs of one cause are alike. So a share that depends on a single cause is no calibration of the word.
    """
    for word in WORDS:
        own = [run for run in runs if run.word == word]
        line = f"  {word:44} {format_share(sum(run.is_right for run in own), len(own))}"
        shares = list(_shares_without_one_cause(own))
        yield f"{line}; without any one cause {min(shares):.0%} to {max(shares):.0%}" if shares else line


def _shares_without_one_cause(runs: Sequence[NamedRun]) -> Iterator[float]:
    for cause in sorted({run.cause for run in runs}):
        others = [run.is_right for run in runs if run.cause != cause]
        if others:
            yield sum(others) / len(others)
