"""The TCP transfers of a Flent file: what netperf told of each at its end, and on the way.

The rates are in 10^6 bit/s with two decimals, of what the receiving end took in (netperf's `nettest_omni.c`);
the times are Unix times with three (`demo_interval_display` in its `netlib.c`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval
from vnetbench.importers.tools.flent.json_values import mapped, number, told

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
"""Of netperf's times, and half of the last decimal of its rates and times."""


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


def transfer_of(name: str, meta: Mapping[str, Any], points: Sequence[Any]) -> Transfer | None:
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


def goodput(transfers: Sequence[Transfer]) -> dict[str, Figure]:
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


def intervals(transfers: Sequence[Transfer]) -> Iterator[Interval]:
    """Of each way all transfers together, in the intervals of the one that told the fewest.

    netperf's processes do not tell at the same times, so within an interval of another the rate of each is
    taken as even. Of transfers that were hardly all told of at once there are none.
    """
    begin, end = loaded_time(transfers)
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


def loaded_time(transfers: Sequence[Transfer]) -> tuple[float, float]:
    """Unix times, from the first transfer's beginning to the last one's end; both 0 where none is told."""
    ends = [(t.course[0][0], t.course[-1][0]) for t in transfers if t.course]
    return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else (0.0, 0.0)
