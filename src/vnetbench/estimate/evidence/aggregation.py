"""Sums, shares and levels over samples, and what was read back of knobs; None where they are unknown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from vnetbench.results.records import Sample, TrialRecord

EvidenceValues = dict[str, float | None]
"""Figures by name; None where a counter is missing."""


def total_duration_s(samples: Iterable[Sample]) -> float:
    """How long they are together."""
    return sum(x.interval_s for x in samples)


def counter_total(samples: Iterable[Sample], counter: str) -> float | None:
    """A counter over all of them that have it."""
    known = [x.counters[counter] for x in samples if counter in x.counters]
    return sum(known) if known else None


def counters_total(samples: Sequence[Sample], *counters: str) -> float | None:
    """Several counters over all of them; those that no sample has do not count."""
    return sum_known(*(counter_total(samples, counter) for counter in counters))


def rate_per_s(samples: Sequence[Sample], *counters: str) -> float | None:
    """The same, a second."""
    return ratio(counters_total(samples, *counters), total_duration_s(samples))


def percent_of_time(samples: Sequence[Sample], *counters: str) -> float | None:
    """The same of counters of seconds, as a share of the time."""
    return percent(counters_total(samples, *counters), total_duration_s(samples))


def sum_known(*values: float | None) -> float | None:
    """The sum of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """One over the other; None where there is nothing that it could be a part of."""
    return part / whole if part is not None and whole else None


def percent(part: float | None, whole: float | None) -> float | None:
    """The same in percent."""
    share = ratio(part, whole)
    return None if share is None else 100 * share


def largest(values: Iterable[float | None]) -> float | None:
    """The greatest that is known."""
    return max((value for value in values if value is not None), default=None)


def smallest(values: Iterable[float | None]) -> float | None:
    """The smallest that is known."""
    return min((value for value in values if value is not None), default=None)


def median(values: Iterable[float | None]) -> float | None:
    """The median of those that are known: no single sample moves it."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def to_number(value: object) -> float | None:
    """A JSON number, or what stands for yes and no."""
    return float(value) if isinstance(value, int | float) else None


def knob_value(trial: TrialRecord, knob: str, endpoint: str) -> object:
    """What was read back of a knob at an endpoint: the results file has one value where all are alike."""
    value = trial.effective.get(knob)
    return value.get(endpoint) if isinstance(value, Mapping) else value


def any_off(trial: TrialRecord, knobs: Sequence[str], endpoints: Iterable[str]) -> float | None:
    """1 where one of the switches is off at one of the endpoints, 0 where all that are known are on."""
    found = [knob_value(trial, knob, endpoint) for endpoint in endpoints for knob in knobs]
    return largest(float(not value) for value in found if isinstance(value, bool))
