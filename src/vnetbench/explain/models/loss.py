"""What loss leaves of TCP's rate, by the laws of Mathis et al. and Padhye et al.

Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm, CCR 27(3),
1997. Padhye, Firoiu, Towsley, Kurose: Modeling TCP Throughput, SIGCOMM 1998, the approximation, where no
window bounds the rate (RFC 5348, section 3.1, leaves out too that no more than all losses end in a timeout).
RFC 8312, section 5, equation 6, for cubic (RFC 9438, section 5, has the same).
"""

from __future__ import annotations

import math

MAX_RATIO = 2.0
"""Times: RFC 5348, section 1, calls two rates fair under the same conditions where they differ by less."""
_PERIODIC = math.sqrt(3 / 2)
"""The constant of Mathis et al. for loss at even distances and every segment acknowledged."""


def mathis_bps(mss_bytes: float, rtt_us: float, loss: float, constant: float = _PERIODIC) -> float:
    """The most that reno's congestion avoidance carries at a loss share of `loss`, bit/s.

    Infinite without loss. ValueError for what is no share or no round trip.
    """
    _check(rtt_us, loss)
    return math.inf if loss == 0 else 8 * mss_bytes / (rtt_us * 1e-6) * constant / math.sqrt(loss)


def padhye_bps(
    mss_bytes: float, rtt_us: float, loss: float, timeout_us: float | None = None, acknowledged: int = 1
) -> float:
    """The same with timeouts; `acknowledged` segments by each ACK.

    `timeout_us`: the first retransmission timeout; None: four round trips, as RFC 5348 takes it. Timeouts
    then take a seventh of the time at 2 % of loss, and half of it from 9 % on.
    """
    _check(rtt_us, loss)
    if loss == 0:
        return math.inf
    rtt_s = rtt_us * 1e-6
    timeout_s = 4 * rtt_s if timeout_us is None else timeout_us * 1e-6
    halving = rtt_s * math.sqrt(2 * acknowledged * loss / 3)
    waiting = timeout_s * min(1, 3 * math.sqrt(3 * acknowledged * loss / 8)) * loss * (1 + 32 * loss**2)
    return 8 * mss_bytes / (halving + waiting)


def cubic_bps(mss_bytes: float, rtt_us: float, loss: float) -> float:
    """What cubic carries on average at that loss where it grows by its own function (C = 0.4, β = 0.7).

    On short paths it keeps to reno's rate, if that is more (RFC 9438, section 4.3).
    """
    _check(rtt_us, loss)
    if loss == 0:
        return math.inf
    rtt_s = rtt_us * 1e-6
    window = math.pow(0.4 * 3.7 / 1.2, 0.25) * math.pow(rtt_s / loss, 0.75)
    return max(8 * mss_bytes * window / rtt_s, mathis_bps(mss_bytes, rtt_us, loss))


def is_consistent(goodput_bps: float, mss_bytes: float, rtt_us: float, loss: float) -> bool:
    """Whether a goodput is what reno or cubic carries at that loss, to a factor of `WITHIN`."""
    laws = (padhye_bps(mss_bytes, rtt_us, loss), cubic_bps(mss_bytes, rtt_us, loss))
    return min(laws) / MAX_RATIO <= goodput_bps <= max(laws) * MAX_RATIO


def _check(rtt_us: float, loss: float) -> None:
    if rtt_us <= 0 or not 0 <= loss <= 1:
        raise ValueError(f"no path has a round trip of {rtt_us:g} µs and loses {loss:g} of its packets")
