"""Compare the search methods on simulated devices of known throughput: trial time, errors, wrong results.

All methods search the same devices with the same goals, and equal steps have equal counts. A result is wrong
if its error exceeds the requested width. `make bench-search` runs this; docs/search.md describes the devices
and quotes the results.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from rich.progress import track

from bench.simulated_devices import DEVICE_TYPES, SimulatedDevice, draw_device_model, true_throughput_fps
from vnetbench.search import bayesian, mlrsearch, rfc2544
from vnetbench.search.interface import (
    Device,
    GoalResult,
    SearchParameters,
    SearchResult,
    total_time_with_settling_s,
)

PARAMETERS = SearchParameters(
    goals=(0.0, 0.0001, 0.005),
    relative_width=0.01,
    min_load_fps=1e3,
    max_load_fps=1.5e7,
    step_s=1.0,
    time_limit_s=180.0,
)
FIRST_SEED = 80000
"""First seed of the comparison. It excludes all devices that were looked at during development."""

METHODS: Mapping[str, Callable[[Device, SearchParameters, int], SearchResult]] = {
    "rfc2544": rfc2544.search,
    "mlrsearch": mlrsearch.search,
    "mlrsearch, 7 steps per load": partial(
        mlrsearch.search, settings=mlrsearch.MlrSearchSettings(full_steps_to_decide_load=7)
    ),
    "mlrsearch, 3 steps per load": partial(
        mlrsearch.search, settings=mlrsearch.MlrSearchSettings(full_steps_to_decide_load=3)
    ),
    "vnetbench": bayesian.search,
}


RANDOM_STOPS_PER_SEARCH = 2
STOPS_AT_SHARES = (0.25, 0.5, 0.75)
"""Shares of the duration of a search after which its time left is compared with the actual one."""


@dataclass(frozen=True)
class EarlyStop:
    """The answer and the time left of a search that is stopped early."""

    at_share: float | None
    """Share of the search's duration, one of `STOPS_AT_SHARES`; None if the time is random."""
    covered: tuple[bool, ...]
    """Whether the true throughput is between low and high, for each goal."""
    expected_s: float
    """Time left as the search reports it."""
    actual_s: float
    """Time that the uninterrupted search took after the stop."""

    @property
    def is_time_within_factor_two(self) -> bool:
        """Whether the reported time left is between half and twice the actual one."""
        return self.actual_s / 2 <= self.expected_s <= self.actual_s * 2


@dataclass(frozen=True)
class Outcome:
    """Result of one method on one device; tuples have one entry per goal."""

    device_type: str
    trial_time_s: float
    step_count: int
    errors: tuple[float, ...]
    """Relative errors of the throughput; infinite if only one of result and true value is 0."""
    middle_errors: tuple[float, ...]
    """Relative errors of the geometric mean of low and high."""
    covered: tuple[bool, ...]
    """Whether the true throughput is between low and high."""
    early_stops: tuple[EarlyStop, ...] = ()
    """What the search would have answered earlier; for `vnetbench` only."""


def compare_methods(
    device_type: str,
    seed: int,
    methods: Sequence[str] = tuple(METHODS),
    parameters: SearchParameters = PARAMETERS,
) -> list[Outcome]:
    """Return the outcome of each method on the device of this type and seed, in the order of `methods`."""
    model = draw_device_model(device_type, seed)

    def true_throughputs(*search_time_s: float) -> list[float]:
        return [true_throughput_fps(model, parameters, goal, *search_time_s) for goal in parameters.goals]

    # Without drift, the true throughput does not depend on the duration of the search.
    constant_fps = None if model.drift else true_throughputs()
    outcomes = []
    for name in methods:
        device = SimulatedDevice(model, seed, parameters.settle_s)
        result = METHODS[name](device, parameters, seed)
        true_fps = constant_fps or true_throughputs(device.now_s)
        outcome = _evaluate_result(device_type, result, true_fps, parameters)
        if name == "vnetbench":
            stops = _stop_early(
                result, seed, parameters, lambda time_s: constant_fps or true_throughputs(time_s)
            )
            outcome = replace(outcome, early_stops=stops)
        outcomes.append(outcome)
    return outcomes


def main() -> None:
    """Print the tables, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=16, help="number of simulated devices of each type")
    parser.add_argument(
        "--first-seed", type=int, default=FIRST_SEED, help="seed of the first device of each type"
    )
    parser.add_argument("--device-type", action="append", choices=DEVICE_TYPES, help="default: all types")
    parser.add_argument("--processes", type=int, help="number of processes; the CPUs by default")
    options = parser.parse_args()
    tasks = [
        (device_type, options.first_seed + number)
        for number in range(options.devices)
        for device_type in options.device_type or DEVICE_TYPES
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        running = pool.map(compare_methods, *zip(*tasks, strict=True))
        outcomes = list(track(running, description="searching", total=len(tasks), transient=True))
    by_method = {name: [device[number] for device in outcomes] for number, name in enumerate(METHODS)}
    goals = ", ".join(f"{goal:.2%}" for goal in PARAMETERS.goals)
    print(
        f"{len(tasks)} devices; goals {goals}; width {PARAMETERS.relative_width:.0%}; "
        f"steps of {PARAMETERS.step_s:g} s; at most {PARAMETERS.time_limit_s:g} s per search; "
        f"trial time with {PARAMETERS.settle_s:g} s settling per step.\n"
    )
    _print_overall(by_method)
    print("\nTrial time, s: median (quartiles)\n")
    _print_by_device_type(by_method, _format_trial_times)
    print("\nWrong\n")
    _print_by_device_type(by_method, _format_wrong_share)
    print("\nTruth within low..high\n")
    _print_by_device_type(by_method, _format_coverage)
    print("\nvnetbench stopped early: truth within low..high at random times; time left in a factor of two\n")
    _print_early_stops(by_method["vnetbench"])


def _stop_early(
    result: SearchResult,
    seed: int,
    parameters: SearchParameters,
    true_throughputs: Callable[[float], list[float]],
) -> tuple[EarlyStop, ...]:
    """Return what a `vnetbench` search would have answered earlier.

    Args:
        result: The result of the uninterrupted search.
        seed: The seed of the device.
        parameters: The parameters of the search.
        true_throughputs: Returns the true throughputs for a duration of the search in seconds.

    Returns:
        Stops at `STOPS_AT_SHARES` of the duration, and at random times, uniform over the duration.
    """
    ends_s = np.cumsum([step.duration_s + parameters.settle_s for step in result.steps])
    if len(ends_s) < 2:
        return ()
    random_s = np.random.default_rng([seed, 1]).uniform(ends_s[0], ends_s[-1], RANDOM_STOPS_PER_SEARCH)
    moments: list[tuple[float | None, float]]
    moments = [(share, max(float(ends_s[0]), share * float(ends_s[-1]))) for share in STOPS_AT_SHARES]
    moments += [(None, float(stop_s)) for stop_s in random_s]
    search = bayesian.BayesianSearch(parameters, seed)
    stops = []
    for share, stop_s in sorted(moments, key=lambda moment: moment[1]):
        finished = int(np.searchsorted(ends_s, stop_s, side="right"))
        for step in result.steps[len(search.steps) : finished]:
            search.add_step(step)
        stops.append(
            EarlyStop(
                share,
                _are_covered(search.final_goal_results(), true_throughputs(stop_s)),
                search.expected_remaining_s(),
                float(ends_s[-1] - ends_s[finished - 1]),
            )
        )
    return tuple(stops)


def _evaluate_result(
    device_type: str, result: SearchResult, true_fps: Sequence[float], parameters: SearchParameters
) -> Outcome:
    goals = list(zip(result.goal_results, true_fps, strict=True))
    return Outcome(
        device_type,
        total_time_with_settling_s(result.steps, parameters.settle_s),
        len(result.steps),
        tuple(_relative_error(goal.throughput_fps, truth) for goal, truth in goals),
        tuple(_relative_error(_middle_fps(goal), truth) for goal, truth in goals),
        _are_covered(result.goal_results, true_fps),
    )


def _are_covered(goal_results: Sequence[GoalResult], true_fps: Sequence[float]) -> tuple[bool, ...]:
    """Return whether each true throughput is within its interval."""
    # The tolerance covers the relative error of the true value, some 1e-5.
    return tuple(
        goal.low_fps * 0.9999 <= truth <= goal.high_fps * 1.0001
        for goal, truth in zip(goal_results, true_fps, strict=True)
    )


def _middle_fps(goal: GoalResult) -> float:
    return math.sqrt(goal.low_fps * goal.high_fps)


def _relative_error(measured_fps: float, true_fps: float) -> float:
    if measured_fps == true_fps:
        return 0.0
    return abs(measured_fps / true_fps - 1) if true_fps and measured_fps else math.inf


def _print_overall(by_method: Mapping[str, Sequence[Outcome]]) -> None:
    print(
        "| method | trial time, s: median (quartiles) | mean | steps | error, median | wrong"
        " | wrong, by the middle | truth within low..high |\n|---|---|---|---|---|---|---|---|"
    )
    for name, outcomes in by_method.items():
        errors = [error for outcome in outcomes for error in outcome.errors]
        print(
            f"| {name} | {_format_trial_times(outcomes)}"
            f" | {np.mean([each.trial_time_s for each in outcomes]):.1f}"
            f" | {np.median([each.step_count for each in outcomes]):.0f} | {np.median(errors):.2%}"
            f" | {_format_wrong_share(outcomes)}"
            f" | {_format_share([_are_wrong(each.middle_errors) for each in outcomes])}"
            f" | {_format_coverage(outcomes)} |"
        )


def _print_by_device_type(
    by_method: Mapping[str, Sequence[Outcome]], format_cell: Callable[[Sequence[Outcome]], str]
) -> None:
    """Print a table with a row per device type and a column per method."""
    print("| device type | " + " | ".join(by_method) + " |\n|---|" + "---|" * len(by_method))
    for device_type in dict.fromkeys(each.device_type for each in next(iter(by_method.values()))):
        cells = [
            format_cell([each for each in outcomes if each.device_type == device_type])
            for outcomes in by_method.values()
        ]
        print(f"| {device_type} | " + " | ".join(cells) + " |")


def _print_early_stops(outcomes: Sequence[Outcome]) -> None:
    """Print the coverage at random earlier stops, and how often the time left is within a factor of two."""
    moments: tuple[float | None, ...] = (*STOPS_AT_SHARES, None)
    names = [f"at {moment:.0%}" if moment else "at random times" for moment in moments]
    print("| device type | truth within low..high | " + " | ".join(names) + " | all |")
    print("|---|---|" + "---|" * (len(moments) + 1))
    for device_type in (*dict.fromkeys(each.device_type for each in outcomes), None):
        chosen = [each for each in outcomes if device_type in (None, each.device_type) and each.early_stops]
        random_stops = [[stop for stop in each.early_stops if stop.at_share is None] for each in chosen]
        cells = [_format_share([[flag for stop in stops for flag in stop.covered] for stops in random_stops])]
        for some in ([moment] for moment in moments):
            cells.append(_format_share([_are_timely(each.early_stops, some) for each in chosen]))
        cells.append(_format_share([_are_timely(each.early_stops, moments) for each in chosen]))
        print(f"| {device_type or 'all'} | " + " | ".join(cells) + " |")


def _are_timely(stops: Sequence[EarlyStop], moments: Sequence[float | None]) -> list[bool]:
    """Return for each stop at these moments whether its time left is within a factor of two."""
    return [stop.is_time_within_factor_two for stop in stops if stop.at_share in moments]


def _format_trial_times(outcomes: Sequence[Outcome]) -> str:
    low, middle, high = np.quantile([outcome.trial_time_s for outcome in outcomes], (0.25, 0.5, 0.75))
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _format_wrong_share(outcomes: Sequence[Outcome]) -> str:
    return _format_share([_are_wrong(outcome.errors) for outcome in outcomes])


def _format_coverage(outcomes: Sequence[Outcome]) -> str:
    return _format_share([outcome.covered for outcome in outcomes])


def _are_wrong(errors: Sequence[float]) -> tuple[bool, ...]:
    return tuple(error > PARAMETERS.relative_width for error in errors)


def _format_share(flags: Sequence[Sequence[bool]]) -> str:
    """Format a share with its 95 % interval by a bootstrap over devices, whose goals are correlated."""
    per_device = np.mean(np.asarray(flags, dtype=float), axis=1)
    random = np.random.default_rng(0)
    resampled = random.choice(per_device, (2000, len(per_device))).mean(axis=1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    return f"{per_device.mean():.1%} ({low:.1%} to {high:.1%})"


if __name__ == "__main__":
    main()
