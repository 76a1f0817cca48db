"""The window law: TCP delivers at most a window in each round trip (RFC 6349, section 3.3.1)."""

from __future__ import annotations


def max_goodput_bps(window_bytes: float, rtt_us: float) -> float:
    """The goodput that a window allows over a round trip, bit/s; ValueError where the round trip is none."""
    if rtt_us <= 0:
        raise ValueError(f"a round trip takes time, not {rtt_us:g} µs")
    return 8 * window_bytes / (rtt_us * 1e-6)


def is_consistent(goodput_bps: float, window_bytes: float, rtt_us: float, within: float = 0.2) -> bool:
    """Whether a goodput is what the law gives for this window, to a share of `within`."""
    law = max_goodput_bps(window_bytes, rtt_us)
    return law > 0 and abs(goodput_bps - law) <= within * law
