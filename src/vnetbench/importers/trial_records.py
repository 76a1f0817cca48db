"""Turn a run of another tool into a trial: its results, and its intervals as samples."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from vnetbench.importers.arithmetic import mean_value, sum_values
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.results.records import (
    HIGH_SUFFIX,
    IMPORTED_LOG_KEY,
    LOW_SUFFIX,
    OBSERVE,
    OMITTED_SAMPLE_COUNTER,
    EndpointRecord,
    Sample,
    StreamSample,
    TrialRecord,
)

MAX_SAMPLES_PER_DIRECTION = 2000
"""Maximum samples per trial and direction. A tenth of them suffices to detect a warm-up."""

_ADDITIVE_VALUE_NAMES = ("bytes", "datagrams", "lost", "transactions", "retransmits")
"""Values that add up over streams and intervals."""
_ROLE_BY_REPORTING_ENDPOINT = {"sender": "source", "receiver": "sink"}


@dataclass(frozen=True)
class TrialPosition:
    """The position of a trial among those of its import."""

    treatment: int
    block: int
    since_campaign_start_s: float
    """Time since the first trial started."""


def build_trial(run: Run, log: str, position: TrialPosition) -> TrialRecord:
    """Return the trial for a run. `log` is the name of the log that it is from."""
    return TrialRecord(
        treatment=position.treatment,
        block=position.block,
        testbed_shape=None,
        since_campaign_start_s=position.since_campaign_start_s,
        duration_s=run.measured_duration_s or 0.0,
        setup_s=0.0,
        effective={IMPORTED_LOG_KEY: run_details(run, log)},
        endpoints=tuple(
            EndpointRecord(direction, OBSERVE, {}, samples)
            for direction, samples in sorted(_build_samples_by_direction(run).items())
        ),
        notes=run.remarks,
    )


def run_details(run: Run, log: str) -> dict[str, object]:
    """Return everything about a run except its intervals, as the results file stores it."""
    return {
        "tool": run.tool,
        "version": run.version,
        "log": log,
        "lines": [run.first_line, run.last_line],
        "command": run.command,
        "reported_by": run.reported_by,
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "duration_s": run.measured_duration_s,
        "omitted_s": run.omitted_s,
        "metrics": {name: asdict(value) for name, value in run.metrics.items()},
        "other_results": dict(run.other_results),
    }


def _build_samples_by_direction(run: Run) -> dict[str, tuple[Sample, ...]]:
    """Return samples by direction, in the order of the log.

    Intervals are joined to stay below MAX_SAMPLES_PER_DIRECTION.
    """
    intervals_per_sample = _choose_intervals_per_sample(run)
    samples: dict[str, list[Sample]] = defaultdict(list)
    pending: dict[str, list[list[ReportInterval]]] = defaultdict(list)

    def finish_sample(direction: str) -> None:
        if pending[direction]:
            sequence = len(samples[direction])
            samples[direction].append(_build_sample(sequence, pending.pop(direction), run))

    for group in _group_by_time(run.intervals):
        for direction in dict.fromkeys(each.direction for each in group):
            before = pending[direction]
            is_full = len(before) == intervals_per_sample
            if before and (is_full or before[0][0].is_omitted != group[0].is_omitted):
                finish_sample(direction)
            pending[direction].append([each for each in group if each.direction == direction])
    for direction in tuple(pending):
        finish_sample(direction)
    return {direction: tuple(each) for direction, each in samples.items()}


def _choose_intervals_per_sample(run: Run) -> int:
    if len(run.intervals) <= MAX_SAMPLES_PER_DIRECTION:
        return 1
    if isinstance(run.intervals, PackedIntervals):
        counts = run.intervals.count_distinct_times_by_direction()
    else:
        counts = Counter(
            direction
            for group in _group_by_time(run.intervals)
            for direction in {each.direction for each in group}
        )
    return math.ceil(max(counts.values(), default=1) / MAX_SAMPLES_PER_DIRECTION)


def _group_by_time(intervals: Sequence[ReportInterval]) -> Iterator[list[ReportInterval]]:
    """Yield the intervals of equal times together.

    Many intervals are grouped only where they are adjacent, so that memory stays bounded.
    """

    def time_key(interval: ReportInterval) -> tuple[float, float, bool]:
        return interval.start_s, interval.end_s, interval.is_omitted

    valid = (each for each in intervals if each.end_s > each.start_s)
    if len(intervals) > MAX_SAMPLES_PER_DIRECTION:
        yield from (list(group) for _, group in groupby(valid, time_key))
        return
    groups: dict[tuple[float, float, bool], list[ReportInterval]] = {}
    for each in valid:
        groups.setdefault(time_key(each), []).append(each)
    yield from groups.values()


def _build_sample(sequence: int, groups: Sequence[Sequence[ReportInterval]], run: Run) -> Sample:
    """Return the sample of consecutive intervals.

    Streams are added up if the log has no sum of all streams.
    """
    by_stream: dict[int | None, list[ReportInterval]] = defaultdict(list)
    for interval in (each for group in groups for each in group):
        by_stream[interval.stream_number].append(interval)
    combined = by_stream.pop(None, None)
    if combined is None:
        values = _sum_additive_values(each.values for intervals in by_stream.values() for each in intervals)
    else:
        values = _merge_intervals_of_stream(combined)
    first, last = groups[0][0], groups[-1][0]
    return Sample(
        seq=sequence,
        end_s=last.end_s,
        interval_s=sum(group[0].end_s - group[0].start_s for group in groups),
        bytes_sent=0,
        bytes_received=0,
        counters={
            **_build_counters_with_bounds(values),
            **({OMITTED_SAMPLE_COUNTER: 1.0} if first.is_omitted else {}),
        },
        streams=tuple(
            _build_stream_sample(stream, _merge_intervals_of_stream(intervals), run)
            for stream, intervals in by_stream.items()
        ),
    )


def _merge_intervals_of_stream(intervals: Sequence[ReportInterval]) -> dict[str, RoundedValue]:
    """Return the values of one stream's intervals joined into one: sums of counts, means of the others."""
    if len(intervals) == 1:
        return dict(intervals[0].values)
    values = [each.values for each in intervals]
    names = [name for name in values[0] if all(name in each for each in values)]
    means = {
        name: mean_value(each[name] for each in values) for name in names if name not in _ADDITIVE_VALUE_NAMES
    }
    return _sum_additive_values(values) | means


def _sum_additive_values(values: Iterable[Mapping[str, RoundedValue]]) -> dict[str, RoundedValue]:
    terms = list(values)
    return {
        name: sum_values(each[name] for each in terms)
        for name in _ADDITIVE_VALUE_NAMES
        if all(name in each for each in terms)
    }


def _build_counters_with_bounds(values: Mapping[str, RoundedValue]) -> dict[str, float]:
    counters: dict[str, float] = {}
    for name, reported in values.items():
        counters[name] = reported.value
        if reported.low < reported.high:
            # "0.00" may stand for -0.005 by rounding alone, but nothing that tools count is negative.
            low = max(0.0, reported.low) if reported.value >= 0 else reported.low
            counters |= {name + LOW_SUFFIX: low, name + HIGH_SUFFIX: reported.high}
    return counters


def _build_stream_sample(stream: int | None, reported: Mapping[str, RoundedValue], run: Run) -> StreamSample:
    values = {name: each.value for name, each in reported.items()}
    cwnd, retransmits = values.get("cwnd_bytes"), values.get("retransmits")
    return StreamSample(
        stream_id=stream or 0,
        role=_ROLE_BY_REPORTING_ENDPOINT.get(run.reported_by, "both"),
        bytes=round(values.get("bytes", 0)),
        rtt_us=values.get("rtt_us"),
        cwnd=None if cwnd is None else round(cwnd),
        retransmits=None if retransmits is None else round(retransmits),
    )
