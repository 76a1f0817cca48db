"""The estimates on simulated campaigns of each kind of noise: how often they cover, how much time they save.

The adaptive rule is asked for the half-width that three trials of 20 s after 5 s of warm-up have on average,
and for the 3 % that a study asks for by default. `make bench-estimates` runs it; docs/estimates.md quotes it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from rich.progress import track

from tests.estimate.simulated_trials import KINDS, Kind, Outcome, many, many_long
from vnetbench.study.model import Precision

CONFIDENCE = 0.95
HEAD_OF_SAVING = (
    "| kind | three long trials: ± | covered | adaptive: ± | covered | trials | seconds | of the time |\n"
    "|---|---|---|---|---|---|---|---|"
)
HEAD_OF_DEFAULT = (
    "| kind | what has to be covered | covered | trials | seconds | ± | narrow enough |\n"
    "|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Print both tables, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=2000, help="simulated campaigns of each kind")
    campaigns = parser.parse_args().campaigns
    saving, default = [], []
    for kind in track(list(KINDS.values()), description="simulating", transient=True):
        saving.append(_saving(kind, campaigns))
        default.append(_default(kind, campaigns))
    print(
        f"For the half-width of three trials of 20 s after 5 s of warm-up ({campaigns} campaigns a kind):\n"
    )
    print("\n".join([HEAD_OF_SAVING, *saving]))
    print(
        f"\nFor a half-width of {Precision().half_width:.0%}, the default ({campaigns} campaigns a kind):\n"
    )
    print("\n".join([HEAD_OF_DEFAULT, *default]))


def _saving(kind: Kind, campaigns: int) -> str:
    long = many_long(kind, campaigns, CONFIDENCE)
    usual = _mean(long, lambda outcome: outcome.half_width)
    adaptive = many(kind, campaigns, Precision(confidence=CONFIDENCE, half_width=usual))
    long_s = _mean(long, lambda outcome: outcome.seconds)
    share = [outcome.seconds / long_s for outcome in adaptive]
    low, high = np.quantile(share, (0.1, 0.9))
    return _row(
        kind.name,
        f"{usual:.1%}",
        _covered(long),
        f"{_mean(adaptive, lambda outcome: outcome.half_width):.1%}",
        _covered(adaptive),
        _median(adaptive, lambda outcome: outcome.trials),
        _median(adaptive, lambda outcome: outcome.seconds),
        f"{np.mean(share):.2f} ({low:.2f} to {high:.2f})",
    )


def _default(kind: Kind, campaigns: int) -> str:
    outcomes = many(kind, campaigns, Precision(confidence=CONFIDENCE))
    return _row(
        kind.name,
        kind.covered,
        _covered(outcomes),
        _median(outcomes, lambda outcome: outcome.trials),
        _median(outcomes, lambda outcome: outcome.seconds),
        f"{_mean(outcomes, lambda outcome: outcome.half_width):.1%}",
        f"{np.mean([outcome.stopped_by == 'precision' for outcome in outcomes]):.0%}",
    )


def _covered(outcomes: Sequence[Outcome]) -> str:
    return f"{np.mean([outcome.covered for outcome in outcomes]):.3f}"


def _mean(outcomes: Sequence[Outcome], figure: Callable[[Outcome], float]) -> float:
    return float(np.mean([figure(outcome) for outcome in outcomes]))


def _median(outcomes: Sequence[Outcome], figure: Callable[[Outcome], float]) -> str:
    """Median, and the range of the middle 80 of 100 campaigns."""
    low, middle, high = np.quantile([figure(outcome) for outcome in outcomes], (0.1, 0.5, 0.9))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
