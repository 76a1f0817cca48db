"""Flent's files (`.flent`, `.flent.gz`): a JSON document of a run, with the series of all tools in it.

What the keys hold is told by Flent's source (2.3.0): `resultset.py` writes the document, `runners.py` fills
the series from what netperf, ping, fping and irtt print. The bandwidth is netperf's: 10^6 bit/s with two
decimals, of what the receiving end took in (`nettest_omni.c`); times are Unix times with three decimals.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import gcd
from operator import itemgetter
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.importers.flent_probes import Probe, latencies, probes_of
from vnetbench.importers.flent_values import listed, mapped, number, told
from vnetbench.importers.reader import DocumentReader
from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval, Run
from vnetbench.study.factors import parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import MIXED, REQUESTS, STREAM

NEWEST_FORM = 4
"""`FILEFORMAT_VERSION` of resultset.py."""

_TEST = re.compile(r"\s-t\s*(TCP_STREAM|TCP_MAERTS|UDP_RR)\b")
"""Of a series' command: `/usr/bin/netperf -P 0 -v 0 -D -0.20 -4 -H host -t TCP_MAERTS -l 60 -f m …`."""
_WAYS = {"TCP_STREAM": FORWARD, "upload": FORWARD, "TCP_MAERTS": REVERSE, "download": REVERSE}
_TRANSFER = re.compile(r"TCP (upload|download)(?!.* (avg|sum|fairness)$)")
"""A series' name in files before 1.0, which keep no commands: `TCP upload BE`, but not `TCP upload avg`."""
_MEGABIT = 1e6
_LEAST_TOGETHER = 0.5
"""Share of the load for which all transfers of a way are told of, if it is to have intervals."""
_DECIMALS = 3
_HALF_RATE, _HALF_TIME_S = 0.005, 0.0005
"""Of netperf's times, and half of the last decimal of its rates and times (`demo_interval_display`)."""


@dataclass(frozen=True)
class Transfer:
    """One series of netperf's TCP_STREAM or TCP_MAERTS."""

    name: str
    way: str
    meta: Mapping[str, Any]
    points: tuple[tuple[float, float, float], ...]
    """End (Unix time, s), length (s) and rate (10^6 bit/s) of each interval, in order, none over another."""

    @property
    def result(self) -> float | None:
        """netperf's own figure of the whole transfer, 10^6 bit/s."""
        return number(self.meta.get("MEAN_VALUE"), least=0)

    @cached_property
    def course(self) -> tuple[tuple[float, Figure], ...]:
        """Times, ascending, with the bytes that had arrived by then."""
        steps: list[tuple[float, Figure]] = []
        told = Figure.exact(0.0)
        for end, length, rate in self.points:
            steps.append((end - length, told))
            told = _plus(told, _bytes(length, rate))
            steps.append((end, told))
        return tuple(steps)


def read(document: Any, first_line: int, last_line: int) -> list[Run]:
    """The runs of a document: one, or of a test without transfers one for each kind of probe."""
    meta = mapped(document["metadata"])
    values = mapped(document.get("raw_values"))
    series = {name: mapped(each) for name, each in mapped(meta.get("SERIES_META")).items()}
    points = {
        name: listed(values.get(name)) or listed(each.get("RAW_VALUES")) for name, each in series.items()
    }
    transfers = [t for name, each in series.items() if (t := _transfer(name, each, points[name]))]
    probes = [
        p for name, each in series.items() if (p := probes_of(name, each, points[name], _form(document)))
    ]
    common: dict[str, Any] = {
        "tool": "flent",
        "version": told(meta.get("FLENT_VERSION") or meta.get("NETPERF_WRAPPER_VERSION")),
        "first_line": first_line,
        "last_line": last_line,
        "started_at": _time(meta.get("TIME")),
        "also": _also(meta, series),
    }
    if _form(document) > NEWEST_FORM:
        common["fault"] = (
            f"the file's form {_form(document)} is newer than {NEWEST_FORM}, which is understood"
        )
    if transfers:
        return [_loaded(meta, transfers, probes, common)]
    if probes:
        return [_probed(meta, probe, common) for probe in probes]
    names = ", ".join(list(series)[:4]) or "none"
    fault = f"the test {told(meta.get('NAME'))} has neither a TCP transfer nor a ping (its series: {names})"
    return [Run(workload=STREAM, factors={}, figures={}, **{"fault": fault, **common})]


def _loaded(
    meta: Mapping[str, Any], transfers: Sequence[Transfer], probes: Sequence[Probe], common: dict[str, Any]
) -> Run:
    """A run with transfers. Those of the rrul family ask how latency fares meanwhile, the others do not."""
    is_mixed = "rrul" in told(meta.get("NAME")) and any(probe.times for probe in probes)
    silent = [transfer.name for transfer in transfers if transfer.result is None]
    figures = {} if silent else _goodput(transfers)
    factors = {**_stream_factors(transfers), **_address_factor(meta)}
    remarks = []
    if is_mixed:
        begin, end = _loaded_time(transfers)
        figures |= latencies(probes, begin, end)
        factors |= _probe_factors(probes)
        kinds = " and ".join(sorted({probe.kind for probe in probes if probe.times}))
        remarks.append(f"its latencies are those of {kinds} probes, not of TCP requests")
    hosts = len(listed(meta.get("HOSTS")))
    if hosts > 1:
        remarks.append(f"its transfers go to {hosts} hosts")
    lacking = number(meta.get("FAILED_RUNNERS")) or 0
    if lacking and not silent:
        remarks.append(f"{lacking:.0f} of Flent's other series have no values")
    if silent and "fault" not in common:
        common["fault"] = f"no result of {len(silent)} of {len(transfers)} transfers: {', '.join(silent[:4])}"
    return Run(
        workload=MIXED if is_mixed else STREAM,
        factors=factors,
        figures=figures,
        intervals=tuple(_intervals(transfers)),
        duration_s=_duration(meta, transfers),
        told_by="receiver",
        remarks=tuple(remarks),
        **common,
    )


def _probed(meta: Mapping[str, Any], probe: Probe, common: dict[str, Any]) -> Run:
    """A run of one kind of probe alone."""
    return Run(
        workload=REQUESTS,
        factors={**_probe_factors([probe]), **_address_factor(meta)},
        figures=probe.figures(),
        duration_s=number(meta.get("LENGTH"), least=0),
        told_by="sender",
        remarks=(f"its requests are {probe.kind} probes, not TCP requests",),
        **common,
    )


def _transfer(name: str, meta: Mapping[str, Any], points: Sequence[Any]) -> Transfer | None:
    says_what_ran = "COMMAND" in meta or "RUNNER" in meta
    test = _TEST.search(told(meta.get("COMMAND"))) if says_what_ran else _TRANSFER.match(name)
    if test is None or test[1] not in _WAYS:
        return None
    return Transfer(name, _WAYS[test[1]], meta, tuple(_ordered(points)))


def _ordered(points: Sequence[Any]) -> Iterator[tuple[float, float, float]]:
    """What can be an interval: finite numbers, a length, and not before the one that was told before."""
    told_until = 0.0
    for point in map(mapped, points):
        end, length, rate = (number(point.get(key), least=0) for key in ("t", "dur", "val"))
        if end is None or rate is None or not length or end <= told_until:
            continue
        yield end, min(length, end - told_until), rate
        told_until = end


def _goodput(transfers: Sequence[Transfer]) -> dict[str, Figure]:
    """The sums of what netperf told of each transfer; each way's where both are at work."""
    ways = {t.way for t in transfers}
    names = {"goodput_bps": ways}
    if len(ways) > 1:
        names |= {"goodput_forward_bps": {FORWARD}, "goodput_reverse_bps": {REVERSE}}
    found = {}
    for name, counted in names.items():
        rates = [t.result or 0.0 for t in transfers if t.way in counted]
        half = _HALF_RATE * len(rates)
        value = sum(rates)
        found[name] = Figure(*(each * _MEGABIT for each in (value, max(0.0, value - half), value + half)))
    return {**found, **_retransmits(transfers)}


def _retransmits(transfers: Sequence[Transfer]) -> dict[str, Figure]:
    """Of the sending ends, where each transfer tells them and how long it took."""
    counts = [number(t.meta.get("TCP_RETRANSMIT"), least=0) for t in transfers]
    times = [number(t.meta.get("ELAPSED_TIME"), least=0) for t in transfers]
    rates = [count / time for count, time in zip(counts, times, strict=True) if count is not None and time]
    return {"retransmits_per_s": Figure.exact(sum(rates))} if len(rates) == len(transfers) else {}


def _stream_factors(transfers: Sequence[Transfer]) -> dict[str, Level]:
    forward = sum(t.way == FORWARD for t in transfers)
    reverse = len(transfers) - forward
    if not (forward and reverse):
        streams, direction = len(transfers), FORWARD if forward else REVERSE
    else:
        streams = gcd(forward, reverse)
        direction = f"{forward // streams}/{reverse // streams}"
    raw = {
        "streams": streams,
        "direction": direction,
        "congestion_control": _alike(transfers, "CONG_CONTROL"),
        "message_size": _alike(transfers, "SEND_SIZE"),
    }
    return _levels(raw)


def _probe_factors(probes: Sequence[Probe]) -> dict[str, Level]:
    asking = [probe for probe in probes if probe.times] or probes
    rates = {probe.rate for probe in asking}
    return {
        **_levels({"connections": len(asking), "rate": rates.pop() if len(rates) == 1 else None}),
        "label_probes": ", ".join(sorted({probe.kind for probe in asking})),
    }


def _address_factor(meta: Mapping[str, Any]) -> dict[str, Level]:
    return _levels({"ip_version": told(meta.get("IP_VERSION")) or None})


def _levels(raw: Mapping[str, object]) -> dict[str, Level]:
    """The canonical levels of what is told and can be one of ours."""
    found: dict[str, Level] = {}
    for name, value in raw.items():
        try:
            if value is not None:
                found[name] = parse_level(name, value)
        except BenchError:
            continue
    return found


def _alike(transfers: Sequence[Transfer], key: str) -> object | None:
    """What all transfers tell under that name, where it is the same."""
    first = transfers[0].meta.get(key)
    return (
        first if isinstance(first, str | int) and all(t.meta.get(key) == first for t in transfers) else None
    )


def _intervals(transfers: Sequence[Transfer]) -> Iterator[Interval]:
    """Of each way all transfers together, in the intervals of the one that told the fewest.

    netperf's processes do not tell at the same times, so within an interval of another the rate of each is
    taken as even. Of transfers that were hardly all told of at once there are none.
    """
    begin, end = _loaded_time(transfers)
    for way in (FORWARD, REVERSE):
        together = [t for t in transfers if t.way == way]
        if not together or not all(t.points for t in together):
            continue
        first, last = max(t.course[0][0] for t in together), min(t.course[-1][0] for t in together)
        if last - first < _LEAST_TOGETHER * (end - begin):
            continue
        for until, length, _ in min((t.points for t in together), key=len):
            since = max(until - length, first)
            if since < until <= last:
                arrived = [_minus(_by(t.course, until), _by(t.course, since)) for t in together]
                start_s, end_s = (round(time - begin, _DECIMALS) for time in (since, until))
                yield Interval(start_s, end_s, {"bytes": _sum(arrived)}, way=way)


def _by(course: Sequence[tuple[float, Figure]], time: float) -> Figure:
    """How many bytes had arrived by then."""
    after = min(bisect_left(course, time, key=itemgetter(0)), len(course) - 1)
    (since, before), (until, then) = course[max(0, after - 1)], course[after]
    share = min(1.0, max(0.0, (time - since) / (until - since))) if until > since else 1.0
    ends = ((before.value, then.value), (before.low, then.low), (before.high, then.high))
    return Figure(*(a + share * (b - a) for a, b in ends))


def _bytes(length: float, rate: float) -> Figure:
    rates = (rate, max(0.0, rate - _HALF_RATE), rate + _HALF_RATE)
    lengths = (length, max(0.0, length - _HALF_TIME_S), length + _HALF_TIME_S)
    return Figure(*(r * _MEGABIT / 8 * s for r, s in zip(rates, lengths, strict=True)))


def _plus(a: Figure, b: Figure) -> Figure:
    return Figure(a.value + b.value, a.low + b.low, a.high + b.high)


def _minus(a: Figure, b: Figure) -> Figure:
    """Of two of one course: what was rounded before both is in neither."""
    return Figure(a.value - b.value, a.low - b.low, a.high - b.high)


def _sum(figures: Sequence[Figure]) -> Figure:
    return Figure(sum(f.value for f in figures), sum(f.low for f in figures), sum(f.high for f in figures))


def _loaded_time(transfers: Sequence[Transfer]) -> tuple[float, float]:
    """Unix times, from the first transfer's beginning to the last one's end; both 0 where none is told."""
    ends = [(t.course[0][0], t.course[-1][0]) for t in transfers if t.course]
    return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else (0.0, 0.0)


def _duration(meta: Mapping[str, Any], transfers: Sequence[Transfer]) -> float | None:
    times = [number(t.meta.get("ELAPSED_TIME"), least=0) for t in transfers]
    return max((time for time in times if time), default=None) or number(meta.get("LENGTH"), least=0)


def _also(meta: Mapping[str, Any], series: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    named = {"test": "NAME", "title": "TITLE", "note": "NOTE", "host": "HOST", "kernel": "KERNEL_RELEASE"}
    found = {ours: told(meta.get(theirs)) for ours, theirs in named.items()}
    pings = {
        f"{name}, mean": f"{each['MEAN_VALUE']} ms"
        for name, each in series.items()
        if name.startswith("Ping") and number(each.get("MEAN_VALUE")) is not None
    }
    return {name: text for name, text in {**found, **pings}.items() if text}


def _form(document: Mapping[str, Any]) -> int:
    return int(number(document.get("version"), least=1) or 1)


def _time(text: Any) -> datetime | None:
    """`2026-11-21T21:24:17.666403Z`; without the Z before 1.0."""
    try:
        return datetime.fromisoformat(told(text))
    except ValueError:
        return None


def _claims(document: Any) -> bool:
    meta = mapped(mapped(document).get("metadata"))
    return "FLENT_VERSION" in meta or "NETPERF_WRAPPER_VERSION" in meta


READERS = (DocumentReader("flent", "json", _claims, read),)
