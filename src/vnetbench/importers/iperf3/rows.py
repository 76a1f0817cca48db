"""The rows of iperf3's tables: intervals as they come, and the summary at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache

from vnetbench.importers.iperf3.ends import CLIENT, RECEIVER, SENDER, SERVER, Told, end_of, share
from vnetbench.importers.packed import Kind, PackedIntervals
from vnetbench.importers.runs import FORWARD, REVERSE, Figure
from vnetbench.importers.units import BITS, BYTES, in_unit, rounded

RETRANSMITS, DATAGRAMS = "retransmits", "datagrams"
"""What a lone number after the bit rate counts: the column's header says it."""

_UNKNOWN_WAY = ""
_WAY_OF = {None: _UNKNOWN_WAY, "TX-C": FORWARD, "RX-C": REVERSE, "TX-S": REVERSE, "RX-S": FORWARD}
"""Of the roles in the rows of `--bidir`."""
_ALL = "SUM"
_RATES = {**BITS, **{unit: 8 * factor for unit, factor in BYTES.items()}}
"""`-f M` prints MBytes/sec, of 1024² bytes (units.c, `conversion_bytes`)."""
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
        self.counts = RETRANSMITS
        self.omitted_s = 0.0
        self._summary: dict[tuple[str, str, str], _Row] = {}
        self._kinds: dict[tuple[str | None, ...], int] = {}
        self._ids: dict[str, set[str]] = {}

    def take_interval(self, row: re.Match[str]) -> None:
        """Raises ValueError where its numbers are none."""
        name, role, start, end, transfer, unit, _, _, jitter, lost, total, count, cwnd, cwnd_unit, mark = (
            row.groups()
        )
        figures = [_size(transfer, unit)]
        if total is not None and lost != "Unknown":
            figures += (_count(total, lost), _count(lost, "0"), _jitter(jitter))
            names: tuple[str, ...] = ("bytes", "datagrams", "lost", "jitter_us")
        elif count is not None:
            figures.append(_count(count, "0"))
            names = ("bytes", self.counts)
            if cwnd is not None:
                figures.append(_size(cwnd, cwnd_unit))
                names = ("bytes", self.counts, "cwnd_bytes")
        else:
            names = ("bytes",)
        kind = self._kinds.get((name, role, mark, *names))
        if kind is None:
            kind = self._new_kind(name, role, mark, names)
        if mark:
            self.omitted_s = max(self.omitted_s, float(end))
            shift = 0.0
        else:
            shift = self.omitted_s
        self.intervals.append(kind, float(start) + shift, float(end) + shift, figures)

    def take_summary(self, row: re.Match[str]) -> None:
        """A row of the summary; one whose rate is no number (a run of no time) is none."""
        way, mark = _WAY_OF[row["role"]], row["mark"] or ""
        try:
            rate = in_unit(row["rate"], row["rate_unit"], _RATES)
        except ValueError:
            return
        is_known = row["lost"] not in (None, "Unknown")
        self._summary[way, row["id"], mark] = _Row(
            rounded(row["end"]),
            rate,
            _jitter(row["jitter"]) if row["jitter"] else None,
            int(row["lost"]) if is_known else None,
            int(row["total"]) if row["total"] else None,
            int(row["count"]) if row["count"] else None,
        )
        self._ids.setdefault(way, set()).add(row["id"])

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

    def close(
        self, ways: Sequence[str], datagram_bytes: int | None, role: str
    ) -> dict[tuple[str, str], Told]:
        """What the ends tell of the ways that are at work, once there is nothing more to come.

        `datagram_bytes`: payload of each, where it is known.
        """
        streams = {way: len(ids - {_ALL}) for way, ids in self._ids.items()}
        self.intervals.change(lambda kind: _settled(kind, ways, streams))
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
        """Of UDP's single line up to 3.1: the sender's bytes, the receiver's datagrams.

        At a server the bytes are 0, and where it sends so is what was lost: it has not been told yet.
        """
        is_sender = end_of(role or CLIENT, way) == SENDER
        if is_sender or role == CLIENT:
            yield (way, SENDER), Told(row.seconds, row.bits_per_s, datagrams=row.total if is_sender else None)
        if (is_sender and role == SERVER) or row.total is None or row.lost is None:
            return
        arrived = row.total - row.lost
        if datagram_bytes is not None:
            rate = share(8 * datagram_bytes * arrived, row.seconds)
        elif not is_sender:
            rate = share(8 * self.intervals.sum_of("bytes", way), row.seconds)
        else:
            part = arrived / row.total if row.total > 0 else 0.0
            rate = Figure(*(part * each for each in astuple(row.bits_per_s)))
        if rate is not None:
            yield (way, RECEIVER), Told(row.seconds, rate, None, row.total, row.lost, row.jitter_us)

    def _new_kind(self, name: str, role: str | None, mark: str | None, names: tuple[str, ...]) -> int:
        way = _WAY_OF[role]
        self._ids.setdefault(way, set()).add(name)
        stream = None if name == _ALL else int(name)
        number = self.intervals.number_of(Kind(names, stream, way, mark is not None))
        self._kinds[(name, role, mark, *names)] = number
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
def _size(text: str, unit: str) -> Figure:
    return in_unit(text, unit, BYTES)


@lru_cache(_DISTINCT)
def _count(text: str, less: str) -> Figure:
    return Figure.exact(float(int(text) - int(less)))


@lru_cache(_DISTINCT)
def _jitter(text: str) -> Figure:
    """Milliseconds are printed."""
    return rounded(text, 1e3)
