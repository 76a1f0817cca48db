"""A comparison: each tool's best flags found by trial, then all tools in random order, round by round."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from bench.programs import RunFailed
from vnetbench.estimate.location import estimate
from vnetbench.estimate.model import Estimate

CALIBRATION_ROUNDS = 2
CONFIDENCE = 0.95
TRIES = 2

Figures = Mapping[str, float]
"""Of one run, by the measures' names."""
Calibration = Mapping[str, Mapping[str, Sequence[Figures]]]
"""For each tool that had a choice: flags to what its runs with them gave."""


@dataclass(frozen=True)
class Aim:
    """What is to be reached."""

    limit: float
    of_best_peer: bool = True
    """Whether `limit` is a multiple of the best peer's figure, or a figure itself."""


@dataclass(frozen=True)
class Measure:
    """One of the figures of a run."""

    name: str
    """With its unit, as the tables have it."""
    decimals: int
    higher_is_better: bool = True
    aim: Aim | None = None

    def best(self, values: Mapping[str, float]) -> str:
        """Whose value is the best."""
        return (max if self.higher_is_better else min)(values, key=lambda name: values[name])

    def meets(self, value: float) -> bool:
        """Whether a ratio, or a figure, is on the good side of the aim."""
        assert self.aim is not None
        return value >= self.aim.limit if self.higher_is_better else value <= self.aim.limit


@dataclass(frozen=True)
class Entrant:
    """One tool, and the flags among which it may have its best."""

    tool: str
    runs: Mapping[str, Callable[[], Figures]]
    """Flags as the tables show them, to what runs the tool with them; a run raises RunFailed."""
    is_ours: bool = False


@dataclass(frozen=True)
class Row:
    """What is compared. The first measure chooses the flags, and the best peer where it has no aim itself."""

    name: str
    title: str
    measures: tuple[Measure, ...]
    entrants: tuple[Entrant, ...]
    check: Callable[[Figures], str | None] = lambda figures: None
    """Why a tool with these medians is out of the comparison, though its figures are shown."""

    def runs(self, rounds: int) -> int:
        """How many runs it takes, at most."""
        calibrating = sum(len(e.runs) for e in self.entrants if len(e.runs) > 1)
        return CALIBRATION_ROUNDS * calibrating + rounds * len(self.entrants)


class Verdict(Enum):
    """Of an aim: whether the whole interval, or only the median, is on one side of it."""

    MET = "met"
    MET_BY_MEDIAN = "met by the median, not by the whole interval"
    MISSED_BY_MEDIAN = "missed by the median, not by the whole interval"
    MISSED = "missed"
    NO_PEER = "no peer to compare with"


@dataclass(frozen=True)
class Line:
    """What one tool reached in a row: a figure for each round, by measure."""

    tool: str
    flags: str
    is_ours: bool
    figures: Mapping[str, Sequence[float]]
    out: str | None = None
    """Why it is out of the comparison."""

    def median(self, measure: str) -> float:
        """Of the rounds."""
        return statistics.median(self.figures[measure])


@dataclass(frozen=True)
class Judged:
    """One aim of one of our lines."""

    measure: Measure
    ours: Line
    best: Line | None
    """The best peer; None where there is none, or the aim is a figure."""
    reached: Estimate | None
    verdict: Verdict


@dataclass(frozen=True)
class Outcome:
    """A row as measured."""

    name: str
    title: str
    measures: tuple[Measure, ...]
    rounds: int
    lines: tuple[Line, ...]
    calibration: Calibration
    remarks: tuple[str, ...]
    """Tools and flags that failed."""


def hold(row: Row, rounds: int, step: Callable[[str], None] = lambda what: None) -> Outcome:
    """Compare; `step` is told before each run what runs. A tool whose run fails twice is out, and named."""
    remarks: list[str] = []
    calibration = _calibrate(row, remarks, step)
    chosen = {
        entrant.tool: flags
        for entrant in row.entrants
        if (flags := _best_flags(row, entrant, calibration)) is not None
    }
    running = [entrant for entrant in row.entrants if entrant.tool in chosen]
    found: dict[str, list[Figures]] = {entrant.tool: [] for entrant in running}
    for _ in range(rounds):
        for entrant in random.sample(running, len(running)):
            step(f"{row.name}: {entrant.tool}")
            figures = _try(entrant, chosen[entrant.tool], remarks)
            if figures is None:
                running.remove(entrant)
                del found[entrant.tool]
            else:
                found[entrant.tool].append(figures)
    lines = tuple(_line(row, entrant, chosen[entrant.tool], found[entrant.tool]) for entrant in running)
    return Outcome(row.name, row.title, row.measures, rounds, lines, calibration, tuple(remarks))


def judge(outcome: Outcome) -> list[Judged]:
    """Every aim, for each of our lines."""
    return [
        _judge(measure, ours, _best_peer(outcome, measure))
        for measure in outcome.measures
        if measure.aim is not None
        for ours in outcome.lines
        if ours.is_ours
    ]


def ratio(ours: Line, other: Line, measure: str) -> Estimate:
    """Ours to the other's, round by round."""
    pairs = zip(ours.figures[measure], other.figures[measure], strict=True)
    return estimate([a / b for a, b in pairs], CONFIDENCE)


def _calibrate(
    row: Row, remarks: list[str], step: Callable[[str], None]
) -> dict[str, dict[str, list[Figures]]]:
    """For each tool that has a choice: flags to what its runs with them gave. Flags that fail are missing."""
    open_ = [(e, flags) for e in row.entrants if len(e.runs) > 1 for flags in e.runs]
    found: dict[str, dict[str, list[Figures]]] = {e.tool: {} for e, _ in open_}
    for _ in range(CALIBRATION_ROUNDS):
        for entrant, flags in random.sample(open_, len(open_)):
            step(f"{row.name}: {entrant.tool} {flags}")
            figures = _try(entrant, flags, remarks)
            if figures is None:
                open_.remove((entrant, flags))
                found[entrant.tool].pop(flags, None)
            else:
                found[entrant.tool].setdefault(flags, []).append(figures)
    return found


def _best_flags(row: Row, entrant: Entrant, calibration: Calibration) -> str | None:
    """The flags of the best run, for what else happens on a machine only slows; None where all failed.

    Flags of which no run would stay in the comparison are taken only where there are no others.
    """
    if len(entrant.runs) == 1:
        return next(iter(entrant.runs))
    runs = [(flags, run) for flags, runs in calibration[entrant.tool].items() for run in runs]
    if not runs:
        return None
    staying = [(flags, run) for flags, run in runs if row.check(run) is None]
    first = row.measures[0]
    best = max if first.higher_is_better else min
    return best(staying or runs, key=lambda flags_and_run: flags_and_run[1][first.name])[0]


def _try(entrant: Entrant, flags: str, remarks: list[str]) -> Figures | None:
    """A run, tried again when it fails; None, and a remark, when it fails again."""
    for left in reversed(range(TRIES)):
        try:
            return entrant.runs[flags]()
        except RunFailed as error:
            if not left:
                remarks.append(f"{entrant.tool} {flags}: {error}".replace("  ", " "))
    return None


def _line(row: Row, entrant: Entrant, flags: str, runs: Sequence[Figures]) -> Line:
    figures = {measure.name: tuple(run[measure.name] for run in runs) for measure in row.measures}
    out = row.check({name: statistics.median(values) for name, values in figures.items()})
    return Line(entrant.tool, flags, entrant.is_ours, figures, out)


def _best_peer(outcome: Outcome, measure: Measure) -> Line | None:
    peers = {line.tool: line for line in outcome.lines if not line.is_ours and line.out is None}
    if not peers:
        return None
    return peers[measure.best({tool: line.median(measure.name) for tool, line in peers.items()})]


def _judge(measure: Measure, ours: Line, best: Line | None) -> Judged:
    assert measure.aim is not None
    if not measure.aim.of_best_peer:
        reached = estimate(ours.figures[measure.name], CONFIDENCE)
        return Judged(measure, ours, None, reached, _verdict(measure, reached))
    if ours.out is not None:
        return Judged(measure, ours, best, None, Verdict.MISSED)
    if best is None:
        return Judged(measure, ours, None, None, Verdict.NO_PEER)
    reached = ratio(ours, best, measure.name)
    return Judged(measure, ours, best, reached, _verdict(measure, reached))


def _verdict(measure: Measure, reached: Estimate) -> Verdict:
    by_median = measure.meets(reached.value)
    ends = [measure.meets(end) for end in (reached.low, reached.high) if end is not None]
    if by_median:
        return Verdict.MET if all(ends) and ends else Verdict.MET_BY_MEDIAN
    return Verdict.MISSED if not any(ends) and ends else Verdict.MISSED_BY_MEDIAN
