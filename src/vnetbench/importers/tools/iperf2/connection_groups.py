"""Connections of iperf 2 that ran at once: the rows of each, and which of them tell the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.importers.tools.iperf2.options import Asked
from vnetbench.importers.tools.iperf2.report_rows import ALL, Row


@dataclass
class Told:
    """What the head of a report tells of all its groups."""

    asked: Asked
    is_client: bool = False
    is_udp: bool = False
    is_end_known: bool = True
    """Lines of CSV are the same at both ends: only a command line tells whose they are."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes, by our factors."""
    also: dict[str, str] = field(default_factory=dict)
    failure: str = ""


@dataclass
class Flow:
    """One stream (or all together) of one way."""

    rows: list[Row] = field(default_factory=list)
    report: Row | None = None
    """Of a UDP sender: what its receiver reported."""

    @property
    def whole(self) -> Row | None:
        """The row of the whole: the last, if it begins at 0 again; one alone may be the first interval."""
        last = self.rows[-1] if self.rows else None
        if last is None or last.start_s > 0 or (len(self.rows) == 1 and last.is_interval):
            return None
        return last

    @property
    def parts(self) -> list[Row]:
        """The rows of intervals."""
        return self.rows[:-1] if self.whole is not None else self.rows


@dataclass
class Group:
    """Connections that ran at once."""

    first_line: int
    last_line: int = 0
    ids: dict[str, bool] = field(default_factory=dict)
    """Each connection: whether its load goes in reverse."""
    flows: dict[tuple[str, bool], Flow] = field(default_factory=dict)
    """By stream (or `SUM`) and whether it goes in reverse."""
    sent: dict[str, int] = field(default_factory=dict)
    """Datagrams of each UDP stream, as its sender counted them."""
    reporting: set[str] = field(default_factory=set)
    """UDP streams whose receiver's report comes next."""
    reordered: int | None = None
    is_unanswered: bool = False
    """A UDP sender got no report."""
    peer: str = ""
    """The version of the other end."""
    started_at: datetime | None = None

    def add(self, row: Row) -> None:
        """Take a row of results."""
        is_reverse = row.is_reverse or self.ids.get(row.stream, False)
        flow = self.flows.setdefault((row.stream, is_reverse), Flow())
        if row.stream in self.reporting:
            self.reporting.discard(row.stream)
            flow.report = row
        else:
            flow.rows.append(row)

    @property
    def streams(self) -> dict[tuple[str, bool], Flow]:
        """The single ones; where only sums were printed, that of all."""
        single = {key: flow for key, flow in self.flows.items() if key[0].isdigit()}
        return single or {key: flow for key, flow in self.flows.items() if key[0] == ALL}

    @property
    def ways(self) -> list[bool]:
        """Whether they go in reverse: one of the two, or both."""
        return sorted({is_reverse for _, is_reverse in self.streams})

    def of_way(self, is_reverse: bool) -> list[Flow]:
        """The single streams of a way."""
        return [flow for (_, back), flow in self.streams.items() if back == is_reverse]

    @property
    def sums(self) -> Flow | None:
        """The tool's own sums of a single way; where both are at work it sums them too, or only one."""
        return next((flow for (name, _), flow in self.flows.items() if name == ALL), None)

    @property
    def is_over(self) -> bool:
        """Whether every connection has told its whole, both ways of a duplex one."""
        told = {name for name, _ in self.streams}
        is_of_all = set(self.ids) <= told or told == {ALL}
        return bool(told) and is_of_all and all(flow.whole for flow in self.streams.values())
