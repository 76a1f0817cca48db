"""How right explanations are: what was named, held against what was put there."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.corpus.store import Labelled
from vnetbench.estimate.summarize import summarize
from vnetbench.explain.explain import explain
from vnetbench.explain.limits import NO_LIMIT, UNEXPLAINED
from vnetbench.explain.model import Explanation
from vnetbench.results.file import ResultsFile

CONFIDENT = ("confirmed", "very likely")
"""Certainties that an engineer would act on."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Named:
    """A cause as an explanation names it."""

    cause: str
    certainty: str = ""
    is_fault: bool = False


@dataclass(frozen=True)
class Judged:
    """One run: what was put into it, and what was named, first things first."""

    run: Labelled
    named: tuple[Named, ...]

    @property
    def first(self) -> Named:
        """What is named first; that it is not explained is an answer too."""
        return self.named[0] if self.named else Named(UNEXPLAINED)

    def has(self, within: int) -> bool:
        """Whether what was put there is among so many of the first names: of two causes either."""
        return bool(self.run.accepted & self._first(within))

    def has_all(self, within: int) -> bool:
        """The same of every cause that was put there."""
        return set(self.run.causes) <= self._first(within)

    @property
    def is_confidently_wrong(self) -> bool:
        """Whether the first name is another, and is said as if there were no doubt."""
        return self.first.certainty in CONFIDENT and self.first.cause not in self.run.accepted

    @property
    def is_false_alarm(self) -> bool:
        """Whether a fault is named first where nothing is wrong."""
        return not self.run.is_wrong and self.first.is_fault

    @property
    def faults_further_down(self) -> tuple[Named, ...]:
        """The faults that are named after the first name."""
        return tuple(each for each in self.named[1:] if each.is_fault)

    def _first(self, count: int) -> set[str]:
        return {each.cause for each in self.named[:count]}


@dataclass(frozen=True)
class Share:
    """So many of so many, with the interval of the share (Wilson, JASA 22(158), 1927)."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        """The share itself; 0 of nothing."""
        return self.hits / self.of if self.of else 0.0

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the share lies; all of 0 to 1 where there is nothing."""
        if not self.of:
            return 0.0, 1.0
        z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
        middle = (self.value + z**2 / (2 * self.of)) / (1 + z**2 / self.of)
        reach = z / (1 + z**2 / self.of)
        reach *= math.sqrt(self.value * (1 - self.value) / self.of + z**2 / (4 * self.of**2))
        return max(0.0, middle - reach), min(1.0, middle + reach)


def share(judged: Sequence[Judged], counts: Callable[[Judged], bool]) -> Share:
    """How many of these runs count."""
    return Share(sum(map(counts, judged)), len(judged))


@dataclass(frozen=True)
class Aim:
    """A share that is aimed at."""

    name: str
    limit: float
    is_least: bool
    """Whether it is to be reached, or else stayed below."""
    counts: Callable[[Judged], bool]
    among: Callable[[Judged], bool]

    def share(self, judged: Iterable[Judged]) -> Share:
        """The share among those runs that it is about."""
        return share([each for each in judged if self.among(each)], self.counts)

    def verdict(self, share: Share) -> str:
        """`met` or `missed` where the whole interval is on that side, else by the share alone."""
        low, high = share.interval()
        if not share.of:
            return "no runs"
        if self._is_met(low) and self._is_met(high):
            return "met"
        if not self._is_met(low) and not self._is_met(high):
            return "missed"
        return f"{'met' if self._is_met(share.value) else 'missed'} by the share"

    def _is_met(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value < self.limit


def _is_single(judged: Judged) -> bool:
    return len(judged.run.causes) == 1


def is_clean(judged: Judged) -> bool:
    """Whether nothing was wrong."""
    return not judged.run.is_wrong


AIMS = (
    Aim("right cause named first", 0.90, True, lambda each: each.has(1), _is_single),
    Aim("right cause among the first two", 0.97, True, lambda each: each.has(2), _is_single),
    Aim(
        "wrong cause named with confidence",
        0.02,
        False,
        lambda each: each.is_confidently_wrong,
        lambda _: True,
    ),
    Aim("false alarm where nothing is wrong", 0.03, False, lambda each: each.is_false_alarm, is_clean),
)

Figure = tuple[str, Callable[[Judged], bool]]
"""What is told of runs, and which of them count."""
STRICTER: tuple[Figure, ...] = (
    ("right cause named first", lambda each: each.has(1)),
    ("by its own name first", lambda each: each.has_all(1)),
    ("by its own name among the first two", lambda each: each.has_all(2)),
)
"""Of single causes where something is wrong: without the runs of which it is right to name no fault, and
without the other names that are accepted (`has_all` of one cause is that cause by its own name)."""


def is_single_fault(judged: Judged) -> bool:
    """Whether one cause was put there, and something is wrong."""
    return _is_single(judged) and judged.run.is_wrong


def judge(run: Labelled) -> Judged:
    """Explain a run's file, and see what is named; raises BenchError for one that cannot be read."""
    file = ResultsFile.open_to_read(Path(run.path))
    try:
        return Judged(run, named(explain(summarize(file))))
    finally:
        file.close()


def named(explanation: Explanation) -> tuple[Named, ...]:
    """The causes that an explanation names, each once, in its order."""
    found: dict[str, Named] = {}
    for finding in explanation.findings:
        if finding.details.get("cause") == NO_LIMIT:
            found.setdefault(NO_LIMIT, Named(NO_LIMIT, "very likely"))
        if finding.kind == UNEXPLAINED:
            found.setdefault(UNEXPLAINED, Named(UNEXPLAINED))
        for suspect in finding.candidates:
            cause = suspect.cause
            found.setdefault(cause.name, Named(cause.name, suspect.confidence, cause.is_fault))
    return tuple(found.values())


def confusion(judged: Sequence[Judged]) -> tuple[list[str], list[str], dict[tuple[str, str], int]]:
    """Causes put there, names given first, and how often each stood for each; of single causes."""
    counts: dict[tuple[str, str], int] = {}
    for each in judged:
        if _is_single(each):
            key = (each.run.causes[0], each.first.cause)
            counts[key] = counts.get(key, 0) + 1
    put, given = (sorted({key[place] for key in counts}) for place in (0, 1))
    # What was given for what was put there stands on the diagonal.
    given = [name for name in put if name in given] + [name for name in given if name not in put]
    return put, given, counts
