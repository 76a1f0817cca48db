"""Scores of explanations: the named causes, compared with the causes that were produced."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.corpus.store import LabelledRun
from vnetbench.estimate.summarize import summarize
from vnetbench.explain.explain import explain
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME
from vnetbench.explain.model import Explanation
from vnetbench.results.file import ResultsFile

CONFIDENT = ("confirmed", "very likely")
"""Confidence words on which an engineer would act."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class NamedCause:
    """A cause that an explanation names."""

    cause: str
    confidence: str = ""
    is_fault: bool = False


@dataclass(frozen=True)
class ScoredRun:
    """A run and the causes that its explanation names, in their order."""

    run: LabelledRun
    named_causes: tuple[NamedCause, ...]

    @property
    def first_cause(self) -> NamedCause:
        """The first named cause, which is "unexplained" without any."""
        return self.named_causes[0] if self.named_causes else NamedCause(UNEXPLAINED_CAUSE_NAME)

    def names_accepted_cause(self, within: int) -> bool:
        """Return whether a correct cause is among the first `within` names; one of two causes suffices."""
        return bool(self.run.accepted_causes & self._first(within))

    def names_all_causes(self, within: int) -> bool:
        """Return whether all produced causes are among the first `within` names."""
        return set(self.run.causes) <= self._first(within)

    @property
    def is_confidently_wrong(self) -> bool:
        """Whether the first named cause is wrong and its confidence is high."""
        return (
            self.first_cause.confidence in CONFIDENT
            and self.first_cause.cause not in self.run.accepted_causes
        )

    @property
    def is_false_alarm(self) -> bool:
        """Whether the first named cause is a fault although the run has none."""
        return not self.run.has_fault and self.first_cause.is_fault

    @property
    def later_faults(self) -> tuple[NamedCause, ...]:
        """The faults after the first named cause."""
        return tuple(each for each in self.named_causes[1:] if each.is_fault)

    def _first(self, count: int) -> set[str]:
        return {each.cause for each in self.named_causes[:count]}


@dataclass(frozen=True)
class Proportion:
    """A proportion with its Wilson interval (Wilson, JASA 22(158), 1927)."""

    hits: int
    total: int

    @property
    def ratio(self) -> float:
        """The proportion from 0 to 1; 0 without observations."""
        return self.hits / self.total if self.total else 0.0

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the confidence interval; 0 to 1 without observations."""
        if not self.total:
            return 0.0, 1.0
        z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
        middle = (self.ratio + z**2 / (2 * self.total)) / (1 + z**2 / self.total)
        reach = z / (1 + z**2 / self.total)
        reach *= math.sqrt(self.ratio * (1 - self.ratio) / self.total + z**2 / (4 * self.total**2))
        return max(0.0, middle - reach), min(1.0, middle + reach)


def count_runs(runs: Sequence[ScoredRun], is_hit: Callable[[ScoredRun], bool]) -> Proportion:
    """Return the proportion of runs for which `is_hit` holds."""
    return Proportion(sum(map(is_hit, runs)), len(runs))


@dataclass(frozen=True)
class ScoreAim:
    """A target for a proportion of runs."""

    name: str
    limit: float
    is_minimum: bool
    """Whether the limit is a minimum; otherwise the proportion must be below it."""
    is_hit: Callable[[ScoredRun], bool]
    applies_to: Callable[[ScoredRun], bool]

    def measure(self, runs: Iterable[ScoredRun]) -> Proportion:
        """Return the proportion among the runs to which the target applies."""
        return count_runs([each for each in runs if self.applies_to(each)], self.is_hit)

    def verdict(self, share: Proportion) -> str:
        """Return "met" or "missed" by the whole interval if possible, otherwise by the proportion."""
        low, high = share.interval()
        if not share.total:
            return "no runs"
        if self._is_met(low) and self._is_met(high):
            return "met"
        if not self._is_met(low) and not self._is_met(high):
            return "missed"
        return f"{'met' if self._is_met(share.ratio) else 'missed'} by the proportion"

    def _is_met(self, value: float) -> bool:
        return value >= self.limit if self.is_minimum else value < self.limit


def _has_single_cause(scored_run: ScoredRun) -> bool:
    return len(scored_run.run.causes) == 1


def has_no_fault(scored_run: ScoredRun) -> bool:
    """Return whether the run has no fault."""
    return not scored_run.run.has_fault


AIMS = (
    ScoreAim(
        "right cause named first", 0.90, True, lambda each: each.names_accepted_cause(1), _has_single_cause
    ),
    ScoreAim(
        "right cause among the first two",
        0.97,
        True,
        lambda each: each.names_accepted_cause(2),
        _has_single_cause,
    ),
    ScoreAim(
        "wrong cause named with confidence",
        0.02,
        False,
        lambda each: each.is_confidently_wrong,
        lambda _: True,
    ),
    ScoreAim(
        "false alarm in runs without a fault", 0.03, False, lambda each: each.is_false_alarm, has_no_fault
    ),
)

ScoreMetric = tuple[str, Callable[[ScoredRun], bool]]
"""Name of a proportion, and a function that returns whether a run counts."""
STRICT_METRICS: tuple[ScoreMetric, ...] = (
    ("right cause named first", lambda each: each.names_accepted_cause(1)),
    ("by its own name first", lambda each: each.names_all_causes(1)),
    ("by its own name among the first two", lambda each: each.names_all_causes(2)),
)
"""Metrics for runs with one fault, without runs that have no fault, and without other accepted names
(`names_all_causes` accepts only the cause's own name)."""


def has_single_fault(scored_run: ScoredRun) -> bool:
    """Return whether the run has one cause, which is a fault."""
    return _has_single_cause(scored_run) and scored_run.run.has_fault


def score_run(run: LabelledRun) -> ScoredRun:
    """Explain a run and return its named causes.

    Raises:
        BenchError: The results file cannot be read.
    """
    file = ResultsFile.open_to_read(Path(run.path))
    try:
        return ScoredRun(run, named_causes(explain(summarize(file))))
    finally:
        file.close()


def named_causes(explanation: Explanation) -> tuple[NamedCause, ...]:
    """Return the causes that an explanation names, each once, in their order."""
    causes: dict[str, NamedCause] = {}
    for finding in explanation.findings:
        if finding.details.get("cause") == NO_LIMIT_CAUSE_NAME:
            causes.setdefault(NO_LIMIT_CAUSE_NAME, NamedCause(NO_LIMIT_CAUSE_NAME, "very likely"))
        if finding.kind == UNEXPLAINED_CAUSE_NAME:
            causes.setdefault(UNEXPLAINED_CAUSE_NAME, NamedCause(UNEXPLAINED_CAUSE_NAME))
        for candidate in finding.candidates:
            cause = candidate.cause
            causes.setdefault(cause.name, NamedCause(cause.name, candidate.confidence, cause.is_fault))
    return tuple(causes.values())


def count_confusions(runs: Sequence[ScoredRun]) -> tuple[list[str], list[str], dict[tuple[str, str], int]]:
    """Return the confusion matrix of runs with one cause.

    Returns:
        The produced causes, the causes named first, and the number of runs for each pair of both.
    """
    counts: dict[tuple[str, str], int] = {}
    for each in runs:
        if _has_single_cause(each):
            key = (each.run.causes[0], each.first_cause.cause)
            counts[key] = counts.get(key, 0) + 1
    produced, named = (sorted({key[position] for key in counts}) for position in (0, 1))
    # Correct names come first, on the diagonal.
    named = [name for name in produced if name in named] + [name for name in named if name not in produced]
    return produced, named, counts
