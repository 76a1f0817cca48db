"""A run of another tool as a trial of ours: what its log told, and its intervals as samples."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from vnetbench.importers.runs import ReportedValue, ReportInterval, Run
from vnetbench.results.records import (
    HIGH_SUFFIX,
    IMPORTED,
    LOW_SUFFIX,
    OBSERVE,
    OMITTED,
    EndpointRecord,
    Sample,
    StreamSample,
    TrialRecord,
)

MOST_SAMPLES = 2000
"""Of a trial each way: a warm-up is found in a tenth of these."""

_ADD_UP = ("bytes", "datagrams", "lost", "transactions", "retransmits")
"""Values of an interval of which that of all streams is the sum."""
_ROLES = {"sender": "source", "receiver": "sink"}


@dataclass(frozen=True)
class TrialPosition:
    """Where a trial belongs among those of its import."""

    treatment: int
    block: int
    started_s: float
    """Since the first of them."""


def build_trial(run: Run, log: str, place: TrialPosition) -> TrialRecord:
    """The trial that a run is; `log` is the name of what it was read from."""
    return TrialRecord(
        treatment=place.treatment,
        block=place.block,
        testbed_shape=None,
        started_s=place.started_s,
        duration_s=run.duration_s or 0.0,
        setup_s=0.0,
        effective={IMPORTED: told_of(run, log)},
        endpoints=tuple(
            EndpointRecord(way, OBSERVE, {}, samples) for way, samples in sorted(_samples(run).items())
        ),
        notes=run.remarks,
    )


def told_of(run: Run, log: str) -> dict[str, object]:
    """All that a log tells of a run, but for its intervals, as it is kept in the results file."""
    return {
        "tool": run.tool,
        "version": run.version,
        "log": log,
        "lines": [run.first_line, run.last_line],
        "command": run.command,
        "told_by": run.reported_by,
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "duration_s": run.duration_s,
        "omitted_s": run.omitted_s,
        "figures": {name: asdict(figure) for name, figure in run.metrics.items()},
        "also": dict(run.other_results),
    }


def _samples(run: Run) -> dict[str, tuple[Sample, ...]]:
    """By way, in the order of the log: so many intervals each that a way has MOST_SAMPLES at most."""
    joined = _joined(run)
    found: dict[str, list[Sample]] = defaultdict(list)
    pending: dict[str, list[list[ReportInterval]]] = defaultdict(list)

    def close(way: str) -> None:
        if pending[way]:
            found[way].append(_sample(len(found[way]), pending.pop(way), run))

    for at_once in _at_once(run.intervals):
        for way in dict.fromkeys(each.direction for each in at_once):
            before = pending[way]
            if before and (len(before) == joined or before[0][0].is_omitted != at_once[0].is_omitted):
                close(way)
            pending[way].append([each for each in at_once if each.direction == way])
    for way in tuple(pending):
        close(way)
    return {way: tuple(samples) for way, samples in found.items()}


def _joined(run: Run) -> int:
    """How many intervals make a sample."""
    if len(run.intervals) <= MOST_SAMPLES:
        return 1
    times = Counter(
        way for at_once in _at_once(run.intervals) for way in {each.direction for each in at_once}
    )
    return math.ceil(max(times.values(), default=1) / MOST_SAMPLES)


def _at_once(intervals: Sequence[ReportInterval]) -> Iterator[list[ReportInterval]]:
    """Those of the same time together; very many only where they stand together, as memory is bounded."""

    def time(each: ReportInterval) -> tuple[float, float, bool]:
        return each.start_s, each.end_s, each.is_omitted

    told = (each for each in intervals if each.end_s > each.start_s)
    if len(intervals) > MOST_SAMPLES:
        yield from (list(group) for _, group in groupby(told, time))
        return
    found: dict[tuple[float, float, bool], list[ReportInterval]] = {}
    for each in told:
        found.setdefault(time(each), []).append(each)
    yield from found.values()


def _sample(seq: int, spans: Sequence[Sequence[ReportInterval]], run: Run) -> Sample:
    """Of intervals that follow each other; where none is of all streams together these are added up."""
    streams: dict[int | None, list[ReportInterval]] = defaultdict(list)
    for each in (each for span in spans for each in span):
        streams[each.stream].append(each)
    together = streams.pop(None, None)
    apart = (each.values for of_stream in streams.values() for each in of_stream)
    values = _sum(apart) if together is None else _over(together)
    first, last = spans[0][0], spans[-1][0]
    return Sample(
        seq=seq,
        t_s=last.end_s,
        interval_s=sum(span[0].end_s - span[0].start_s for span in spans),
        bytes_sent=0,
        bytes_received=0,
        counters={**_counters(values), **({OMITTED: 1.0} if first.is_omitted else {})},
        streams=tuple(_stream(number, _over(told), run) for number, told in streams.items()),
    )


def _over(intervals: Sequence[ReportInterval]) -> dict[str, ReportedValue]:
    """The values of intervals of one stream: counts are added up, of the others it is their mean."""
    if len(intervals) == 1:
        return dict(intervals[0].values)
    told = [each.values for each in intervals]
    names = [name for name in told[0] if all(name in each for each in told)]
    means = {
        name: _added([each[name] for each in told], 1 / len(told)) for name in names if name not in _ADD_UP
    }
    return _sum(told) | means


def _sum(told: Iterable[Mapping[str, ReportedValue]]) -> dict[str, ReportedValue]:
    all_told = list(told)
    return {
        name: _added([each[name] for each in all_told])
        for name in _ADD_UP
        if all(name in each for each in all_told)
    }


def _added(figures: Sequence[ReportedValue], times: float = 1.0) -> ReportedValue:
    return ReportedValue(
        times * sum(each.value for each in figures),
        times * sum(each.low for each in figures),
        times * sum(each.high for each in figures),
    )


def _counters(values: Mapping[str, ReportedValue]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, figure in values.items():
        found[name] = figure.value
        if figure.low < figure.high:
            found |= {name + LOW_SUFFIX: figure.low, name + HIGH_SUFFIX: figure.high}
    return found


def _stream(number: int | None, figures: Mapping[str, ReportedValue], run: Run) -> StreamSample:
    values = {name: figure.value for name, figure in figures.items()}
    cwnd, retransmits = values.get("cwnd_bytes"), values.get("retransmits")
    return StreamSample(
        stream_id=number or 0,
        role=_ROLES.get(run.reported_by, "both"),
        bytes=round(values.get("bytes", 0)),
        rtt_us=values.get("rtt_us"),
        cwnd=None if cwnd is None else round(cwnd),
        retransmits=None if retransmits is None else round(retransmits),
    )
