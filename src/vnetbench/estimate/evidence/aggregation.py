"""Aggregation of counters over samples, and settings that were read back; None stands for unknown values."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from vnetbench.results.records import Sample, TrialRecord

EvidenceValues = dict[str, float | None]
"""Name of an evidence metric to its value; None if a counter is missing."""


def total_duration_s(samples: Iterable[Sample]) -> float:
    """Return the total duration of the samples in seconds."""
    return sum(x.interval_s for x in samples)


def total_of_counter(samples: Iterable[Sample], counter: str) -> float | None:
    """Return the sum of a counter over the samples that have it."""
    known = [x.counters[counter] for x in samples if counter in x.counters]
    return sum(known) if known else None


def total_of_known_counters(samples: Sequence[Sample], *counters: str) -> float | None:
    """Return the sum of several counters over the samples; a counter that no sample has is left out."""
    return sum_known_values(*(total_of_counter(samples, counter) for counter in counters))


def counter_rate_per_s(samples: Sequence[Sample], *counters: str) -> float | None:
    """Return the sum of several counters per second."""
    return ratio(total_of_known_counters(samples, *counters), total_duration_s(samples))


def percent_of_sampled_time(samples: Sequence[Sample], *counters: str) -> float | None:
    """Return the sum of several counters of seconds as a share of the samples' duration, 0 to 100 %."""
    return percent_at_most_100(total_of_known_counters(samples, *counters), total_duration_s(samples))


def sum_known_values(*values: float | None) -> float | None:
    """Return the sum of the known values."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return part / whole; None if `whole` is zero."""
    return part / whole if part is not None and whole else None


def percent(part: float | None, whole: float | None) -> float | None:
    """Return part / whole in percent; None if `whole` is zero."""
    share = ratio(part, whole)
    return None if share is None else 100 * share


def percent_at_most_100(part: float | None, whole: float | None) -> float | None:
    """Return a part of `whole` in percent, at most 100; None if `whole` is zero.

    Counters of one sample are read one after another, and the kernel counts some waits only when they end.
    So a part can come out larger than its whole.
    """
    value = percent(part, whole)
    return None if value is None else min(100.0, value)


def limit_waiting_to_time_not_busy_percent(waiting: float | None, busy: float | None) -> float | None:
    """Return the waiting time, limited to the time that is left beside the busy time, in percent."""
    return None if waiting is None else min(waiting, 100.0 - (busy or 0.0))


def largest(values: Iterable[float | None]) -> float | None:
    """Return the largest known value."""
    return max((value for value in values if value is not None), default=None)


def smallest(values: Iterable[float | None]) -> float | None:
    """Return the smallest known value."""
    return min((value for value in values if value is not None), default=None)


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def to_number(value: object) -> float | None:
    """Return a JSON number or boolean as a float; None for anything else."""
    return float(value) if isinstance(value, int | float) else None


def effective_knob_value(trial: TrialRecord, knob: str, endpoint: str) -> object:
    """Return the value of a knob that was read back at an endpoint.

    The results file has a single value if all endpoints agree.
    """
    value = trial.effective.get(knob)
    return value.get(endpoint) if isinstance(value, Mapping) else value


def is_any_knob_off(trial: TrialRecord, knobs: Sequence[str], endpoints: Iterable[str]) -> float | None:
    """Return 1 if one of the on/off knobs is off at one of the endpoints, 0 if all known ones are on."""
    values = [effective_knob_value(trial, knob, endpoint) for endpoint in endpoints for knob in knobs]
    return largest(float(not value) for value in values if isinstance(value, bool))
