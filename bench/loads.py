"""Loads that a tool generates in a run, and the results of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.programs import RunFailed
from bench.testbed import KernelCounters

MAX_EXCESS_SHARE = 0.05
"""Share by which a tool may report more bytes than the interface counted."""


@dataclass(frozen=True)
class StreamLoad:
    """TCP streams from the source to the sink."""

    count: int
    seconds: int
    message_bytes: int | None = None
    """Bytes of each call; None for the size with which the tool is fastest."""


@dataclass(frozen=True)
class RequestLoad:
    """A closed loop of requests and responses over one TCP connection without Nagle's algorithm."""

    size_bytes: int
    """Bytes of a request and of a response."""
    waiting: str
    """Level of the factor `waiting` at both endpoints: block, spin or busy_poll."""
    seconds: int


@dataclass(frozen=True)
class DatagramLoad:
    """UDP datagrams from one sender."""

    size_bytes: int
    seconds: int
    rate_per_s: int | None = None
    """Datagrams per second; None for unpaced."""
    segments_allowed: bool = False
    """Whether the tool may send and receive many datagrams as one large packet (GSO, GRO)."""


@dataclass(frozen=True)
class StreamResult:
    """Result of a run with StreamLoad, as the tool reports it, and the kernel's counters."""

    bytes_received: float
    seconds: float
    counters: KernelCounters
    cpu_s: float | None = None
    """CPU time of the load's threads at both endpoints; None if the tool does not report it."""


@dataclass(frozen=True)
class LatencyResult:
    """Round-trip times of a run with RequestLoad."""

    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class DatagramResult:
    """Datagrams of a run with DatagramLoad."""

    sent: float
    received: float
    """Datagrams that the sink's program received."""
    seconds: float
    source_cpu_s: float | None = None
    """CPU time of the source's threads; None if the tool does not report it."""


StreamRuns = Mapping[str, Callable[[], StreamResult]]
"""By flags, a function that runs StreamLoad with them."""
RequestRuns = Mapping[str, Callable[[], LatencyResult]]
DatagramRuns = Mapping[str, Callable[[], DatagramResult]]


def check_received_bytes(result: StreamResult) -> StreamResult:
    """Return the result if it agrees with the interface's counter.

    A tool may report fewer bytes, since only the interface counts bytes before and after the tool's own time.

    Raises:
        RunFailed: The tool reports more bytes than the sink's interface received.
    """
    reported, counted = result.bytes_received, result.counters.tcp_payload_bytes
    if reported > (1 + MAX_EXCESS_SHARE) * counted:
        raise RunFailed(
            f"the tool reports {reported:.3g} received bytes, but the sink's interface counted {counted:.3g}"
        )
    return result
