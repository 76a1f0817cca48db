"""Collect the rows of iperf3's tables: intervals as they arrive, and the summary at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from vnetbench.importers.packed_intervals import IntervalFormat, PackedIntervals
from vnetbench.importers.row_columns import Row
from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.tools.iperf3 import line_patterns
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
from vnetbench.importers.value_columns import (
    CachedNumbers,
    Floats,
    ValueColumn,
    cache_values,
    parse_floats,
)
from vnetbench.study.factors.directions import FORWARD, REVERSE

_UNKNOWN_DIRECTION = ""
_DIRECTION_BY_ROLE = {
    "": _UNKNOWN_DIRECTION,
    "TX-C": FORWARD,
    "RX-C": REVERSE,
    "TX-S": REVERSE,
    "RX-S": FORWARD,
}
"""Directions of the roles in the rows of `--bidir`."""
_ALL_STREAMS_ID = "SUM"
_SUM_NAMES = (_ALL_STREAMS_ID, *(f"{_ALL_STREAMS_ID}][{role}" for role in _DIRECTION_BY_ROLE if role))
"""Names of the rows of all streams."""
_BITS_PER_S_BY_RATE_UNIT = {**BITS_BY_UNIT, **{unit: 8 * factor for unit, factor in BYTES_BY_UNIT.items()}}
"""`-f M` prints MBytes/sec of 1024² bytes (units.c, `conversion_bytes`)."""
_BYTES_ONLY_ROW_VALUE_NAMES: tuple[str, ...] = ("bytes",)
_SUM_ROW_VALUE_NAMES = ("bytes", "retransmits")
_SENDER_ROW_VALUE_NAMES = ("bytes", "retransmits", "cwnd_bytes")
_RECEIVER_ROW_VALUE_NAMES: tuple[str, ...] = ("bytes", "datagrams", "lost", "jitter_us")
_UDP_SENDER_ROW_VALUE_NAMES = ("datagrams",)
"""What a UDP sender reports. Its bytes are left out because they are not what arrived."""
_US_PER_MS = 1e3
"""Jitter is printed in milliseconds."""


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
        self._stream_ids_by_direction: dict[str, set[str]] = {}
        self._rows_since_sum = 0

    def add_interval(self, row: re.Match[str]) -> bool:
        """Add an interval of `line_patterns.ROW_PATTERN`. Return False if its times are not in order."""
        groups = row.groupdict("")
        if groups["lost"] == "Unknown":
            groups |= {"jitter": "", "lost": "", "total": ""}
        columns = [(groups[name],) for name in line_patterns.INTERVAL_ROWS.names]
        return self._add_columns_and_list_unordered_rows(columns, are_omitted=bool(groups["mark"])) == []

    def add_intervals_and_list_unordered_rows(self, rows: Sequence[Row], *, are_omitted: bool) -> list[int]:
        """Add rows of `INTERVAL_ROWS` or `OMITTED_ROWS`, without the separators between them.

        Returns:
            The positions of rows whose times are not in order. They are left out.
        """
        positions = [position for position, row in enumerate(rows) if row[0]]
        if not positions:
            return []
        columns = list(zip(*(rows[position] for position in positions), strict=True))[:-1]
        return [
            positions[each]
            for each in self._add_columns_and_list_unordered_rows(columns, are_omitted=are_omitted)
        ]

    def _add_columns_and_list_unordered_rows(
        self, columns: Sequence[Sequence[str]], *, are_omitted: bool
    ) -> list[int]:
        names, times, transfers, jitters, lost, totals, counts, cwnds = columns
        starts_s, ends_s = _TIMES_S.parse(times).T
        is_in_order = starts_s <= ends_s
        if not is_in_order.all():
            kept = [tuple(compress(column, is_in_order)) for column in columns]
            if kept[0]:
                self._add_columns_and_list_unordered_rows(kept, are_omitted=are_omitted)
            return [int(position) for position in np.flatnonzero(~is_in_order)]
        if are_omitted:
            self.omitted_s = max(self.omitted_s, float(ends_s.max()))
        else:
            starts_s, ends_s = starts_s + self.omitted_s, ends_s + self.omitted_s
        values = {"bytes": _parse_bytes_column(transfers)}
        if any(totals):
            values |= {"lost": _parse_counts(lost), "jitter_us": _parse_jitters_us(jitters)}
        if any(cwnds):
            values["cwnd_bytes"] = _parse_bytes_column(cwnds)
        if any(totals) or self.is_lone_count_of_datagrams:
            datagrams = [total or count for total, count in zip(totals, counts, strict=True)]
            values["datagrams"] = _parse_counts(datagrams)
        if any(counts):
            values["retransmits"] = _parse_counts(counts)
        formats = self._register_formats(names, totals, counts, cwnds, are_omitted=are_omitted)
        is_sum = np.fromiter(map(_SUM_NAMES.__contains__, names), dtype=np.bool_, count=len(names))
        starts_s, ends_s = self._align_stream_times_with_sums(is_sum, starts_s, ends_s)
        self.intervals.extend(formats, starts_s, ends_s, values)
        return []

    def _align_stream_times_with_sums(
        self, is_sum: npt.NDArray[np.bool_], starts_s: Floats, ends_s: Floats
    ) -> tuple[Floats, Floats]:
        """Return the times of the rows. Streams have those of the next sum: the last digit may differ."""
        sums = np.flatnonzero(is_sum)
        if not len(sums):
            self._rows_since_sum += len(is_sum)
            return starts_s, ends_s
        self.intervals.overwrite_last_times(self._rows_since_sum, starts_s[sums[0]], ends_s[sums[0]])
        self._rows_since_sum = len(is_sum) - 1 - int(sums[-1])
        sources = np.arange(len(is_sum))
        sources[: sums[-1] + 1] = sums[np.searchsorted(sums, sources[: sums[-1] + 1])]
        return starts_s[sources], ends_s[sources]

    def _register_formats(
        self,
        names: Sequence[str],
        totals: Sequence[str],
        counts: Sequence[str],
        cwnds: Sequence[str],
        *,
        are_omitted: bool,
    ) -> list[int]:
        """Return the number of each row's format, by its name and by which optional columns it has."""
        number_by_name = {name: number for number, name in enumerate(dict.fromkeys(names))}
        kinds = np.fromiter(map(number_by_name.__getitem__, names), dtype=np.intp, count=len(names))
        for column in (totals, counts, cwnds):
            kinds = 2 * kinds + np.fromiter(map(bool, column), dtype=np.bool_, count=len(names))
        kind_by_row, distinct_names = kinds.tolist(), tuple(number_by_name)
        formats = {
            kind: self._register_format(
                distinct_names[kind >> 3],
                *(bool(kind >> bit & 1) for bit in (2, 1, 0)),
                is_omitted=are_omitted,
            )
            for kind in dict.fromkeys(kind_by_row)
        }
        return [formats[kind] for kind in kind_by_row]

    def add_summary(self, row: re.Match[str]) -> None:
        """Add a row of the summary. A row whose rate is not a number (a run without duration) is ignored."""
        mark, (stream_id, direction) = row["mark"] or "", _parse_stream_id_and_direction(row["name"])
        try:
            rate = parse_with_unit(row["rate"], row["rate_unit"], _BITS_PER_S_BY_RATE_UNIT)
        except ValueError:
            return
        is_known = row["lost"] not in (None, "Unknown")
        self._record_stream_id(direction, stream_id)
        self._summary[direction, stream_id, mark] = _SummaryRow(
            parse_rounded(row["times"].partition("-")[2]),
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
            lambda interval_format: _resolve_stream_and_direction(interval_format, directions, stream_counts)
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

    def _register_format(
        self, name: str, has_total: bool, has_count: bool, has_cwnd: bool, *, is_omitted: bool
    ) -> int:
        stream_id, direction = _parse_stream_id_and_direction(name)
        self._record_stream_id(direction, stream_id)
        stream = None if stream_id == _ALL_STREAMS_ID else int(stream_id)
        if has_total:
            names = _RECEIVER_ROW_VALUE_NAMES
        elif not has_count:
            names = _BYTES_ONLY_ROW_VALUE_NAMES
        elif self.is_lone_count_of_datagrams:
            names = _UDP_SENDER_ROW_VALUE_NAMES
        else:
            names = _SENDER_ROW_VALUE_NAMES if has_cwnd else _SUM_ROW_VALUE_NAMES
        return self.intervals.register_format(IntervalFormat(names, stream, direction, is_omitted))


def _parse_stream_id_and_direction(name: str) -> tuple[str, str]:
    """Return stream and direction of `5` or `5][TX-C`."""
    stream_id, _, role = name.partition("][")
    return stream_id, _DIRECTION_BY_ROLE[role]


def _resolve_stream_and_direction(
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


def _parse_bytes(text: str) -> RoundedValue:
    """Return the bytes of `12.3 MBytes`."""
    number, unit = text.split()
    return _mirror_upper_half_of_range(parse_with_unit(number, unit, BYTES_BY_UNIT))


def _mirror_upper_half_of_range(value: RoundedValue) -> RoundedValue:
    """Return a value with a range of the same width to either side."""
    half_width = value.high - value.value
    return RoundedValue(value.value, value.value - half_width, value.value + half_width)


def _parse_starts_and_ends_s(texts: Sequence[str]) -> Floats:
    """Return start and end of `0.00-1.00`."""
    return np.array([[float(time) for time in text.split("-")] for text in texts])


def _parse_counts(texts: Sequence[str]) -> ValueColumn:
    return ValueColumn.exact(parse_floats(texts))


_TIMES_S = CachedNumbers(2, _parse_starts_and_ends_s)
_parse_bytes_column = cache_values(_parse_bytes)
_parse_jitters_us = cache_values(lambda text: _mirror_upper_half_of_range(parse_rounded(text, _US_PER_MS)))
