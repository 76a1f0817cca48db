"""A comparison of tools: choose the best flags of each, then run all in random order in each round."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from bench.programs import RunFailed
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.model import Estimate

CALIBRATION_ROUNDS = 2
CONFIDENCE = 0.95
ATTEMPTS_PER_RUN = 2

RunValues = Mapping[str, float]
"""Values of one run, by the name of the measure."""
Calibration = Mapping[str, Mapping[str, Sequence[RunValues]]]
"""For each tool with several sets of flags: flags to the values of the runs with them."""


@dataclass(frozen=True)
class Aim:
    """A target for a measure."""

    limit: float
    is_relative: bool = True
    """Whether `limit` is a multiple of the best peer's value instead of a value."""


@dataclass(frozen=True)
class Measure:
    """A value that every run provides."""

    name: str
    """Name with the unit, as in the tables."""
    decimals: int
    higher_is_better: bool = True
    aim: Aim | None = None

    def best_name(self, values: Mapping[str, float]) -> str:
        """Return the name with the best value."""
        return (max if self.higher_is_better else min)(values, key=lambda name: values[name])

    def meets_aim(self, value: float) -> bool:
        """Return whether a ratio or a value meets the aim."""
        assert self.aim is not None
        return value >= self.aim.limit if self.higher_is_better else value <= self.aim.limit


@dataclass(frozen=True)
class Competitor:
    """A tool, with the sets of flags that it may use."""

    tool: str
    runs: Mapping[str, Callable[[], RunValues]]
    """Flags, as the tables show them, to a function that runs the tool once. It may raise RunFailed."""
    is_ours: bool = False


@dataclass(frozen=True)
class ComparisonSpec:
    """The definition of a comparison. The first measure chooses the flags of each tool."""

    name: str
    title: str
    measures: tuple[Measure, ...]
    competitors: tuple[Competitor, ...]
    exclusion_reason: Callable[[RunValues], str | None] = lambda values: None
    """Returns why a tool with these medians is excluded from the aims; its values are still shown."""

    def count_runs(self, rounds: int) -> int:
        """Return the maximum number of runs."""
        flag_sets = sum(len(each.runs) for each in self.competitors if len(each.runs) > 1)
        return CALIBRATION_ROUNDS * flag_sets + rounds * len(self.competitors)


class Verdict(Enum):
    """Whether an aim is met, by the whole interval or by the median only."""

    MET = "met"
    MET_BY_MEDIAN = "met by the median, not by the whole interval"
    MISSED_BY_MEDIAN = "missed by the median, not by the whole interval"
    MISSED = "missed"
    NO_PEER = "no peer to compare with"


@dataclass(frozen=True)
class CompetitorResult:
    """The result of one tool: a value for each round, by measure."""

    tool: str
    flags: str
    is_ours: bool
    values: Mapping[str, Sequence[float]]
    exclusion: str | None = None
    """Why the tool is excluded from the aims; None if it is not."""

    def median(self, measure: str) -> float:
        """Return the median of a measure over the rounds."""
        return statistics.median(self.values[measure])


@dataclass(frozen=True)
class AimResult:
    """The result of an aim for our own tool."""

    measure: Measure
    ours: CompetitorResult
    best_peer: CompetitorResult | None
    """The best peer; None if there is none, or if the aim is absolute."""
    estimate: Estimate | None
    verdict: Verdict


@dataclass(frozen=True)
class ComparisonResult:
    """The results of a comparison."""

    name: str
    title: str
    measures: tuple[Measure, ...]
    rounds: int
    results: tuple[CompetitorResult, ...]
    calibration: Calibration
    failures: tuple[str, ...]
    """Tools and flags that failed, with the reason."""


def run_comparison(
    spec: ComparisonSpec, rounds: int, report_step: Callable[[str], None] = lambda description: None
) -> ComparisonResult:
    """Run a comparison. A tool whose run fails twice is dropped and listed in `failures`.

    Args:
        spec: The comparison.
        rounds: The number of rounds.
        report_step: Called before each run with its description.
    """
    failures: list[str] = []
    calibration = _calibrate(spec, failures, report_step)
    chosen = {
        competitor.tool: flags
        for competitor in spec.competitors
        if (flags := _best_flags(spec, competitor, calibration)) is not None
    }
    active = [competitor for competitor in spec.competitors if competitor.tool in chosen]
    runs: dict[str, list[RunValues]] = {competitor.tool: [] for competitor in active}
    for _ in range(rounds):
        for competitor in random.sample(active, len(active)):
            report_step(f"{spec.name}: {competitor.tool}")
            values = _run_with_retry(competitor, chosen[competitor.tool], failures)
            if values is None:
                active.remove(competitor)
                del runs[competitor.tool]
            else:
                runs[competitor.tool].append(values)
    results = tuple(
        _competitor_result(spec, competitor, chosen[competitor.tool], runs[competitor.tool])
        for competitor in active
    )
    return ComparisonResult(
        spec.name, spec.title, spec.measures, rounds, results, calibration, tuple(failures)
    )


def evaluate_aims(result: ComparisonResult) -> list[AimResult]:
    """Return the results of all aims for our own tools."""
    return [
        _evaluate_aim(measure, ours, _best_peer(result, measure))
        for measure in result.measures
        if measure.aim is not None
        for ours in result.results
        if ours.is_ours
    ]


def round_ratios(ours: CompetitorResult, other: CompetitorResult, measure: str) -> Estimate:
    """Return the median of the ratios ours / other of each round."""
    pairs = zip(ours.values[measure], other.values[measure], strict=True)
    return estimate_median([a / b for a, b in pairs], CONFIDENCE)


def _calibrate(
    spec: ComparisonSpec, failures: list[str], report_step: Callable[[str], None]
) -> dict[str, dict[str, list[RunValues]]]:
    """Run each tool with each set of its flags. Flags that fail are absent from the result."""
    remaining = [
        (competitor, flags)
        for competitor in spec.competitors
        if len(competitor.runs) > 1
        for flags in competitor.runs
    ]
    calibration: dict[str, dict[str, list[RunValues]]] = {competitor.tool: {} for competitor, _ in remaining}
    for _ in range(CALIBRATION_ROUNDS):
        for competitor, flags in random.sample(remaining, len(remaining)):
            report_step(f"{spec.name}: {competitor.tool} {flags}")
            values = _run_with_retry(competitor, flags, failures)
            if values is None:
                remaining.remove((competitor, flags))
                calibration[competitor.tool].pop(flags, None)
            else:
                calibration[competitor.tool].setdefault(flags, []).append(values)
    return calibration


def _best_flags(spec: ComparisonSpec, competitor: Competitor, calibration: Calibration) -> str | None:
    """Return the flags of the best run, since disturbances only slow runs down; None if all failed.

    Flags whose runs would all be excluded are used only if there are no others.
    """
    if len(competitor.runs) == 1:
        return next(iter(competitor.runs))
    runs = [(flags, run) for flags, runs in calibration[competitor.tool].items() for run in runs]
    if not runs:
        return None
    eligible = [(flags, run) for flags, run in runs if spec.exclusion_reason(run) is None]
    first = spec.measures[0]
    best = max if first.higher_is_better else min
    return best(eligible or runs, key=lambda flags_and_run: flags_and_run[1][first.name])[0]


def _run_with_retry(competitor: Competitor, flags: str, failures: list[str]) -> RunValues | None:
    """Run a tool, up to `ATTEMPTS` times; None if every attempt fails."""
    for remaining_attempts in reversed(range(ATTEMPTS_PER_RUN)):
        try:
            return competitor.runs[flags]()
        except RunFailed as error:
            if not remaining_attempts:
                failures.append(f"{competitor.tool} {flags}: {error}".replace("  ", " "))
    return None


def _competitor_result(
    spec: ComparisonSpec, competitor: Competitor, flags: str, runs: Sequence[RunValues]
) -> CompetitorResult:
    values = {measure.name: tuple(run[measure.name] for run in runs) for measure in spec.measures}
    exclusion = spec.exclusion_reason({name: statistics.median(rounds) for name, rounds in values.items()})
    return CompetitorResult(competitor.tool, flags, competitor.is_ours, values, exclusion)


def _best_peer(result: ComparisonResult, measure: Measure) -> CompetitorResult | None:
    peers = {peer.tool: peer for peer in result.results if not peer.is_ours and peer.exclusion is None}
    if not peers:
        return None
    return peers[measure.best_name({tool: peer.median(measure.name) for tool, peer in peers.items()})]


def _evaluate_aim(measure: Measure, ours: CompetitorResult, best: CompetitorResult | None) -> AimResult:
    assert measure.aim is not None
    if not measure.aim.is_relative:
        estimate = estimate_median(ours.values[measure.name], CONFIDENCE)
        return AimResult(measure, ours, None, estimate, _verdict(measure, estimate))
    if ours.exclusion is not None:
        return AimResult(measure, ours, best, None, Verdict.MISSED)
    if best is None:
        return AimResult(measure, ours, None, None, Verdict.NO_PEER)
    estimate = round_ratios(ours, best, measure.name)
    return AimResult(measure, ours, best, estimate, _verdict(measure, estimate))


def _verdict(measure: Measure, estimate: Estimate) -> Verdict:
    bounds_meet_aim = [
        measure.meets_aim(bound) for bound in (estimate.low, estimate.high) if bound is not None
    ]
    if measure.meets_aim(estimate.value):
        return Verdict.MET if all(bounds_meet_aim) and bounds_meet_aim else Verdict.MET_BY_MEDIAN
    return Verdict.MISSED if not any(bounds_meet_aim) and bounds_meet_aim else Verdict.MISSED_BY_MEDIAN
