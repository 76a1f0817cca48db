"""One run of another tool as its log reports it, in vnetbench's terms and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.study.factors.directions import FORWARD
from vnetbench.study.model import Level

SenderOrReceiver = str
"""`sender` or `receiver`; empty for both or if unknown."""

CUT_OFF_FAILURE = "the last lines of the run are missing"
"""`Run.failure` of a run whose last lines are missing."""


@dataclass(frozen=True)
class RoundedValue:
    """A number in a log, with the range of numbers that round to it."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> RoundedValue:
        """Return a value that was not rounded."""
        return cls(value, value, value)


@dataclass(frozen=True)
class ReportInterval:
    """The values that a log reports for one interval of a run, for one stream or for all streams together.

    `values` has these names: `bytes` (payload), `datagrams`, `lost`, `transactions`, `retransmits`,
    `cwnd_bytes`, `rtt_us`, `jitter_us`.
    """

    start_s: float
    """Time since the load started, including omitted time. It is never negative."""
    end_s: float
    values: Mapping[str, RoundedValue]
    stream_number: int | None = None
    """None: all streams of that direction together."""
    direction: str = FORWARD
    is_omitted: bool = False
    """Whether the tool itself excluded the interval from its result."""


@dataclass(frozen=True)
class Run:
    """One run of a tool, as its log reports it."""

    tool: str
    version: str
    """Empty if the log does not contain it."""
    first_line: int
    last_line: int
    """First and last line in the log, from 1."""
    workload: str
    """One of `study.workloads`."""
    factors: Mapping[str, Level]
    """Factor levels from the log or from the command line in it, in canonical form."""
    metrics: Mapping[str, RoundedValue]
    """Results of the whole run as the tool computes them, by the name of our metric (`estimate.metrics`)."""
    intervals: Sequence[ReportInterval] = ()
    """A tuple, or `PackedIntervals` where there may be very many."""
    measured_duration_s: float | None = None
    """Duration of the load, without omitted time."""
    omitted_s: float = 0.0
    started_at: datetime | None = None
    """Has no time zone if the log names none."""
    reported_by: SenderOrReceiver = ""
    """The endpoint that wrote the log: `sender`, `receiver`, or empty if it has the results of both."""
    first_connection_addresses: str = ""
    """Addresses and ports of the first connection, side a first. The log of the other endpoint has the
    same."""
    command: str = ""
    """The command line, as it appears in the log."""
    other_results: Mapping[str, str] = field(default_factory=dict)
    """Results without a metric of ours, under the tool's own names and in its own words."""
    failure: str = ""
    """Why the run is incomplete: `cut off`, or the tool's error message. Empty for a complete run."""
    remarks: tuple[str, ...] = ()
    """What a reader of the results must know: `The receiver's goodput is missing; this is the sender's.`"""
