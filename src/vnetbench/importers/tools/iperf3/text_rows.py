"""Collect the rows of iperf3's tables: intervals as they arrive, and the summary at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from vnetbench.importers.packed_intervals import (
    AlternatingValuesAndHalfWidths,
    IntervalFormat,
    PackedIntervals,
    pack_value_and_half_width,
)
from vnetbench.importers.runs import FORWARD, REVERSE, RoundedValue
from vnetbench.importers.tools.iperf3.endpoint_results import (
    CLIENT,
    RECEIVER,
    SENDER,
    DirectionAndEndpoint,
    EndpointResult,
    rate_per_s,
    sender_or_receiver,
    split_udp_result,
)
from vnetbench.importers.units import BITS_BY_UNIT, BYTES_BY_UNIT, parse_rounded, parse_with_unit

_UNKNOWN_DIRECTION = ""
_DIRECTION_BY_ROLE = {
    None: _UNKNOWN_DIRECTION,
    "TX-C": FORWARD,
    "RX-C": REVERSE,
    "TX-S": REVERSE,
    "RX-S": FORWARD,
}
"""Directions of the roles in the rows of `--bidir`."""
_ALL_STREAMS_ID = "SUM"
_BITS_PER_S_BY_RATE_UNIT = {**BITS_BY_UNIT, **{unit: 8 * factor for unit, factor in BYTES_BY_UNIT.items()}}
"""`-f M` prints MBytes/sec of 1024² bytes (units.c, `conversion_bytes`)."""
_BYTES_ROW_VALUE_NAMES: tuple[str, ...] = ("bytes",)
_SUM_ROW_VALUE_NAMES = ("bytes", "retransmits")
_SENDER_ROW_VALUE_NAMES = ("bytes", "retransmits", "cwnd_bytes")
_RECEIVER_ROW_VALUE_NAMES: tuple[str, ...] = ("bytes", "datagrams", "lost", "jitter_us")
_UDP_SENDER_ROW_VALUE_NAMES = ("datagrams",)
"""What a UDP sender reports. Its bytes are left out because they are not what arrived."""
_US_PER_MS = 1e3
"""Jitter is printed in milliseconds."""
_MAX_CACHED_NUMBERS = 65536
"""Printed numbers have few digits, so nearly all numbers of a long log repeat."""


@dataclass(frozen=True)
class _SummaryRow:
    """A row of the summary."""

    duration_s: RoundedValue
    bits_per_s: RoundedValue
    jitter_us: RoundedValue | None
    lost_datagrams: int | None
    total_datagrams: int | None
    retransmits_or_datagrams: int | None


class TextRows:
    """Collects all rows of a run one by one."""

    def __init__(self) -> None:
        self.intervals = PackedIntervals()
        self.omitted_s = 0.0
        self.is_lone_count_of_datagrams = False
        """Whether a lone number behind the bit rate counts datagrams. The header reveals it."""
        self._summary: dict[tuple[str, str, str], _SummaryRow] = {}
        self._format_index_by_columns: dict[tuple[str, str | None, str | None, tuple[str, ...]], int] = {}
        self._stream_ids_by_direction: dict[str, set[str]] = {}
        self._rows_since_sum = 0

    def add_interval(self, row_groups: tuple[str | Any, ...]) -> bool:
        """Add the groups of an interval's row. Return False if its times are not in order.

        There may be millions of rows, so this method creates as few objects as possible.
        """
        name, role, start, end, transfer, unit, _, _, jitter, lost, total, count, cwnd, cwnd_unit, mark = (
            row_groups
        )
        start_s, end_s = float(start), float(end)
        if end_s < start_s:
            return False
        if total is not None and lost != "Unknown":
            numbers = (
                _pack_rounded_bytes(transfer, unit)
                + _pack_exact_count(total)
                + _pack_exact_count(lost)
                + _pack_jitter_us(jitter)
            )
            names = _RECEIVER_ROW_VALUE_NAMES
        elif count is None:
            numbers, names = _pack_rounded_bytes(transfer, unit), _BYTES_ROW_VALUE_NAMES
        elif self.is_lone_count_of_datagrams:
            numbers, names = _pack_exact_count(count), _UDP_SENDER_ROW_VALUE_NAMES
        elif cwnd is None:
            numbers, names = (
                _pack_rounded_bytes(transfer, unit) + _pack_exact_count(count),
                _SUM_ROW_VALUE_NAMES,
            )
        else:
            numbers, names = (
                _pack_rounded_bytes(transfer, unit)
                + _pack_exact_count(count)
                + _pack_rounded_bytes(cwnd, cwnd_unit),
                _SENDER_ROW_VALUE_NAMES,
            )
        interval_format = self._format_index_by_columns.get((name, role, mark, names))
        if interval_format is None:
            interval_format = self._register_interval_format(name, role, mark, names)
        if mark is None:
            start_s, end_s = start_s + self.omitted_s, end_s + self.omitted_s
        elif end_s > self.omitted_s:
            self.omitted_s = end_s
        self.intervals.append_interval(interval_format, start_s, end_s, numbers)
        self._rows_since_sum += 1
        if name == _ALL_STREAMS_ID:
            self.intervals.overwrite_preceding_times_with_last(self._rows_since_sum - 1)
            self._rows_since_sum = 0
        return True

    def add_summary(self, row: re.Match[str]) -> None:
        """Add a row of the summary. A row whose rate is not a number (a run without duration) is ignored."""
        direction, mark = _DIRECTION_BY_ROLE[row["role"]], row["mark"] or ""
        try:
            rate = parse_with_unit(row["rate"], row["rate_unit"], _BITS_PER_S_BY_RATE_UNIT)
        except ValueError:
            return
        is_known = row["lost"] not in (None, "Unknown")
        self._record_stream_id(direction, row["id"])
        self._summary[direction, row["id"], mark] = _SummaryRow(
            parse_rounded(row["end"]),
            rate,
            parse_rounded(row["jitter"], _US_PER_MS) if row["jitter"] else None,
            int(row["lost"]) if is_known else None,
            int(row["total"]) if row["total"] else None,
            int(row["count"]) if row["count"] else None,
        )

    @property
    def is_bidirectional(self) -> bool:
        """Whether the rows name their roles, as those of `--bidir` do."""
        return any(direction != _UNKNOWN_DIRECTION for direction in self._stream_ids_by_direction)

    @property
    def stream_count_per_direction(self) -> int:
        """Number of streams in each direction."""
        return max(
            (len(ids - {_ALL_STREAMS_ID}) for ids in self._stream_ids_by_direction.values()), default=0
        )

    @property
    def has_only_sender(self) -> bool:
        """Whether the summary has results of the sender, and none or zeros of the receiver."""
        rates = {mark: row.bits_per_s.value for (_, _, mark), row in self._summary.items() if mark}
        return rates.get(SENDER, 0.0) > 0 and not rates.get(RECEIVER)

    def summary_endpoints(self) -> dict[str, set[str]]:
        """Return the endpoints whose summary row of all streams exists, by direction.

        An old summary row names no endpoint; it counts as an empty name.
        """
        return {
            direction: {
                mark for mark in (SENDER, RECEIVER, "") if self._find_all_streams_row(direction, mark)
            }
            for direction, _, _ in self._summary
        }

    def set_interval_directions(self, directions: Sequence[str]) -> None:
        """Set the directions of the intervals and whether they are of all streams.

        Both are known only at the end.
        """
        stream_counts = {
            direction: len(ids - {_ALL_STREAMS_ID})
            for direction, ids in self._stream_ids_by_direction.items()
        }
        self.intervals.replace_formats(
            lambda interval_format: _complete_format(interval_format, directions, stream_counts)
        )

    def endpoint_results(
        self, directions: Sequence[str], datagram_bytes: int | None, role: str
    ) -> dict[DirectionAndEndpoint, EndpointResult]:
        """Return the results of the endpoints.

        Call `set_interval_directions` first. `datagram_bytes` is the payload, if it is known.
        """
        endpoint_results: dict[DirectionAndEndpoint, EndpointResult] = {}
        for direction in directions:
            row_direction = direction if self.is_bidirectional else _UNKNOWN_DIRECTION
            for mark in (SENDER, RECEIVER, ""):
                row = self._find_all_streams_row(row_direction, mark)
                if row is not None and mark:
                    endpoint_results[direction, mark] = _to_endpoint_result(row, mark)
                elif row is not None:
                    endpoint_results.update(self._split_old_udp_summary(row, direction, datagram_bytes, role))
        return endpoint_results

    def _find_all_streams_row(self, direction: str, mark: str) -> _SummaryRow | None:
        names = self._stream_ids_by_direction.get(direction, set())
        name = (
            _ALL_STREAMS_ID if _ALL_STREAMS_ID in names else next(iter(names), "") if len(names) == 1 else ""
        )
        return self._summary.get((direction, name, mark))

    def _split_old_udp_summary(
        self, row: _SummaryRow, direction: str, datagram_bytes: int | None, role: str
    ) -> Iterator[tuple[DirectionAndEndpoint, EndpointResult]]:
        local = sender_or_receiver(role or CLIENT, direction)
        bits = None if datagram_bytes is None else 8.0 * datagram_bytes
        arrived = (
            8 * self.intervals.sum_all_streams_intervals("bytes", direction) if local == RECEIVER else 0.0
        )
        rate = rate_per_s(arrived, row.duration_s) if arrived else None
        line = EndpointResult(
            row.duration_s, row.bits_per_s, None, row.total_datagrams, row.lost_datagrams, row.jitter_us
        )
        return split_udp_result(line, direction, local, bits, rate)

    def _record_stream_id(self, direction: str, stream_id: str) -> None:
        self._stream_ids_by_direction.setdefault(direction, set()).add(stream_id)

    def _register_interval_format(
        self, stream_id: str, role: str | None, mark: str | None, names: tuple[str, ...]
    ) -> int:
        direction = _DIRECTION_BY_ROLE[role]
        self._record_stream_id(direction, stream_id)
        stream = None if stream_id == _ALL_STREAMS_ID else int(stream_id)
        number = self.intervals.register_format(IntervalFormat(names, stream, direction, mark is not None))
        self._format_index_by_columns[stream_id, role, mark, names] = number
        return number


def _complete_format(
    interval_format: IntervalFormat, directions: Sequence[str], stream_count_by_direction: Mapping[str, int]
) -> IntervalFormat:
    """Mark a single stream as all streams, and give rows without a role the only direction in use."""
    stream_number = (
        interval_format.stream_number
        if stream_count_by_direction.get(interval_format.direction, 0) > 1
        else None
    )
    return replace(
        interval_format,
        stream_number=stream_number,
        direction=interval_format.direction
        if interval_format.direction != _UNKNOWN_DIRECTION
        else directions[0],
    )


def _to_endpoint_result(row: _SummaryRow, end: str) -> EndpointResult:
    if row.total_datagrams is not None:
        return EndpointResult(
            row.duration_s, row.bits_per_s, None, row.total_datagrams, row.lost_datagrams, row.jitter_us
        )
    return EndpointResult(
        row.duration_s, row.bits_per_s, row.retransmits_or_datagrams if end == SENDER else None
    )


@lru_cache(_MAX_CACHED_NUMBERS)
def _pack_rounded_bytes(text: str, unit: str) -> AlternatingValuesAndHalfWidths:
    return pack_value_and_half_width(parse_with_unit(text, unit, BYTES_BY_UNIT))


@lru_cache(_MAX_CACHED_NUMBERS)
def _pack_exact_count(text: str) -> AlternatingValuesAndHalfWidths:
    return float(text), 0.0


@lru_cache(_MAX_CACHED_NUMBERS)
def _pack_jitter_us(text: str) -> AlternatingValuesAndHalfWidths:
    return pack_value_and_half_width(parse_rounded(text, _US_PER_MS))
