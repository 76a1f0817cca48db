"""The parts of iperf3's JSON that tell of one run: what it asks for, and its intervals as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any

from vnetbench.importers.packed_intervals import Kind, PackedIntervals, packed
from vnetbench.importers.runs import FORWARD, REVERSE, Figure
from vnetbench.importers.tools.iperf3.endpoint_results import CLIENT, SERVER
from vnetbench.study.workloads import DATAGRAMS, STREAM

Json = Mapping[str, Any]


class Course:
    """The intervals of a run: they are fed one by one."""

    def __init__(self, start: Json) -> None:
        self.intervals = PackedIntervals()
        self.omitted_s = 0.0
        self.test = map_of(start.get("test_start"))
        self.role = SERVER if "accepted_connection" in start else CLIENT
        self.workload = DATAGRAMS if self.test.get("protocol") == "UDP" else STREAM
        self.is_both_ways = bool(number_of(self.test.get("bidir")))
        """Up to 3.15 only the intervals tell."""

    @property
    def direction(self) -> str:
        """The level of the factor."""
        if self.is_both_ways:
            return "both"
        return "reverse" if number_of(self.test.get("reverse")) else "forward"

    def way_of(self, stream: Json) -> str:
        """Which way a stream, or an end of it, goes: with both at work it says who sends."""
        if not self.is_both_ways:
            return REVERSE if self.direction == "reverse" else FORWARD
        return FORWARD if bool(stream.get("sender")) == (self.role == CLIENT) else REVERSE

    def take(self, interval: Json) -> None:
        """Sums are added up from the streams, as iperf3 does: up to 3.9 both ways' sums have one name."""
        streams = maps_of(interval.get("streams"))
        self.is_both_ways |= len({bool(each.get("sender")) for each in streams if "sender" in each}) > 1
        by_way: dict[str, list[Json]] = {}
        for each in streams:
            by_way.setdefault(self.way_of(each), []).append(each)
        for way, alike in by_way.items():
            self._take_way(way, alike)

    def _take_way(self, way: str, streams: Sequence[Json]) -> None:
        start_s, end_s = number_of(streams[0].get("start")), number_of(streams[0].get("end"))
        if start_s is None or end_s is None or not 0 <= start_s <= end_s:
            return
        is_omitted = streams[0].get("omitted") is True
        shift = 0.0 if is_omitted else self.omitted_s
        if is_omitted:
            self.omitted_s = max(self.omitted_s, end_s)
        told = [_values(each) for each in streams]
        rows: list[tuple[int | None, Mapping[str, float]]] = [
            (None, told[0] if len(told) == 1 else _sum(told))
        ]
        if len(told) > 1:
            rows += [
                (int(number_of(each.get("socket")) or 0), one)
                for each, one in zip(streams, told, strict=True)
            ]
        for stream, values in rows:
            number = self.intervals.number_of(Kind(tuple(values), stream, way, is_omitted))
            numbers = chain.from_iterable(packed(Figure.exact(value)) for value in values.values())
            self.intervals.append(number, start_s + shift, end_s + shift, numbers)


def intervals_of(document: Any) -> PackedIntervals:
    """The intervals of a whole document; none of one that is not iperf3's."""
    parts = map_of(document)
    course = Course(map_of(parts.get("start")))
    for interval in maps_of(parts.get("intervals")):
        course.take(interval)
    return course.intervals


_NAMES = {
    "bytes": ("bytes", 1.0),
    "retransmits": ("retransmits", 1.0),
    "packets": ("datagrams", 1.0),
    "lost_packets": ("lost", 1.0),
    "jitter_ms": ("jitter_us", 1e3),
    "snd_cwnd": ("cwnd_bytes", 1.0),
    "rtt": ("rtt_us", 1.0),
}
"""Values of an interval of a stream, with what they become."""
_ADD_UP = ("bytes", "retransmits", "datagrams", "lost")


def _values(stream: Json) -> dict[str, float]:
    found = {
        ours: factor * number
        for theirs, (ours, factor) in _NAMES.items()
        if (number := number_of(stream.get(theirs))) is not None
    }
    if "datagrams" in found and "lost" not in found:
        found.pop("bytes", None)  # The sender's bytes are not what arrived.
    return found


def _sum(streams: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found = {n: sum(each[n] for each in streams) for n in _ADD_UP if all(n in each for each in streams)}
    if all("jitter_us" in each for each in streams):
        found["jitter_us"] = sum(each["jitter_us"] for each in streams) / len(streams)
    return found


def map_of(value: Any) -> Json:
    """An object; an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def maps_of(value: Any) -> list[Json]:
    """The objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def number_of(value: Any) -> float | None:
    """Finite; a number that was not is null by now."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 and isfinite(value) else None


def numbers_of(maps: Iterable[Json], name: str) -> list[float]:
    """Of all of them, or none."""
    found = [number_of(each.get(name)) for each in maps]
    told = [each for each in found if each is not None]
    return told if len(told) == len(found) else []


def whole_of(value: Any) -> int | None:
    """A whole number."""
    number = number_of(value)
    return None if number is None else int(number)


def text_of(value: Any) -> str:
    """A text, or a number in words; else an empty one."""
    return value if isinstance(value, str) else f"{value:g}" if number_of(value) is not None else ""
