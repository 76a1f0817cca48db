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
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.progress import track

from bench.simulated_devices import DEVICE_TYPES, SimulatedDevice, draw_device_model, true_throughput_fps
from vnetbench.search import bayesian, mlrsearch, rfc2544
from vnetbench.search.interface import Device, GoalResult, SearchParameters, SearchResult, total_time_s

ASKED = SearchParameters(
    goals=(0.0, 0.0001, 0.005),
    relative_width=0.01,
    min_load_fps=1e3,
    max_load_fps=1.5e7,
    step_s=1.0,
    time_limit_s=180.0,
)
FIRST_SEED = 9000
"""First seed of the comparison. The methods were developed on devices 0 to 19, which are not part of it."""

METHODS: Mapping[str, Callable[[Device, SearchParameters, int], SearchResult]] = {
    "rfc2544": rfc2544.search,
    "mlrsearch": mlrsearch.search,
    "mlrsearch, 7 steps a load": partial(
        mlrsearch.search, settings=mlrsearch.LibrarySettings(steps_per_load=7)
    ),
    "mlrsearch, 3 steps a load": partial(
        mlrsearch.search, settings=mlrsearch.LibrarySettings(steps_per_load=3)
    ),
    "vnetbench": bayesian.search,
}


@dataclass(frozen=True)
class Outcome:
    """Result of one method on one device; tuples have one entry per goal."""

    kind: str
    seconds: float
    steps: int
    errors: tuple[float, ...]
    """Relative errors of the throughput; infinite if only one of result and true value is 0."""
    middle_errors: tuple[float, ...]
    """Relative errors of the middle between low and high."""
    covered: tuple[bool, ...]
    """Whether the true throughput is between low and high."""


def compare(
    kind: str, seed: int, methods: Sequence[str] = tuple(METHODS), asked: SearchParameters = ASKED
) -> list[Outcome]:
    """Return the outcome of each method on the device of this type and seed, in their order."""
    physics = draw_device_model(kind, seed)
    # Without drift, the true throughput does not depend on the duration of the search.
    lasting = None if physics.drift else [true_throughput_fps(physics, asked, goal) for goal in asked.goals]
    outcomes = []
    for name in methods:
        device = SimulatedDevice(physics, seed, asked.settle_s)
        found = METHODS[name](device, asked, seed)
        truths = lasting or [true_throughput_fps(physics, asked, goal, device.now_s) for goal in asked.goals]
        outcomes.append(_outcome(kind, found, truths, asked))
    return outcomes


def main() -> None:
    """Print the tables, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=16, help="simulated devices of each kind")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="of the first device of each kind")
    options = parser.parse_args()
    tasks = [
        (kind, options.first_seed + number) for number in range(options.devices) for kind in DEVICE_TYPES
    ]
    with ProcessPoolExecutor() as pool:
        running = pool.map(compare, *zip(*tasks, strict=True))
        compared = list(track(running, description="searching", total=len(tasks), transient=True))
    by_method = {name: [row[number] for row in compared] for number, name in enumerate(METHODS)}
    goals = ", ".join(f"{goal:.2%}" for goal in ASKED.goals)
    print(
        f"{len(tasks)} devices; goals {goals}; width {ASKED.relative_width:.0%}; steps of {ASKED.step_s:g} s;"
        f" at most {ASKED.time_limit_s:g} s per search; trial time with {ASKED.settle_s:g} s settling per step.\n"
    )
    _print_overall(by_method)
    print("\nTrial time, s: median (quartiles)\n")
    _print_by_kind(by_method, _times)
    print("\nWrong\n")
    _print_by_kind(by_method, _wrong)
    print("\nTruth within low..high\n")
    _print_by_kind(by_method, _covered)


def _outcome(kind: str, found: SearchResult, truths: Sequence[float], asked: SearchParameters) -> Outcome:
    pairs = list(zip(found.goal_results, truths, strict=True))
    return Outcome(
        kind,
        total_time_s(found.steps, asked.settle_s),
        len(found.steps),
        tuple(_error(answer.throughput_fps, truth) for answer, truth in pairs),
        tuple(_error(_middle(answer), truth) for answer, truth in pairs),
        # The true value has a relative error of some 1e-5, which must not decide.
        tuple(answer.low_fps * 0.9999 <= truth <= answer.high_fps * 1.0001 for answer, truth in pairs),
    )


def _middle(answer: GoalResult) -> float:
    return math.sqrt(answer.low_fps * answer.high_fps)


def _error(found_fps: float, truth_fps: float) -> float:
    if found_fps == truth_fps:
        return 0.0
    return abs(found_fps / truth_fps - 1) if truth_fps and found_fps else math.inf


def _print_overall(by_method: Mapping[str, Sequence[Outcome]]) -> None:
    print(
        "| method | trial time, s: median (quartiles) | mean | steps | error, median | wrong"
        " | wrong, by the middle | truth within low..high |\n|---|---|---|---|---|---|---|---|"
    )
    for name, outcomes in by_method.items():
        errors = [error for outcome in outcomes for error in outcome.errors]
        print(
            f"| {name} | {_times(outcomes)} | {np.mean([each.seconds for each in outcomes]):.1f}"
            f" | {np.median([each.steps for each in outcomes]):.0f} | {np.median(errors):.2%}"
            f" | {_wrong(outcomes)} | {_share([_wrongs(each.middle_errors) for each in outcomes])}"
            f" | {_covered(outcomes)} |"
        )


def _print_by_kind(
    by_method: Mapping[str, Sequence[Outcome]], cell: Callable[[Sequence[Outcome]], str]
) -> None:
    """Print a table with a row per device type and a column per method."""
    print("| kind | " + " | ".join(by_method) + " |\n|---|" + "---|" * len(by_method))
    for kind in DEVICE_TYPES:
        of_kind = [[each for each in outcomes if each.kind == kind] for outcomes in by_method.values()]
        print(f"| {kind} | " + " | ".join(cell(outcomes) for outcomes in of_kind) + " |")


def _times(outcomes: Sequence[Outcome]) -> str:
    low, middle, high = np.quantile([outcome.seconds for outcome in outcomes], (0.25, 0.5, 0.75))
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _wrong(outcomes: Sequence[Outcome]) -> str:
    return _share([_wrongs(outcome.errors) for outcome in outcomes])


def _covered(outcomes: Sequence[Outcome]) -> str:
    return _share([outcome.covered for outcome in outcomes])


def _wrongs(errors: Sequence[float]) -> tuple[bool, ...]:
    return tuple(error > ASKED.relative_width for error in errors)


def _share(answers: Sequence[Sequence[bool]]) -> str:
    """Return a share with its 95 % interval by a bootstrap over devices, whose goals are correlated."""
    per_device = np.mean(np.asarray(answers, dtype=float), axis=1)
    random = np.random.default_rng(0)
    drawn = random.choice(per_device, (2000, len(per_device))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{per_device.mean():.1%} ({low:.1%} to {high:.1%})"


if __name__ == "__main__":
    main()
