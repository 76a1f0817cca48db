"""Read the parts of iperf3's JSON that describe a run: the test that was requested, and the intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from vnetbench.importers.packed_intervals import IntervalFormat, PackedIntervals
from vnetbench.importers.tools.iperf3.endpoint_results import CLIENT, SERVER
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

JsonObject = Mapping[str, Any]


class IntervalCollector:
    """Collects the intervals of a run one by one."""

    def __init__(self, start: JsonObject) -> None:
        self.intervals = PackedIntervals()
        self.omitted_s = 0.0
        self.test_start = as_object(start.get("test_start"))
        self.role = SERVER if "accepted_connection" in start else CLIENT
        self.workload = UDP_STREAM if self.test_start.get("protocol") == "UDP" else TCP_STREAM
        self.is_bidirectional = bool(as_number(self.test_start.get("bidir")))
        """Up to 3.15 only the intervals reveal this."""

    @property
    def direction_level(self) -> str:
        """The level of the factor `direction`."""
        if self.is_bidirectional:
            return "both"
        return "reverse" if as_number(self.test_start.get("reverse")) else "forward"

    def stream_direction(self, stream: JsonObject) -> str:
        """Return the direction of a stream or of one of its endpoints.

        In a bidirectional test it says who sends.
        """
        if not self.is_bidirectional:
            return REVERSE if self.direction_level == "reverse" else FORWARD
        return FORWARD if bool(stream.get("sender")) == (self.role == CLIENT) else REVERSE

    def add(self, interval: JsonObject) -> None:
        """Add an interval.

        Sums are computed from the streams: up to 3.9 the sums of both directions have the same name.
        """
        streams = as_objects(interval.get("streams"))
        self.is_bidirectional |= len({bool(each.get("sender")) for each in streams if "sender" in each}) > 1
        by_direction: dict[str, list[JsonObject]] = {}
        for each in streams:
            by_direction.setdefault(self.stream_direction(each), []).append(each)
        for direction, same_direction in by_direction.items():
            self._add_direction(direction, same_direction)

    def _add_direction(self, direction: str, streams: Sequence[JsonObject]) -> None:
        start_s, end_s = as_number(streams[0].get("start")), as_number(streams[0].get("end"))
        if start_s is None or end_s is None or not 0 <= start_s <= end_s:
            return
        is_omitted = streams[0].get("omitted") is True
        shift = 0.0 if is_omitted else self.omitted_s
        if is_omitted:
            self.omitted_s = max(self.omitted_s, end_s)
        stream_values = [_parse_stream_values(each) for each in streams]
        rows: list[tuple[int | None, Mapping[str, float]]] = [
            (
                None,
                stream_values[0]
                if len(stream_values) == 1
                else _sum_counts_and_average_jitter(stream_values),
            )
        ]
        if len(stream_values) > 1:
            rows += [
                (int(as_number(each.get("socket")) or 0), values)
                for each, values in zip(streams, stream_values, strict=True)
            ]
        for stream, values in rows:
            number = self.intervals.register_format(
                IntervalFormat(tuple(values), stream, direction, is_omitted)
            )
            self.intervals.append_exact_interval(number, start_s + shift, end_s + shift, values)


def read_intervals(document: Any) -> PackedIntervals:
    """Return the intervals of a whole document; none if it is not from iperf3."""
    parts = as_object(document)
    collector = IntervalCollector(as_object(parts.get("start")))
    for interval in as_objects(parts.get("intervals")):
        collector.add(interval)
    return collector.intervals


_VALUE_NAME_AND_SCALE_BY_KEY = {
    "bytes": ("bytes", 1.0),
    "retransmits": ("retransmits", 1.0),
    "packets": ("datagrams", 1.0),
    "lost_packets": ("lost", 1.0),
    "jitter_ms": ("jitter_us", 1e3),
    "snd_cwnd": ("cwnd_bytes", 1.0),
    "rtt": ("rtt_us", 1.0),
}
"""Our names and factors, by the names of a stream's values in an interval."""
_ADDITIVE_VALUE_NAMES = ("bytes", "retransmits", "datagrams", "lost")


def _parse_stream_values(stream: JsonObject) -> dict[str, float]:
    values = {
        ours: factor * number
        for theirs, (ours, factor) in _VALUE_NAME_AND_SCALE_BY_KEY.items()
        if (number := as_number(stream.get(theirs))) is not None
    }
    if "datagrams" in values and "lost" not in values:
        values.pop("bytes", None)  # The sender's bytes are not what arrived.
    return values


def _sum_counts_and_average_jitter(streams: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sums = {
        n: sum(each[n] for each in streams)
        for n in _ADDITIVE_VALUE_NAMES
        if all(n in each for each in streams)
    }
    if all("jitter_us" in each for each in streams):
        sums["jitter_us"] = sum(each["jitter_us"] for each in streams) / len(streams)
    return sums


def as_object(value: Any) -> JsonObject:
    """Return the value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[JsonObject]:
    """Return the objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def as_number(value: Any) -> float | None:
    """Return the value if it is a finite number. The parser has replaced other numbers by null."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 and isfinite(value) else None


def numbers_if_all_present(maps: Iterable[JsonObject], name: str) -> list[float]:
    """Return the values of all objects, or none if one of them lacks it."""
    numbers = [as_number(each.get(name)) for each in maps]
    finite = [each for each in numbers if each is not None]
    return finite if len(finite) == len(numbers) else []


def as_integer(value: Any) -> int | None:
    """Return the value as a whole number, if it is a number."""
    number = as_number(value)
    return None if number is None else int(number)


def scalar_text_or_empty(value: Any) -> str:
    """Return a text as it is and a number as text; empty for anything else."""
    return value if isinstance(value, str) else f"{value:g}" if as_number(value) is not None else ""
