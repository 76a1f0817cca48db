"""Sums, shares and levels over samples, and what was read back of knobs; None where they are unknown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from vnetbench.results.records import Sample, TrialRecord

Figures = dict[str, float | None]
"""Figures by name; None where a counter is missing."""


def seconds_of(samples: Iterable[Sample]) -> float:
    """How long they are together."""
    return sum(x.interval_s for x in samples)


def total(samples: Iterable[Sample], counter: str) -> float | None:
    """A counter over all of them that have it."""
    known = [x.counters[counter] for x in samples if counter in x.counters]
    return sum(known) if known else None


def added(samples: Sequence[Sample], *counters: str) -> float | None:
    """Several counters over all of them; those that no sample has do not count."""
    return plus(*(total(samples, counter) for counter in counters))


def per_s(samples: Sequence[Sample], *counters: str) -> float | None:
    """The same, a second."""
    return over(added(samples, *counters), seconds_of(samples))


def percent_of_time(samples: Sequence[Sample], *counters: str) -> float | None:
    """The same of counters of seconds, as a share of the time."""
    return percent(added(samples, *counters), seconds_of(samples))


def plus(*values: float | None) -> float | None:
    """The sum of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def over(part: float | None, whole: float | None) -> float | None:
    """One over the other; None where there is nothing that it could be a part of."""
    return part / whole if part is not None and whole else None


def percent(part: float | None, whole: float | None) -> float | None:
    """The same in percent."""
    share = over(part, whole)
    return None if share is None else 100 * share


def most(values: Iterable[float | None]) -> float | None:
    """The greatest that is known."""
    return max((value for value in values if value is not None), default=None)


def least(values: Iterable[float | None]) -> float | None:
    """The smallest that is known."""
    return min((value for value in values if value is not None), default=None)


def middle(values: Iterable[float | None]) -> float | None:
    """The median of those that are known: no single sample moves it."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def number(value: object) -> float | None:
    """A JSON number, or what stands for yes and no."""
    return float(value) if isinstance(value, int | float) else None


def read_back(trial: TrialRecord, knob: str, endpoint: str) -> object:
    """What was read back of a knob at an endpoint: the results file has one value where all are alike."""
    value = trial.effective.get(knob)
    return value.get(endpoint) if isinstance(value, Mapping) else value


def is_off(trial: TrialRecord, knobs: Sequence[str], endpoints: Iterable[str]) -> float | None:
    """1 where one of the switches is off at one of the endpoints, 0 where all that are known are on."""
    found = [read_back(trial, knob, endpoint) for endpoint in endpoints for knob in knobs]
    return most(float(not value) for value in found if isinstance(value, bool))
