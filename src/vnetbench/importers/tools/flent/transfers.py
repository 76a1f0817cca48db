"""Read the TCP transfers in a Flent file: netperf's result of each, and its intervals.

Rates are in 10^6 bit/s with two decimals, of what the receiver read (netperf's `nettest_omni.c`). Times are
Unix times with three decimals (`demo_interval_display` in its `netlib.c`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from vnetbench.importers.arithmetic import sum_values
from vnetbench.importers.runs import FORWARD, REVERSE, ReportedValue, ReportInterval
from vnetbench.importers.tools.flent.json_values import as_number, as_object, as_text

_COMMAND_TEST = re.compile(r"\s-t\s*(TCP_STREAM|TCP_MAERTS|UDP_RR)\b")
"""In a series' command: `/usr/bin/netperf -P 0 -v 0 -D -0.20 -4 -H host -t TCP_MAERTS -l 60 -f m …`."""
_DIRECTIONS = {"TCP_STREAM": FORWARD, "upload": FORWARD, "TCP_MAERTS": REVERSE, "download": REVERSE}
_TRANSFER_NAME = re.compile(r"TCP (upload|download)(?!.* (avg|sum|fairness)$)")
"""Name of a series in files before 1.0, which have no commands: `TCP upload BE`, but not `TCP upload avg`."""
_MEGABIT = 1e6
_MIN_OVERLAP = 0.5
"""Share of the load that all transfers of a direction must cover for it to have intervals."""
_DECIMALS = 3
_HALF_RATE_DIGIT, _HALF_TIME_DIGIT_S = 0.005, 0.0005
"""Half of the last decimal of netperf's rates and times. `_DECIMALS` is the number of decimals of its
times."""


@dataclass(frozen=True)
class Transfer:
    """One series of netperf's TCP_STREAM or TCP_MAERTS."""

    name: str
    direction: str
    meta: Mapping[str, Any]
    points: tuple[tuple[float, float, float], ...]
    """End (Unix time, s), length (s) and rate (10^6 bit/s) of each interval, in order and without overlap."""

    @property
    def result(self) -> float | None:
        """Result of the whole transfer as netperf reports it, in 10^6 bit/s."""
        return as_number(self.meta.get("MEAN_VALUE"), least=0)

    @cached_property
    def cumulative_bytes(self) -> tuple[tuple[float, ReportedValue], ...]:
        """Times in ascending order, with the bytes that had arrived by then."""
        points: list[tuple[float, ReportedValue]] = []
        total = ReportedValue.exact(0.0)
        for end, length, rate in self.points:
            points.append((end - length, total))
            total = _add(total, _interval_bytes(length, rate))
            points.append((end, total))
        return tuple(points)


def parse_transfer(name: str, meta: Mapping[str, Any], points: Sequence[Any]) -> Transfer | None:
    """Return the series of this name as a transfer; None if it is none."""
    has_command = "COMMAND" in meta or "RUNNER" in meta
    test = _COMMAND_TEST.search(as_text(meta.get("COMMAND"))) if has_command else _TRANSFER_NAME.match(name)
    if test is None or test[1] not in _DIRECTIONS:
        return None
    return Transfer(name, _DIRECTIONS[test[1]], meta, tuple(_parse_points(points)))


def _parse_points(points: Sequence[Any]) -> Iterator[tuple[float, float, float]]:
    """Yield valid intervals: finite numbers, a length, and no overlap with the interval before."""
    previous_end = 0.0
    for point in map(as_object, points):
        end, length, rate = (as_number(point.get(key), least=0) for key in ("t", "dur", "val"))
        if end is None or rate is None or not length or end <= previous_end:
            continue
        yield end, min(length, end - previous_end), rate
        previous_end = end


def goodput_metrics(transfers: Sequence[Transfer]) -> dict[str, ReportedValue]:
    """Return the sum of netperf's results, also by direction if both are in use."""
    directions = {t.direction for t in transfers}
    names = {"goodput_bps": directions}
    if len(directions) > 1:
        names |= {"goodput_forward_bps": {FORWARD}, "goodput_reverse_bps": {REVERSE}}
    metrics = {}
    for name, included in names.items():
        rates = [t.result or 0.0 for t in transfers if t.direction in included]
        half_digit = _HALF_RATE_DIGIT * len(rates)
        value = sum(rates)
        metrics[name] = ReportedValue(
            *(each * _MEGABIT for each in (value, max(0.0, value - half_digit), value + half_digit))
        )
    return {**metrics, **_compute_retransmits(transfers)}


def _compute_retransmits(transfers: Sequence[Transfer]) -> dict[str, ReportedValue]:
    """Return the retransmissions of the senders, if each transfer has them and its duration."""
    counts = [as_number(t.meta.get("TCP_RETRANSMIT"), least=0) for t in transfers]
    times = [as_number(t.meta.get("ELAPSED_TIME"), least=0) for t in transfers]
    rates = [count / time for count, time in zip(counts, times, strict=True) if count is not None and time]
    return {"retransmits_per_s": ReportedValue.exact(sum(rates))} if len(rates) == len(transfers) else {}


def build_intervals(transfers: Sequence[Transfer]) -> Iterator[ReportInterval]:
    """Yield the intervals of each direction, all transfers active.

    They are the intervals of the transfer that has the fewest. netperf's processes do not report at the same
    times. So within an interval of another process the rate of each counts as constant. A direction whose
    transfers hardly overlap has no intervals.
    """
    begin, end = load_period(transfers)
    for direction in (FORWARD, REVERSE):
        active = [t for t in transfers if t.direction == direction]
        if not active or not all(t.points for t in active):
            continue
        first, last = (
            max(t.cumulative_bytes[0][0] for t in active),
            min(t.cumulative_bytes[-1][0] for t in active),
        )
        if last - first < _MIN_OVERLAP * (end - begin):
            continue
        for interval_end, length, _ in min((t.points for t in active), key=len):
            interval_start = max(interval_end - length, first)
            if interval_start < interval_end <= last:
                arrived = [
                    _subtract(
                        _bytes_until(t.cumulative_bytes, interval_end),
                        _bytes_until(t.cumulative_bytes, interval_start),
                    )
                    for t in active
                ]
                start_s, end_s = (round(time - begin, _DECIMALS) for time in (interval_start, interval_end))
                yield ReportInterval(start_s, end_s, {"bytes": sum_values(arrived)}, direction=direction)


def _bytes_until(cumulative_bytes: Sequence[tuple[float, ReportedValue]], time: float) -> ReportedValue:
    """Return the bytes that had arrived at a time."""
    after = min(bisect_left(cumulative_bytes, time, key=itemgetter(0)), len(cumulative_bytes) - 1)
    (since, before), (until, then) = cumulative_bytes[max(0, after - 1)], cumulative_bytes[after]
    fraction = min(1.0, max(0.0, (time - since) / (until - since))) if until > since else 1.0
    ends = ((before.value, then.value), (before.low, then.low), (before.high, then.high))
    return ReportedValue(*(a + fraction * (b - a) for a, b in ends))


def _interval_bytes(length: float, rate: float) -> ReportedValue:
    rates = (rate, max(0.0, rate - _HALF_RATE_DIGIT), rate + _HALF_RATE_DIGIT)
    lengths = (length, max(0.0, length - _HALF_TIME_DIGIT_S), length + _HALF_TIME_DIGIT_S)
    return ReportedValue(*(r * _MEGABIT / 8 * s for r, s in zip(rates, lengths, strict=True)))


def _add(a: ReportedValue, b: ReportedValue) -> ReportedValue:
    return ReportedValue(a.value + b.value, a.low + b.low, a.high + b.high)


def _subtract(a: ReportedValue, b: ReportedValue) -> ReportedValue:
    """Return the difference of two points of one series: the rounding before both cancels out."""
    return ReportedValue(a.value - b.value, a.low - b.low, a.high - b.high)


def load_period(transfers: Sequence[Transfer]) -> tuple[float, float]:
    """Return Unix times of the first transfer's start and the last one's end; both are 0 if unknown."""
    ends = [(t.cumulative_bytes[0][0], t.cumulative_bytes[-1][0]) for t in transfers if t.cumulative_bytes]
    return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else (0.0, 0.0)
