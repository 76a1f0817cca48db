"""At which numbers of trials a treatment is judged, and which ordered trials bound its median's interval
then.

The interval of a median is made of ordered values: it fails exactly when too few (or too many) of the
trials lie below the median. How many lie below it is a random walk of fair coin tosses, whatever the
trials' distribution. So the chance that an interval fails at *any* of several looks is a sum over that
walk, and the looks can be given intervals whose chances add up to what the confidence leaves: peeking then
costs nothing, whichever look stops.

Sources: the order-statistic interval of a median is Thompson (1936), "On confidence ranges for the median
and other expectation distributions for populations of unknown distribution form", Annals of Mathematical
Statistics 7(3); intervals that hold at every look together are Jennison & Turnbull
(1984), "Repeated confidence intervals for group sequential clinical trials", Controlled Clinical Trials
5(1), and error spent by a rule fixed in advance is Lan & DeMets (1983), Biometrika 70(3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from vnetbench.study.model import Precision

_GROWTH = 1.5
"""Each look has about this many times the trials of the look before it (6, 9, 13, 20, 30)."""

_COUNTED_UP_TO = 1000
"""Trials up to which chances are counted out: 2.0**1024 is no number, and an import may have more."""
_LARGEST_FIRST_SHARE = 2 / 3
"""The first of several looks may spend this share of the error, or little is left to the later ones."""


@dataclass(frozen=True)
class OrderStatisticBounds:
    """How far into the ordered trials an interval reaches: between the `order`-th and the next from each end.

    `fraction` is the share of the way from the `order`-th to the next in *chance of failing*, 0 to 1 (not in
    distance: that depends on the number of trials as well).
    """

    order: int
    fraction: float


def fewest_trials_for_interval(confidence: float, has_more_analyses: bool = True) -> int:
    """The fewest trials at which a median has an interval of this confidence: 6 for 0.95, 9 for 0.99.

    The widest interval, from the smallest to the largest of n trials, fails with chance 2^(1-n). Where more
    looks follow (`several`) it has to leave some of the error to them.

    Raises ValueError for a confidence outside 0..1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    share = _LARGEST_FIRST_SHARE if has_more_analyses else 1.0
    # A hair of tolerance: 1 - 0.95 is a little more than 0.05 in binary, 1 - 0.9375 must count as 2^-4.
    return max(2, math.ceil(1 - math.log2((1 - confidence) * share) - 1e-9))


@lru_cache(maxsize=1024)
def interim_analyses(precision: Precision) -> tuple[int, ...]:
    """The numbers of trials at which a treatment is judged, ascending, each about 1.5 times the one before.

    They begin at `fewest_trials`, or where the confidence first has an interval, and end at `most_trials`.
    Empty where `most_trials` is too few for any interval.
    """
    most = precision.most_trials
    start = max(precision.fewest_trials, fewest_trials_for_interval(precision.confidence))
    if start >= most:
        return (most,) if most >= fewest_trials_for_interval(precision.confidence, has_more_analyses=False) else ()
    steps = max(1, round(math.log(most / start) / math.log(_GROWTH)))
    return tuple(sorted({round(start * (most / start) ** (step / steps)) for step in range(steps + 1)}))


@lru_cache(maxsize=4096)
def interval_bounds(trials: int, confidence: float, analyses: tuple[int, ...] = ()) -> OrderStatisticBounds | None:
    """Which ordered trials bound the median's interval at `trials` trials; None where there are too few for
    one.

    `judged_at` are all numbers of trials at which stopping was or would be decided. A number that is none
    of them (a campaign cut short, a table drawn while one runs) is treated as the next look, come early.
    Without `judged_at` the interval is that of a number of trials fixed beforehand.
    """
    earlier = tuple(look for look in analyses if look < trials)
    if len(earlier) == len(analyses):
        earlier = earlier[:-1]  # more trials than the last look: they take its place
    count = max(1, len(analyses))
    error = 1 - confidence
    if not earlier:
        return _first_depth(trials, _spent_first(analyses[0] if analyses else trials, error, count))
    if 2.0 ** (1 - earlier[0]) > error + 1e-12:
        return interval_bounds(trials, confidence, analyses[1:])
    return _walk((*earlier, trials), error, count)[-1]


def _spent_first(trials: int, error: float, count: int) -> float:
    return error if count == 1 else max(2.0 ** (1 - trials), error / count)


def _first_depth(trials: int, error: float) -> OrderStatisticBounds | None:
    if 2.0 ** (1 - trials) > error + 1e-12:
        return None
    return _deepest([_chance(below, trials) for below in range(trials + 1)], error)


def _chance(below: int, trials: int) -> float:
    """That so many of the trials lie below the median."""
    if trials <= _COUNTED_UP_TO:
        return math.comb(trials, below) / 2.0**trials
    log = math.lgamma(trials + 1) - math.lgamma(below + 1) - math.lgamma(trials - below + 1)
    return math.exp(log - trials * math.log(2))


def _walk(numbers: Sequence[int], error: float, count: int) -> list[OrderStatisticBounds]:
    """The depths at `numbers`, when all of the error is spent in `count` looks: as much as it takes at the
    first, equal parts of the rest at the others."""
    at_first = _spent_first(numbers[0], error, count)
    found: list[OrderStatisticBounds] = []
    # not_failed[b]: chance that b trials lie below the median and no look so far has failed.
    not_failed = [1.0]
    spent = 0.0
    for position, number in enumerate(numbers):
        for _ in range(number - (numbers[position - 1] if position else 0)):
            not_failed = [
                (below + above) / 2
                for below, above in zip([0.0, *not_failed], [*not_failed, 0.0], strict=True)
            ]
        until_now = at_first + (error - at_first) * (position / (count - 1) if count > 1 else 0)
        reach = _deepest(not_failed, until_now - spent)
        found.append(reach)
        for below in range(number + 1):
            failing = _failing(below, number, reach)
            spent += not_failed[below] * failing
            not_failed[below] *= 1 - failing
    return found


def _failing(below: int, trials: int, reach: OrderStatisticBounds) -> float:
    """Chance that the interval misses the median when `below` of the trials lie below it."""
    nearer_end = min(below, trials - below)
    if nearer_end < reach.order:
        return 1.0
    return reach.fraction if nearer_end == reach.order else 0.0


def _deepest(chances: Sequence[float], error: float) -> OrderStatisticBounds:
    """The deepest interval that fails with no more than `error`, given the chance of each number below the
    median.

    At least the whole range of the trials, which fails only where all earlier looks have failed too.
    """
    trials = len(chances) - 1
    failing = chances[0] + chances[trials]
    for order in range(1, (trials + 1) // 2):
        next_two = chances[order] + chances[trials - order]
        if failing + next_two > error:
            fraction = (error - failing) / next_two if next_two > 0 else 0.0
            return OrderStatisticBounds(order, min(1.0, max(0.0, fraction)))
        failing += next_two
    return OrderStatisticBounds(max(1, (trials + 1) // 2), 0.0)
