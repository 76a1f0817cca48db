"""One row of iperf 2's results: an interval or the whole run, of one stream or of all streams together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from vnetbench.importers.arithmetic import choose_more_precise, scale_value
from vnetbench.importers.row_columns import SPACE, Row, RowPattern
from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.units import (
    BITS_BY_UNIT,
    BYTES_BY_UNIT,
    NUMBER_PATTERN,
    parse_exact_count,
    parse_rounded,
    parse_with_unit,
)

_RESULT_COLUMNS_PATTERN = (
    (
        r"(?P<start>[\d.,]+)\s*-\s*(?P<end>[\d.,]+) sec\s+(?P<amount>{0}) (?P<unit>[KMGT]?Bytes?)\s+"
        r"(?P<rate>{0}) (?P<rate_unit>[KMGT]?(?:bits|Bytes?))/sec"
    )
    .replace("{0}", NUMBER_PATTERN)
    .replace(r"\s", SPACE)
)
_ROUND_TRIPS_PATTERN = "/".join([NUMBER_PATTERN] * 4) + " ms"
STREAM_ROWS = RowPattern(
    rf"\[{SPACE}*(?P<id>\*?(?:\d+|SUM(?:-\d+)?|FD\d+))\]{SPACE}+{_RESULT_COLUMNS_PATTERN}"
    rf"(?!{SPACE}+\d+={_ROUND_TRIPS_PATTERN})(?P<details>.*)"
)
"""`[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec   0.012 ms    0/ 8504 (0%)`."""
_UDP_DETAILS_PATTERN = re.compile(
    rf"\s*(?P<jitter>{NUMBER_PATTERN}) ms\s+(?P<lost>-?\d+)/\s*(?P<total>\d+) \("
)
"""Printed behind the rate by a UDP receiver."""
_TCP_DETAILS_PATTERN = re.compile(
    r"\s*\d+/\d+\s+(?P<retransmits>\d+)(?:\s+(?P<cwnd>\d+)K/(?P<rtt>\d+)(?:\(\d+\))? us)?"
)
"""Printed behind the rate by a TCP sender with `-e`: `191/0          0      767K/1741(2150) us  14380`."""
BOUNCEBACK_ROW_PATTERN = re.compile(
    rf"\[\s*(?P<id>\*?(?:\d+|SUM))\]\s+{_RESULT_COLUMNS_PATTERN}\s+"
    rf"(?P<count>\d+)=(?=(?P<mean>{NUMBER_PATTERN})/){_ROUND_TRIPS_PATTERN}"
    r"(?P<details>.*)"
)
"""With `--bounceback`: `… 15.9 Kbits/sec    20=0.113/0.021/0.571/0.135 ms    0  576K/1114 us    8826 rps`."""
ALL_STREAMS_ID = "SUM"
_DETAILS_AT = STREAM_ROWS.names.index("details")


@dataclass(frozen=True)
class ReportRow:
    """An interval or the whole run. `value_by_name` has names of `ReportInterval.values`, if printed."""

    stream_id: str
    """The stream's number, or `SUM`."""
    is_reverse: bool
    start_s: float
    rounded_end_s: RoundedValue
    """In seconds, like the start."""
    rate_bps: RoundedValue
    value_by_name: Mapping[str, RoundedValue]
    stream_count: int = 0
    """Number of streams in a sum that says so (`[SUM-2]`)."""

    @property
    def printed_end_s(self) -> float:
        """The end as printed."""
        return self.rounded_end_s.value

    @property
    def is_probably_interval(self) -> bool:
        """Whether the end is round to the four digits of 2.1. That of a whole run never is."""
        return (
            self.rounded_end_s.high - self.rounded_end_s.low < 1e-3
            and round(self.rounded_end_s.value, 1) == self.rounded_end_s.value
        )

    @property
    def rounded_length_s(self) -> RoundedValue:
        """Length of the interval, in seconds."""
        return RoundedValue(
            *(
                each - self.start_s
                for each in (self.rounded_end_s.value, self.rounded_end_s.low, self.rounded_end_s.high)
            )
        )

    @classmethod
    def parse(cls, row: Mapping[str, str]) -> ReportRow:
        """Return the row with the groups of `STREAM_ROWS` or `BOUNCEBACK_ROW_PATTERN`.

        Raises ValueError for a bad number.
        """
        start_s, end = parse_rounded(row["start"]).value, parse_rounded(row["end"])
        if "bits" in row["rate_unit"]:
            rate = parse_with_unit(row["rate"], row["rate_unit"], BITS_BY_UNIT)
        else:
            rate = scale_value(
                parse_with_unit(row["rate"], _pluralize_unit(row["rate_unit"]), BYTES_BY_UNIT), 8
            )
        amount = parse_with_unit(row["amount"], _pluralize_unit(row["unit"]), BYTES_BY_UNIT)
        values = {"bytes": amount}
        if end.value > start_s and rate.value > 0:
            # Amount and rate are the same information; which one is rounded less varies from row to row.
            values["bytes"] = choose_more_precise(amount, scale_value(rate, (end.value - start_s) / 8))
        if "count" in row:
            values["transactions"] = parse_exact_count(row["count"])
            values["latency_mean_us"] = parse_rounded(row["mean"], 1e3)
        else:
            values |= _parse_details(row["details"])
        parts = split_id(row["id"])
        return cls(parts.stream_id, parts.is_reverse, start_s, end, rate, values, parts.stream_count)


class StreamIdParts(NamedTuple):
    """The parts of a printed stream id: `3`, `*3` or `SUM-2`."""

    stream_id: str
    """The stream's number, or `SUM`."""
    is_reverse: bool
    """Whether the id has a star."""
    stream_count: int
    """Number of streams in a sum that says so; 0 for all others."""


def split_id(text: str) -> StreamIdParts:
    """Return the parts of a printed stream id."""
    stream_id, _, count = text.removeprefix("*").partition("-")
    return StreamIdParts(stream_id, text.startswith("*"), int(count or 0))


class ReportRows(Sequence[ReportRow]):
    """The rows of one stream. Those of long runs are parsed when they are needed, because most are not."""

    def __init__(self) -> None:
        self._rows: list[ReportRow | Row] = []

    def append(self, row: ReportRow | Row) -> None:
        """Append a row, parsed or as the groups of `STREAM_ROWS`."""
        self._rows.append(row)

    def has_udp_receiver_row(self) -> bool:
        """Return whether a row has the results of a UDP receiver."""
        return any(
            "datagrams" in row.value_by_name
            if isinstance(row, ReportRow)
            else _UDP_DETAILS_PATTERN.match(row[_DETAILS_AT]) is not None
            for row in self._rows
        )

    def may_have_rtt(self) -> bool:
        """Return whether a row may have a round trip time."""
        return any(
            "rtt_us" in row.value_by_name if isinstance(row, ReportRow) else " us" in row[_DETAILS_AT]
            for row in self._rows
        )

    def may_have_transactions(self) -> bool:
        """Return whether a row counts requests. `STREAM_ROWS` has none of them."""
        return any("transactions" in row.value_by_name for row in self._rows if isinstance(row, ReportRow))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> ReportRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[ReportRow]: ...
    def __getitem__(self, index: int | slice) -> ReportRow | list[ReportRow]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        row = self._rows[index]
        if not isinstance(row, ReportRow):
            row = self._rows[index] = ReportRow.parse(dict(zip(STREAM_ROWS.names, row, strict=False)))
        return row


def _pluralize_unit(unit: str) -> str:
    return unit if unit.endswith("s") else f"{unit}s"


def _parse_details(text: str) -> dict[str, RoundedValue]:
    if (udp := _UDP_DETAILS_PATTERN.match(text)) is not None:
        return {
            "jitter_us": parse_rounded(udp["jitter"], 1e3),
            "lost": parse_exact_count(udp["lost"]),
            "datagrams": parse_exact_count(udp["total"]),
        }
    if (tcp := _TCP_DETAILS_PATTERN.match(text)) is None:
        return {}
    values = {"retransmits": parse_exact_count(tcp["retransmits"])}
    if tcp["cwnd"]:
        values["cwnd_bytes"] = parse_rounded(tcp["cwnd"], 1024)
        values["rtt_us"] = parse_rounded(tcp["rtt"])
    return values
