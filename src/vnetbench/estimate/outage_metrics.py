"""Metrics of a trial with an event: its outage or stall, and what was lost or retransmitted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vnetbench.estimate.disruption import (
    EventWindow,
    find_outages,
    has_tcp_sinks,
    read_event_record,
    read_event_window,
)
from vnetbench.results.records import EndpointRecord, Sample, TrialRecord, mapping_or_empty
from vnetbench.study.workloads import OUTAGE_METRIC, STALL_METRIC

_DATAGRAM_COUNTS = (
    ("outage_lost_datagrams", "lost"),
    ("outage_duplicated_datagrams", "duplicates"),
    ("outage_reordered_datagrams", "reordered"),
)
"""Metrics and their counters in the samples of a sink."""
_MIGRATION_KEYS = {
    "migration_s": ("total_ms", 1e-3),
    "migration_downtime_s": ("downtime_ms", 1e-3),
    "migration_transferred_bytes": ("transferred_bytes", 1.0),
}
"""Values of `proof.migration` (docs/results-file.md) by metric, and their units in units of the metric."""


def outage_metrics(trial: TrialRecord) -> Iterator[tuple[str, float]]:
    """Yield the metrics of the outage of a trial; none without an event. The slowest stream decides."""
    record = read_event_record(trial)
    event = read_event_window(record)
    if event is None:
        return
    outages = find_outages(trial.endpoints, event)
    if not outages:
        return
    yield "event_s", (int(record["end_monotonic_ns"][0]) - int(record["begin_monotonic_ns"][1])) / 1e9
    is_tcp = has_tcp_sinks(trial.endpoints)
    worst = max(outages, key=lambda each: each.longest_ns)
    yield STALL_METRIC if is_tcp else OUTAGE_METRIC, worst.longest_ns / 1e9
    if len(outages) > 1:
        shortest_ns = min(each.longest_ns for each in outages)
        yield "stall_shortest_s" if is_tcp else "outage_shortest_s", shortest_ns / 1e9
    spacing_ns = 1e9 / float(record["datagrams_per_s"])
    by_numbers_ns = worst.longest.length_by_numbers_ns(spacing_ns) if worst.longest else None
    if by_numbers_ns is not None:
        yield "outage_by_numbers_s", by_numbers_ns / 1e9
    yield from _migration_metrics(record)
    yield "background_gap_s", max(each.background_ns for each in outages) / 1e9
    recovered = [each.recovered_ns for each in outages if each.recovered_ns is not None]
    if len(recovered) == len(outages):
        yield "recovery_s", max(0, max(recovered) - event.begin_ns) / 1e9
    ends = [each.longest.end_ns for each in outages if each.longest is not None]
    touched = EventWindow(event.begin_ns, max((event.end_ns, *recovered, *ends)))
    count = _retransmissions_in if is_tcp else _datagrams_in
    yield from count(trial.endpoints, touched, int(record["load_started_monotonic_ns"]))


def _migration_metrics(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield what QEMU reported about a live migration; none of another event."""
    report = mapping_or_empty(mapping_or_empty(record.get("proof")).get("migration"))
    for metric, (name, scale) in _MIGRATION_KEYS.items():
        value = report.get(name)
        if isinstance(value, int) and value >= 0:
            yield metric, value * scale


def _datagrams_in(
    endpoints: Sequence[EndpointRecord], time: EventWindow, started_ns: int
) -> Iterator[tuple[str, float]]:
    """Yield the datagrams lost, duplicated and reordered in the samples that a time touches."""
    streams = [
        stream
        for sample in _touched_samples(endpoints, time, started_ns)
        for stream in sample.streams
        if stream.role == "sink" and "datagrams" in stream.details
    ]
    for metric, name in _DATAGRAM_COUNTS:
        yield metric, float(max(0, sum(int(str(each.details.get(name) or 0)) for each in streams)))


def _retransmissions_in(
    endpoints: Sequence[EndpointRecord], time: EventWindow, started_ns: int
) -> Iterator[tuple[str, float]]:
    """Yield the segments retransmitted, and the timeouts, in the samples that a time touches."""
    samples = _touched_samples(endpoints, time, started_ns)
    sources = [stream for sample in samples for stream in sample.streams if stream.role == "source"]
    yield "stall_retransmits", float(sum(each.retransmits or 0 for each in sources))
    by_stream = [each.details.get("timeouts") for each in sources]
    if by_stream and None not in by_stream:
        yield "stall_timeouts", float(sum(int(str(each)) for each in by_stream))
        return
    # Kernels before Linux 6.7 count the timeouts of all connections only.
    by_endpoint = [sample.counters.get("tcp_timeouts") for sample in samples]
    if by_endpoint and None not in by_endpoint:
        yield "stall_timeouts", float(sum(int(str(each)) for each in by_endpoint))


def _touched_samples(endpoints: Sequence[EndpointRecord], time: EventWindow, started_ns: int) -> list[Sample]:
    """Return the samples of the agents that overlap a time."""
    begin_s, last_s = (time.begin_ns - started_ns) / 1e9, (time.end_ns - started_ns) / 1e9
    return [
        sample
        for endpoint in endpoints
        for sample in endpoint.samples
        if sample.streams and _is_touched(sample, begin_s, last_s)
    ]


def _is_touched(sample: Sample, begin_s: float, last_s: float) -> bool:
    """Return whether a sample overlaps a time. A sink starts up to one interval before the load."""
    return sample.end_s > begin_s and sample.end_s - 2 * sample.interval_s < last_s
