"""Coverage and time savings of the estimates on simulated campaigns with different kinds of noise.

The adaptive rule gets two targets: the average half-width of three trials of 20 s after 5 s of warm-up, and
the default half-width of a study, 3 %. `make bench-estimates` runs it; docs/estimates.md quotes the result.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from rich.progress import track

from tests.estimate.simulated_trials import (
    NOISE_MODELS,
    NoiseModel,
    SimulationResult,
    run_adaptive_campaigns,
    run_long_campaigns,
)
from vnetbench.study.model import Precision

CONFIDENCE = 0.95
SAVINGS_HEADER = (
    "| noise | three long trials: ± | coverage | adaptive: ± | coverage | trials | seconds | time share |\n"
    "|---|---|---|---|---|---|---|---|"
)
DEFAULT_HEADER = (
    "| noise | quantity to cover | coverage | trials | seconds | ± | reached the precision |\n"
    "|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--campaigns", type=int, default=2000, help="simulated campaigns for each noise model"
    )
    campaigns = parser.parse_args().campaigns
    savings, defaults = [], []
    for model in track(list(NOISE_MODELS.values()), description="simulating", transient=True):
        savings.append(_savings_row(model, campaigns))
        defaults.append(_default_row(model, campaigns))
    print(
        "Target: the half-width of three trials of 20 s after 5 s of warm-up "
        f"({campaigns} campaigns for each noise model):\n"
    )
    print("\n".join([SAVINGS_HEADER, *savings]))
    print(
        f"\nTarget: a half-width of {Precision().half_width:.0%}, the default "
        f"({campaigns} campaigns for each noise model):\n"
    )
    print("\n".join([DEFAULT_HEADER, *defaults]))


def _savings_row(model: NoiseModel, campaigns: int) -> str:
    long = run_long_campaigns(model, campaigns, CONFIDENCE)
    target = _mean(long, lambda result: result.half_width)
    precision = Precision(confidence=CONFIDENCE, half_width=target)
    adaptive = run_adaptive_campaigns(model, campaigns, precision)
    long_s = _mean(long, lambda result: result.total_s)
    time_shares = [result.total_s / long_s for result in adaptive]
    low, high = np.quantile(time_shares, (0.1, 0.9))
    return _table_row(
        model.name,
        f"{target:.1%}",
        _coverage(long),
        f"{_mean(adaptive, lambda result: result.half_width):.1%}",
        _coverage(adaptive),
        _median_and_range(adaptive, lambda result: result.trial_count),
        _median_and_range(adaptive, lambda result: result.total_s),
        f"{np.mean(time_shares):.2f} ({low:.2f} to {high:.2f})",
    )


def _default_row(model: NoiseModel, campaigns: int) -> str:
    results = run_adaptive_campaigns(model, campaigns, Precision(confidence=CONFIDENCE))
    return _table_row(
        model.name,
        model.target,
        _coverage(results),
        _median_and_range(results, lambda result: result.trial_count),
        _median_and_range(results, lambda result: result.total_s),
        f"{_mean(results, lambda result: result.half_width):.1%}",
        f"{np.mean([result.stopped_by == 'precision' for result in results]):.0%}",
    )


def _coverage(results: Sequence[SimulationResult]) -> str:
    return f"{np.mean([result.covers_truth for result in results]):.3f}"


def _mean(results: Sequence[SimulationResult], value: Callable[[SimulationResult], float]) -> float:
    return float(np.mean([value(result) for result in results]))


def _median_and_range(results: Sequence[SimulationResult], value: Callable[[SimulationResult], float]) -> str:
    """Format the median and the range of the middle 80 % of the campaigns."""
    low, middle, high = np.quantile([value(result) for result in results], (0.1, 0.5, 0.9))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def _table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
