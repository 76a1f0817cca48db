"""The window model: TCP delivers at most one window per round trip (RFC 6349, section 3.3.1)."""

from __future__ import annotations


def max_goodput_bps(window_bytes: float, rtt_us: float) -> float:
    """Return the maximum goodput of a window, bit/s.

    Raises:
        ValueError: the round-trip time is not positive.
    """
    if rtt_us <= 0:
        raise ValueError(f"the round-trip time must be positive, not {rtt_us:g} µs")
    return 8 * window_bytes / (rtt_us * 1e-6)


def is_goodput_consistent_with_window(
    goodput_bps: float, window_bytes: float, rtt_us: float, relative_tolerance: float = 0.2
) -> bool:
    """Return whether a goodput is within `relative_tolerance` of the model."""
    model = max_goodput_bps(window_bytes, rtt_us)
    return model > 0 and abs(goodput_bps - model) <= relative_tolerance * model
