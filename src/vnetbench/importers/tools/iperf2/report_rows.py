"""One line of iperf 2's results: an interval, or the whole, of one stream or of all together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.importers.arithmetic import narrower, times
from vnetbench.importers.runs import Figure
from vnetbench.importers.units import BITS, BYTES, NUMBER, counted, in_unit, rounded

ROW = re.compile(
    r"\[\s*(?P<star>\*?)(?P<id>\d+|SUM|FD\d+)\]\s+(?P<start>[\d.,]+)\s*-\s*(?P<end>[\d.,]+) sec\s+"
    rf"(?P<amount>{NUMBER}) (?P<unit>[KMGT]?Bytes?)\s+"
    rf"(?P<rate>{NUMBER}) (?P<per_s>[KMGT]?(?:bits|Bytes?))/sec(?P<more>.*)"
)
"""`[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec   0.012 ms    0/ 8504 (0%)`."""
_DATAGRAMS = re.compile(rf"\s*(?P<jitter>{NUMBER}) ms\s+(?P<lost>-?\d+)/\s*(?P<total>\d+) \(")
"""Of a UDP receiver, behind the rate."""
_WRITTEN = re.compile(r"\s*\d+/\d+\s+(?P<again>\d+)(?:\s+(?P<cwnd>\d+)K/(?P<rtt>\d+)(?:\(\d+\))? us)?")
"""Of a TCP sender with `-e`: `191/0          0      767K/1741(2150) us  14380`."""
BOUNCED = re.compile(
    r"\[\s*(?P<star>\*?)(?P<id>\d+|SUM)\]\s+(?P<start>[\d.,]+)\s*-\s*(?P<end>[\d.,]+) sec\s+"
    rf"(?P<amount>{NUMBER}) (?P<unit>[KMGT]?Bytes?)\s+"
    rf"(?P<rate>{NUMBER}) (?P<per_s>[KMGT]?(?:bits|Bytes?))/sec\s+"
    rf"(?P<count>\d+)=(?P<mean>{NUMBER})/{NUMBER}/{NUMBER}/{NUMBER} ms(?P<more>.*)"
)
"""Of `--bounceback`: `… 15.9 Kbits/sec    20=0.113/0.021/0.571/0.135 ms    0  576K/1114 us    8826 rps`."""
ALL = "SUM"


@dataclass(frozen=True)
class Row:
    """An interval or the whole; `values` by the names of `runs.Interval`, those that the row tells."""

    stream: str
    """The stream's number, or `SUM`."""
    is_reverse: bool
    start_s: float
    end: Figure
    """In seconds, like the start."""
    rate_bps: Figure
    values: Mapping[str, Figure]

    @property
    def end_s(self) -> float:
        """The end as it is printed."""
        return self.end.value

    @property
    def is_interval(self) -> bool:
        """Whether it ends at a round number of the four digits of 2.1: a whole run never does."""
        return self.end.high - self.end.low < 1e-3 and round(self.end.value, 1) == self.end.value

    @property
    def length(self) -> Figure:
        """Of the interval, in seconds."""
        return Figure(*(each - self.start_s for each in (self.end.value, self.end.low, self.end.high)))

    @classmethod
    def of(cls, found: re.Match[str]) -> Row:
        """From a line that `ROW` or `BOUNCED` matches. Raises ValueError for numbers that are none."""
        start, end = rounded(found["start"]).value, rounded(found["end"])
        rate = (
            in_unit(found["rate"], found["per_s"], BITS)
            if "bits" in found["per_s"]
            else times(in_unit(found["rate"], _plural(found["per_s"]), BYTES), 8)
        )
        amount = in_unit(found["amount"], _plural(found["unit"]), BYTES)
        values = {"bytes": amount}
        if end.value > start and rate.value > 0:
            # Both tell the same amount; which one was rounded less differs from row to row.
            values["bytes"] = narrower(amount, times(rate, (end.value - start) / 8))
        values |= _bounced(found) if "count" in found.groupdict() else _behind(found["more"])
        return cls(found["id"], bool(found["star"]), start, end, rate, values)


def _plural(unit: str) -> str:
    return unit if unit.endswith("s") else f"{unit}s"


def _behind(more: str) -> dict[str, Figure]:
    if (datagrams := _DATAGRAMS.match(more)) is not None:
        return {
            "jitter_us": rounded(datagrams["jitter"], 1e3),
            "lost": counted(datagrams["lost"]),
            "datagrams": counted(datagrams["total"]),
        }
    if (written := _WRITTEN.match(more)) is None:
        return {}
    values = {"retransmits": counted(written["again"])}
    if written["cwnd"]:
        values |= {"cwnd_bytes": rounded(written["cwnd"], 1024), "rtt_us": rounded(written["rtt"])}
    return values


def _bounced(found: re.Match[str]) -> dict[str, Figure]:
    return {"transactions": counted(found["count"]), "latency_mean_us": rounded(found["mean"], 1e3)}
