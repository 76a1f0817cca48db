"""TCP throughput under loss: the models of Mathis et al. and Padhye et al., and of cubic.

Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm, CCR 27(3),
1997. Padhye, Firoiu, Towsley, Kurose: Modeling TCP Throughput, SIGCOMM 1998, the approximation without a
window limit. Like RFC 5348, section 3.1, it does not limit the share of losses that end in a timeout. RFC
8312, section 5, equation 6, for cubic (the same as RFC 9438, section 5).
"""

from __future__ import annotations

import math

MAX_CONSISTENT_RATE_RATIO = 2.0
"""Largest ratio of consistent rates: RFC 5348, section 1, calls flows within this ratio reasonably fair."""
_MATHIS_PERIODIC_LOSS_CONSTANT = math.sqrt(3 / 2)
"""The constant of Mathis et al. for periodic loss and an ACK for every segment."""


def mathis_rate_bps(
    mss_bytes: float, rtt_us: float, loss_ratio: float, constant: float = _MATHIS_PERIODIC_LOSS_CONSTANT
) -> float:
    """Return the maximum rate of reno's congestion avoidance at a loss ratio, bit/s; infinite without loss.

    Raises:
        ValueError: the loss ratio or the round-trip time is out of range.
    """
    _check_rtt_and_loss(rtt_us, loss_ratio)
    return math.inf if loss_ratio == 0 else 8 * mss_bytes / (rtt_us * 1e-6) * constant / math.sqrt(loss_ratio)


def padhye_rate_bps(
    mss_bytes: float,
    rtt_us: float,
    loss_ratio: float,
    timeout_us: float | None = None,
    segments_per_ack: int = 1,
) -> float:
    """Return reno's rate at a loss ratio with timeouts, bit/s; infinite without loss.

    With the default timeout, timeouts take a seventh of the time at 2 % loss, and half of it from 9 %.

    Args:
        mss_bytes: maximum segment size.
        rtt_us: round-trip time.
        loss_ratio: loss ratio, 0 to 1.
        timeout_us: first retransmission timeout; None for four round trips, as in RFC 5348.
        segments_per_ack: segments per ACK.
    """
    _check_rtt_and_loss(rtt_us, loss_ratio)
    if loss_ratio == 0:
        return math.inf
    rtt_s = rtt_us * 1e-6
    timeout_s = 4 * rtt_s if timeout_us is None else timeout_us * 1e-6
    halving = rtt_s * math.sqrt(2 * segments_per_ack * loss_ratio / 3)
    waiting = (
        timeout_s
        * min(1, 3 * math.sqrt(3 * segments_per_ack * loss_ratio / 8))
        * loss_ratio
        * (1 + 32 * loss_ratio**2)
    )
    return 8 * mss_bytes / (halving + waiting)


def cubic_rate_bps(mss_bytes: float, rtt_us: float, loss_ratio: float) -> float:
    """Return cubic's average rate at a loss ratio, bit/s (C = 0.4, β = 0.7); infinite without loss.

    On short paths reno's rate applies if it is higher (RFC 9438, section 4.3).
    """
    _check_rtt_and_loss(rtt_us, loss_ratio)
    if loss_ratio == 0:
        return math.inf
    rtt_s = rtt_us * 1e-6
    window = math.pow(0.4 * 3.7 / 1.2, 0.25) * math.pow(rtt_s / loss_ratio, 0.75)
    return max(8 * mss_bytes * window / rtt_s, mathis_rate_bps(mss_bytes, rtt_us, loss_ratio))


def is_rate_consistent_with_loss(
    goodput_bps: float, mss_bytes: float, rtt_us: float, loss_ratio: float
) -> bool:
    """Return whether reno's or cubic's rate is within MAX_CONSISTENT_RATE_RATIO of the goodput."""
    rates = (padhye_rate_bps(mss_bytes, rtt_us, loss_ratio), cubic_rate_bps(mss_bytes, rtt_us, loss_ratio))
    return min(rates) / MAX_CONSISTENT_RATE_RATIO <= goodput_bps <= max(rates) * MAX_CONSISTENT_RATE_RATIO


def _check_rtt_and_loss(rtt_us: float, loss: float) -> None:
    if rtt_us <= 0 or not 0 <= loss <= 1:
        raise ValueError(f"round-trip time {rtt_us:g} µs or loss ratio {loss:g} is out of range")
