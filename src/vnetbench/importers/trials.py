"""A run of another tool as a trial of ours: what its log told, and its intervals as samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from vnetbench.importers.runs import Figure, Interval, Run
from vnetbench.results.records import (
    HIGH,
    LOW,
    OBSERVE,
    OMITTED,
    TOLD,
    Sample,
    SideRecord,
    StreamSample,
    TrialRecord,
)

_ADD_UP = ("bytes", "datagrams", "lost", "transactions", "retransmits")
"""Values of an interval of which that of all streams is the sum."""
_ROLES = {"sender": "source", "receiver": "sink"}


@dataclass(frozen=True)
class Place:
    """Where a trial belongs among those of its import."""

    treatment: int
    block: int
    started_s: float
    """Since the first of them."""


def trial_of(run: Run, log: str, place: Place) -> TrialRecord:
    """The trial that a run is; `log` is the name of what it was read from."""
    return TrialRecord(
        treatment=place.treatment,
        block=place.block,
        shape=None,
        started_s=place.started_s,
        duration_s=run.duration_s or 0.0,
        setup_s=0.0,
        effective={TOLD: told_of(run, log)},
        sides=tuple(SideRecord(way, OBSERVE, {}, samples) for way, samples in sorted(_samples(run).items())),
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
        "told_by": run.told_by,
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "duration_s": run.duration_s,
        "omitted_s": run.omitted_s,
        "figures": {name: asdict(figure) for name, figure in run.figures.items()},
        "also": dict(run.also),
    }


def _samples(run: Run) -> dict[str, tuple[Sample, ...]]:
    """By way, in the order of the log. Where no interval is of all streams together they are added up."""
    ways: dict[str, dict[tuple[float, float, bool], list[Interval]]] = defaultdict(dict)
    for each in run.intervals:
        if each.end_s > each.start_s:
            key = (each.start_s, each.end_s, each.is_omitted)
            ways[each.way].setdefault(key, []).append(each)
    return {
        way: tuple(_sample(seq, alike, run) for seq, alike in enumerate(at_once.values()))
        for way, at_once in ways.items()
    }


def _sample(seq: int, at_once: Sequence[Interval], run: Run) -> Sample:
    of_streams = [each for each in at_once if each.stream is not None]
    together = next((each.values for each in at_once if each.stream is None), None)
    values = _sum(each.values for each in of_streams) if together is None else together
    first = at_once[0]
    return Sample(
        seq=seq,
        t_s=first.end_s,
        interval_s=first.end_s - first.start_s,
        bytes_sent=0,
        bytes_received=0,
        counters={**_counters(values), **({OMITTED: 1.0} if first.is_omitted else {})},
        streams=tuple(_stream(each, run) for each in {each.stream: each for each in of_streams}.values()),
    )


def _sum(streams: Iterable[Mapping[str, Figure]]) -> dict[str, Figure]:
    told = list(streams)
    return {
        name: Figure(
            sum(each[name].value for each in told),
            sum(each[name].low for each in told),
            sum(each[name].high for each in told),
        )
        for name in _ADD_UP
        if all(name in each for each in told)
    }


def _counters(values: Mapping[str, Figure]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, figure in values.items():
        found[name] = figure.value
        if figure.low < figure.high:
            found |= {name + LOW: figure.low, name + HIGH: figure.high}
    return found


def _stream(interval: Interval, run: Run) -> StreamSample:
    values = {name: figure.value for name, figure in interval.values.items()}
    cwnd, retransmits = values.get("cwnd_bytes"), values.get("retransmits")
    return StreamSample(
        stream=interval.stream or 0,
        role=_ROLES.get(run.told_by, "both"),
        bytes=round(values.get("bytes", 0)),
        rtt_us=values.get("rtt_us"),
        cwnd=None if cwnd is None else round(cwnd),
        retransmits=None if retransmits is None else round(retransmits),
    )
