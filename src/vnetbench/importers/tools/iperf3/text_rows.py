"""The rows of iperf3's tables: intervals as they come, and the summary at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from vnetbench.importers.packed_intervals import Kind, PackedIntervals, packed
from vnetbench.importers.runs import FORWARD, REVERSE, Figure
from vnetbench.importers.tools.iperf3.endpoint_results import (
    CLIENT,
    RECEIVER,
    SENDER,
    Told,
    end_of,
    of_one_line,
    share,
)
from vnetbench.importers.units import BITS, BYTES, in_unit, rounded

_UNKNOWN_WAY = ""
_WAY_OF = {None: _UNKNOWN_WAY, "TX-C": FORWARD, "RX-C": REVERSE, "TX-S": REVERSE, "RX-S": FORWARD}
"""Of the roles in the rows of `--bidir`."""
_ALL = "SUM"
_RATES = {**BITS, **{unit: 8 * factor for unit, factor in BYTES.items()}}
"""`-f M` prints MBytes/sec, of 1024² bytes (units.c, `conversion_bytes`)."""
_OF_BYTES: tuple[str, ...] = ("bytes",)
_OF_SUM = ("bytes", "retransmits")
_OF_SENDER = ("bytes", "retransmits", "cwnd_bytes")
_OF_RECEIVER: tuple[str, ...] = ("bytes", "datagrams", "lost", "jitter_us")
_OF_DATAGRAMS = ("datagrams",)
"""What UDP's sender tells; its bytes are left out, since they are not what arrived."""
_MS = 1e3
"""Microseconds of what jitter is printed in."""
_DISTINCT = 65536
"""Printed numbers have few digits, so nearly all of a long log are met again."""


@dataclass(frozen=True)
class _Row:
    """A row of the summary."""

    seconds: Figure
    bits_per_s: Figure
    jitter_us: Figure | None
    lost: int | None
    total: int | None
    count: int | None


class Rows:
    """All rows of a run: they are fed one by one."""

    def __init__(self) -> None:
        self.intervals = PackedIntervals()
        self.omitted_s = 0.0
        self.counts_datagrams = False
        """Whether a lone number after the bit rate is one of datagrams: the header tells."""
        self._summary: dict[tuple[str, str, str], _Row] = {}
        self._kinds: dict[tuple[str, str | None, str | None, tuple[str, ...]], int] = {}
        self._ids: dict[str, set[str]] = {}
        self._since_sum = 0

    def take_interval(self, row: tuple[str | Any, ...]) -> bool:
        """Take the groups of a row; False where it is no interval, as its times are not in order.

        There may be millions of them, so nothing is made here that can be kept.
        """
        name, role, start, end, transfer, unit, _, _, jitter, lost, total, count, cwnd, cwnd_unit, mark = row
        start_s, end_s = float(start), float(end)
        if end_s < start_s:
            return False
        if total is not None and lost != "Unknown":
            numbers = _size(transfer, unit) + _count(total) + _count(lost) + _jitter(jitter)
            names = _OF_RECEIVER
        elif count is None:
            numbers, names = _size(transfer, unit), _OF_BYTES
        elif self.counts_datagrams:
            numbers, names = _count(count), _OF_DATAGRAMS
        elif cwnd is None:
            numbers, names = _size(transfer, unit) + _count(count), _OF_SUM
        else:
            numbers, names = _size(transfer, unit) + _count(count) + _size(cwnd, cwnd_unit), _OF_SENDER
        kind = self._kinds.get((name, role, mark, names))
        if kind is None:
            kind = self._new_kind(name, role, mark, names)
        if mark is None:
            start_s, end_s = start_s + self.omitted_s, end_s + self.omitted_s
        elif end_s > self.omitted_s:
            self.omitted_s = end_s
        self.intervals.append(kind, start_s, end_s, numbers)
        self._since_sum += 1
        if name == _ALL:
            self.intervals.retime(self._since_sum - 1)
            self._since_sum = 0
        return True

    def take_summary(self, row: re.Match[str]) -> None:
        """A row of the summary; one whose rate is no number (a run of no time) is none."""
        way, mark = _WAY_OF[row["role"]], row["mark"] or ""
        try:
            rate = in_unit(row["rate"], row["rate_unit"], _RATES)
        except ValueError:
            return
        is_known = row["lost"] not in (None, "Unknown")
        self._note_id(way, row["id"])
        self._summary[way, row["id"], mark] = _Row(
            rounded(row["end"]),
            rate,
            rounded(row["jitter"], _MS) if row["jitter"] else None,
            int(row["lost"]) if is_known else None,
            int(row["total"]) if row["total"] else None,
            int(row["count"]) if row["count"] else None,
        )

    @property
    def is_both_ways(self) -> bool:
        """Whether the rows name their roles, as those of `--bidir` do."""
        return any(way != _UNKNOWN_WAY for way in self._ids)

    @property
    def streams(self) -> int:
        """How many there are, each way."""
        return max((len(ids - {_ALL}) for ids in self._ids.values()), default=0)

    @property
    def sends_alone(self) -> bool:
        """Whether the summary has figures of the sender and none, or zeros, of the receiver."""
        rates = {mark: row.bits_per_s.value for (_, _, mark), row in self._summary.items() if mark}
        return rates.get(SENDER, 0.0) > 0 and not rates.get(RECEIVER)

    def marks(self) -> dict[str, set[str]]:
        """Of each way whose row of all streams the summary has: the sender's, the receiver's, or no one's."""
        return {
            way: {mark for mark in (SENDER, RECEIVER, "") if self._of_all(way, mark)}
            for way, _, _ in self._summary
        }

    def settle(self, ways: Sequence[str]) -> None:
        """Say of the intervals what is known only now: the ways at work, and how many streams there are."""
        streams = {way: len(ids - {_ALL}) for way, ids in self._ids.items()}
        self.intervals.change(lambda kind: _settled(kind, ways, streams))

    def ends(self, ways: Sequence[str], datagram_bytes: int | None, role: str) -> dict[tuple[str, str], Told]:
        """What the ends tell, of settled rows. `datagram_bytes`: payload of each, where it is known."""
        ends: dict[tuple[str, str], Told] = {}
        for way in ways:
            found = way if self.is_both_ways else _UNKNOWN_WAY
            for mark in (SENDER, RECEIVER, ""):
                row = self._of_all(found, mark)
                if row is not None and mark:
                    ends[way, mark] = _told(row, mark)
                elif row is not None:
                    ends.update(self._of_old_form(row, way, datagram_bytes, role))
        return ends

    def _of_all(self, way: str, mark: str) -> _Row | None:
        names = self._ids.get(way, set())
        name = _ALL if _ALL in names else next(iter(names), "") if len(names) == 1 else ""
        return self._summary.get((way, name, mark))

    def _of_old_form(
        self, row: _Row, way: str, datagram_bytes: int | None, role: str
    ) -> Iterator[tuple[tuple[str, str], Told]]:
        local = end_of(role or CLIENT, way)
        bits = None if datagram_bytes is None else 8.0 * datagram_bytes
        arrived = 8 * self.intervals.sum_of("bytes", way) if local == RECEIVER else 0.0
        rate = share(arrived, row.seconds) if arrived else None
        line = Told(row.seconds, row.bits_per_s, None, row.total, row.lost, row.jitter_us)
        return of_one_line(line, way, local, bits, rate)

    def _note_id(self, way: str, name: str) -> None:
        self._ids.setdefault(way, set()).add(name)

    def _new_kind(self, name: str, role: str | None, mark: str | None, names: tuple[str, ...]) -> int:
        way = _WAY_OF[role]
        self._note_id(way, name)
        stream = None if name == _ALL else int(name)
        number = self.intervals.number_of(Kind(names, stream, way, mark is not None))
        self._kinds[name, role, mark, names] = number
        return number


def _settled(kind: Kind, ways: Sequence[str], streams: Mapping[str, int]) -> Kind:
    """A single stream of a way is all of it; what had no role goes the one way that there is."""
    stream = kind.stream if streams.get(kind.way, 0) > 1 else None
    return replace(kind, stream=stream, way=kind.way if kind.way != _UNKNOWN_WAY else ways[0])


def _told(row: _Row, end: str) -> Told:
    if row.total is not None:
        return Told(row.seconds, row.bits_per_s, None, row.total, row.lost, row.jitter_us)
    return Told(row.seconds, row.bits_per_s, row.count if end == SENDER else None)


@lru_cache(_DISTINCT)
def _size(text: str, unit: str) -> tuple[float, ...]:
    return packed(in_unit(text, unit, BYTES))


@lru_cache(_DISTINCT)
def _count(text: str) -> tuple[float, ...]:
    return float(text), 0.0


@lru_cache(_DISTINCT)
def _jitter(text: str) -> tuple[float, ...]:
    return packed(rounded(text, _MS))
