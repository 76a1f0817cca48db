"""The arrivals around the event of a trial, for the timeline of the report."""

from __future__ import annotations

from vnetbench.estimate.disruption import (
    ArrivalRate,
    EventWindow,
    find_outages,
    read_event_record,
    read_event_window,
    read_rates,
)
from vnetbench.results.records import TrialRecord

MAX_POINTS = 200
_MIN_MARGIN_NS = 20_000_000
"""Time shown before the event and after the recovery, at least."""
_MARGIN_SHARE = 0.25
"""The same as a share of the time between the two."""


def event_timeline(trial: TrialRecord) -> tuple[tuple[float, float], ...]:
    """Return the arrivals around the event of the stream with the longest outage; empty without an event.

    Returns:
        Pairs of seconds since the event began and datagrams per second, at most `MAX_POINTS`.
    """
    event = read_event_window(read_event_record(trial))
    if event is None:
        return ()
    pairs = list(zip(find_outages(trial.endpoints, event), read_rates(trial.endpoints), strict=True))
    if not pairs:
        return ()
    outage, rate = max(pairs, key=lambda pair: pair[0].longest_ns)
    last_ns = max(event.end_ns, outage.recovered_ns or event.end_ns)
    return arrivals_between(rate, event, last_ns)


def event_length_s(trial: TrialRecord) -> float:
    """Return how long the event of a trial lasted; 0 without an event."""
    event = read_event_window(read_event_record(trial))
    return (event.end_ns - event.begin_ns) / 1e9 if event else 0.0


def arrivals_between(rate: ArrivalRate, event: EventWindow, last_ns: int) -> tuple[tuple[float, float], ...]:
    """Return the arrivals from shortly before an event until shortly after `last_ns`."""
    margin_ns = max(_MIN_MARGIN_NS, round(_MARGIN_SHARE * (last_ns - event.begin_ns)))
    first = max(0, (event.begin_ns - margin_ns - rate.start_ns) // rate.interval_ns)
    end = min(len(rate.counts), (last_ns + margin_ns - rate.start_ns) // rate.interval_ns + 1)
    width = max(1, -(-(end - first) // MAX_POINTS))
    points = []
    for index in range(first, end, width):
        counts = rate.counts[index : min(index + width, end)]
        start_s = (rate.start_ns + index * rate.interval_ns - event.begin_ns) / 1e9
        points.append((start_s, sum(counts) / (len(counts) * rate.interval_ns / 1e9)))
    return tuple(points)
