"""What a log of another tool tells of one run, in our words and units, before it becomes a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.study.model import Level

FORWARD, REVERSE = "forward", "reverse"
"""The way of an interval's load: from side a (iperf3's client, NTttcp's sender) to side b, or back."""

CUT_OFF = "cut off"
"""The fault of a run that ends in the middle."""


@dataclass(frozen=True)
class Figure:
    """A number as a log tells it, and the least and the most that may have been rounded to it."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Figure:
        """One that was not rounded."""
        return cls(value, value, value)


@dataclass(frozen=True)
class Interval:
    """What a log tells of one interval of a run, of one stream or of all together.

    `values` by name: `bytes` (payload), `datagrams`, `lost`, `transactions`, `retransmits`, `cwnd_bytes`,
    `rtt_us`, `jitter_us`.
    """

    start_s: float
    """From the beginning of the load, what was omitted included: no interval begins before 0."""
    end_s: float
    values: Mapping[str, Figure]
    stream: int | None = None
    """None: all streams of that way together."""
    way: str = FORWARD
    is_omitted: bool = False
    """The tool itself left it out of its result."""


@dataclass(frozen=True)
class Run:
    """One run of a tool as far as its log tells it."""

    tool: str
    version: str
    """Empty where the log does not tell it."""
    first_line: int
    last_line: int
    """Of the log, from 1."""
    workload: str
    """One of `study.workloads`."""
    factors: Mapping[str, Level]
    """What the log or its echoed command line tells, as canonical levels of our factors."""
    figures: Mapping[str, Figure]
    """By the name of our metric (`estimate.metrics`): of the whole run, as the tool reckons it."""
    intervals: Sequence[Interval] = ()
    """A tuple, or `packed.PackedIntervals` where there may be very many."""
    duration_s: float | None = None
    """Of the load, without what was omitted."""
    omitted_s: float = 0.0
    started_at: datetime | None = None
    """Without a time zone where the log names none."""
    told_by: str = ""
    """The end whose log it is: `sender`, `receiver`, or empty where both ends' figures are in it."""
    connection: str = ""
    """Addresses and ports of its first connection, side a's first, where the log tells them: its other end's
    log has the same."""
    command: str = ""
    """Its command line, as it stands in the log."""
    also: Mapping[str, str] = field(default_factory=dict)
    """What else the tool tells, by its own names and in its own words: of no metric of ours."""
    fault: str = ""
    """Why it is no whole run: `cut off`, or the tool's own words for its failure. Empty: it is whole."""
    remarks: tuple[str, ...] = ()
    """What who reads the figures must know: `the receiver's figure is missing, this is the sender's`."""
