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
from typing import Any, NamedTuple

from vnetbench.importers.arithmetic import sum_values
from vnetbench.importers.runs import ReportInterval, RoundedValue
from vnetbench.importers.tools.flent.json_values import (
    object_or_empty,
    parse_finite_number_or_none,
    scalar_text_or_empty,
)
from vnetbench.study.factors.directions import FORWARD, REVERSE

_TEST_IN_COMMAND_PATTERN = re.compile(r"\s-t\s*(TCP_STREAM|TCP_MAERTS|UDP_RR)\b")
"""In a series' command: `/usr/bin/netperf -P 0 -v 0 -D -0.20 -4 -H host -t TCP_MAERTS -l 60 -f m …`."""
_DIRECTION_BY_TEST = {"TCP_STREAM": FORWARD, "upload": FORWARD, "TCP_MAERTS": REVERSE, "download": REVERSE}
_TRANSFER_NAME_PATTERN = re.compile(r"TCP (upload|download)(?!.* (avg|sum|fairness)$)")
"""Name of a series in files before 1.0, which have no commands: `TCP upload BE`, but not `TCP upload avg`."""
_BITS_PER_MEGABIT = 1e6
_MIN_COVERED_LOAD_SHARE = 0.5
"""Share of the load that all transfers of a direction must cover for it to have intervals."""
_TIME_DECIMALS = 3
_HALF_RATE_DIGIT_MBPS, _HALF_TIME_DIGIT_S = 0.005, 0.0005
"""Half of the last decimal of netperf's rates and times. `_TIME_DECIMALS` is the number of decimals of
its times."""


class RateInterval(NamedTuple):
    """The rate of one interval, as netperf printed it."""

    end_unix_s: float
    length_s: float
    rate_mbps: float
    """In 10^6 bit/s."""


@dataclass(frozen=True)
class Transfer:
    """One series of netperf's TCP_STREAM or TCP_MAERTS."""

    series_name: str
    direction: str
    series_metadata: Mapping[str, Any]
    rate_intervals: tuple[RateInterval, ...]
    """In order and without overlap."""

    @property
    def reported_rate_mbps(self) -> float | None:
        """Result of the whole transfer as netperf reports it, in 10^6 bit/s."""
        return parse_finite_number_or_none(self.series_metadata.get("MEAN_VALUE"), minimum=0)

    @cached_property
    def cumulative_bytes_by_unix_time(self) -> tuple[tuple[float, RoundedValue], ...]:
        """Times in ascending order, with the bytes that had arrived by then."""
        points: list[tuple[float, RoundedValue]] = []
        total = RoundedValue.exact(0.0)
        for end, length, rate in self.rate_intervals:
            points.append((end - length, total))
            total = _add_values(total, _interval_bytes(length, rate))
            points.append((end, total))
        return tuple(points)


def parse_transfer(series_name: str, meta: Mapping[str, Any], points: Sequence[Any]) -> Transfer | None:
    """Return the series of this name as a transfer; None if it is none."""
    has_command = "COMMAND" in meta or "RUNNER" in meta
    test = (
        _TEST_IN_COMMAND_PATTERN.search(scalar_text_or_empty(meta.get("COMMAND")))
        if has_command
        else _TRANSFER_NAME_PATTERN.match(series_name)
    )
    if test is None or test[1] not in _DIRECTION_BY_TEST:
        return None
    return Transfer(series_name, _DIRECTION_BY_TEST[test[1]], meta, tuple(_parse_intervals(points)))


def _parse_intervals(points: Sequence[Any]) -> Iterator[RateInterval]:
    """Yield valid intervals: finite numbers, a length, and no overlap with the interval before."""
    previous_end = 0.0
    for point in map(object_or_empty, points):
        end, length, rate = (
            parse_finite_number_or_none(point.get(key), minimum=0) for key in ("t", "dur", "val")
        )
        if end is None or rate is None or not length or end <= previous_end:
            continue
        yield RateInterval(end, min(length, end - previous_end), rate)
        previous_end = end


def goodput_metrics(transfers: Sequence[Transfer]) -> dict[str, RoundedValue]:
    """Return the sum of netperf's results, also by direction if both are in use."""
    directions = {t.direction for t in transfers}
    names = {"goodput_bps": directions}
    if len(directions) > 1:
        names |= {"goodput_forward_bps": {FORWARD}, "goodput_reverse_bps": {REVERSE}}
    metrics = {}
    for name, included in names.items():
        rates = [t.reported_rate_mbps or 0.0 for t in transfers if t.direction in included]
        half_digit = _HALF_RATE_DIGIT_MBPS * len(rates)
        value = sum(rates)
        metrics[name] = RoundedValue(
            *(each * _BITS_PER_MEGABIT for each in (value, max(0.0, value - half_digit), value + half_digit))
        )
    return {**metrics, **_compute_retransmit_rate(transfers)}


def _compute_retransmit_rate(transfers: Sequence[Transfer]) -> dict[str, RoundedValue]:
    """Return the retransmissions of the senders, if each transfer has them and its duration."""
    counts = [
        parse_finite_number_or_none(t.series_metadata.get("TCP_RETRANSMIT"), minimum=0) for t in transfers
    ]
    times = [parse_finite_number_or_none(t.series_metadata.get("ELAPSED_TIME"), minimum=0) for t in transfers]
    rates = [count / time for count, time in zip(counts, times, strict=True) if count is not None and time]
    return {"retransmits_per_s": RoundedValue.exact(sum(rates))} if len(rates) == len(transfers) else {}


def build_intervals(transfers: Sequence[Transfer]) -> Iterator[ReportInterval]:
    """Yield the intervals of each direction, all transfers active.

    They are the intervals of the transfer that has the fewest. netperf's processes do not report at the same
    times. So within an interval of another process the rate of each counts as constant. A direction whose
    transfers hardly overlap has no intervals.
    """
    begin, end = first_start_and_last_end_unix_s(transfers)
    for direction in (FORWARD, REVERSE):
        active = [t for t in transfers if t.direction == direction]
        if not active or not all(t.rate_intervals for t in active):
            continue
        first, last = (
            max(t.cumulative_bytes_by_unix_time[0][0] for t in active),
            min(t.cumulative_bytes_by_unix_time[-1][0] for t in active),
        )
        if last - first < _MIN_COVERED_LOAD_SHARE * (end - begin):
            continue
        for interval_end, length, _ in min((t.rate_intervals for t in active), key=len):
            interval_start = max(interval_end - length, first)
            if interval_start < interval_end <= last:
                arrived = [
                    _subtract_cumulative_values(
                        _bytes_arrived_until(t.cumulative_bytes_by_unix_time, interval_end),
                        _bytes_arrived_until(t.cumulative_bytes_by_unix_time, interval_start),
                    )
                    for t in active
                ]
                start_s, end_s = (
                    round(time - begin, _TIME_DECIMALS) for time in (interval_start, interval_end)
                )
                yield ReportInterval(start_s, end_s, {"bytes": sum_values(arrived)}, direction=direction)


def _bytes_arrived_until(
    cumulative_bytes_by_unix_time: Sequence[tuple[float, RoundedValue]], unix_s: float
) -> RoundedValue:
    """Return the bytes that had arrived at a time."""
    after = min(
        bisect_left(cumulative_bytes_by_unix_time, unix_s, key=itemgetter(0)),
        len(cumulative_bytes_by_unix_time) - 1,
    )
    (since, before), (until, then) = (
        cumulative_bytes_by_unix_time[max(0, after - 1)],
        cumulative_bytes_by_unix_time[after],
    )
    fraction = min(1.0, max(0.0, (unix_s - since) / (until - since))) if until > since else 1.0
    ends = ((before.value, then.value), (before.low, then.low), (before.high, then.high))
    return RoundedValue(*(a + fraction * (b - a) for a, b in ends))


def _interval_bytes(length_s: float, rate_mbps: float) -> RoundedValue:
    rates = (rate_mbps, max(0.0, rate_mbps - _HALF_RATE_DIGIT_MBPS), rate_mbps + _HALF_RATE_DIGIT_MBPS)
    lengths = (length_s, max(0.0, length_s - _HALF_TIME_DIGIT_S), length_s + _HALF_TIME_DIGIT_S)
    return RoundedValue(*(r * _BITS_PER_MEGABIT / 8 * s for r, s in zip(rates, lengths, strict=True)))


def _add_values(a: RoundedValue, b: RoundedValue) -> RoundedValue:
    return RoundedValue(a.value + b.value, a.low + b.low, a.high + b.high)


def _subtract_cumulative_values(a: RoundedValue, b: RoundedValue) -> RoundedValue:
    """Return the difference of two points of one series: the rounding before both cancels out."""
    return RoundedValue(a.value - b.value, a.low - b.low, a.high - b.high)


def first_start_and_last_end_unix_s(transfers: Sequence[Transfer]) -> tuple[float, float]:
    """Return Unix times of the first transfer's start and the last one's end; both are 0 if unknown."""
    ends = [
        (t.cumulative_bytes_by_unix_time[0][0], t.cumulative_bytes_by_unix_time[-1][0])
        for t in transfers
        if t.cumulative_bytes_by_unix_time
    ]
    return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else (0.0, 0.0)
