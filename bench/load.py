"""What a tool is asked to do in a run, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.testbed import KernelCounters
from bench.programs import RunFailed

AGREEMENT = 0.05
"""By what share of its own figure a tool may tell more than the interface counted."""


@dataclass(frozen=True)
class Streams:
    """TCP from the source to the sink."""

    count: int
    seconds: int
    message_bytes: int | None = None
    """Of each call; None: whatever the tool is fastest with."""


@dataclass(frozen=True)
class Asking:
    """One TCP connection without Nagle's algorithm, a closed loop of requests and answers."""

    size_bytes: int
    """Of a request, and of an answer."""
    waiting: str
    """Of both sides: block, spin or busy_poll, as the factor has it."""
    seconds: int


@dataclass(frozen=True)
class Datagrams:
    """UDP from one sender."""

    size_bytes: int
    seconds: int
    rate_per_s: int | None = None
    """None: as fast as it can."""
    segments_allowed: bool = False
    """Whether many may be handed to the kernel as one large packet, and taken so (GSO, GRO)."""


@dataclass(frozen=True)
class Carried:
    """What a run of Streams carried, as the tool tells it, and what the kernel counted."""

    bytes_received: float
    seconds: float
    counted: KernelCounters


@dataclass(frozen=True)
class Answered:
    """Round trips of a run of Asking."""

    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class Delivered:
    """Datagrams of a run of Datagrams: those sent, and those that the sink's program took."""

    sent: float
    taken: float
    seconds: float


Choices = Mapping[str, Callable[[], Carried]]
"""Flags to a run of Streams with them."""
AskingChoices = Mapping[str, Callable[[], Answered]]
DatagramChoices = Mapping[str, Callable[[], Delivered]]


def agreed(carried: Carried) -> Carried:
    """The same; raises RunFailed where the tool tells more than came to the sink's interface.

    It may tell less: what comes before and after its own time is in the interface's count alone.
    """
    told, counted = carried.bytes_received, carried.counted.tcp_payload_bytes
    if told > (1 + AGREEMENT) * counted:
        raise RunFailed(f"it tells {told:.3g} bytes received, the sink's interface counted {counted:.3g}")
    return carried
