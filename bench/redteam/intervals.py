"""Shares of runs with their intervals."""

from __future__ import annotations

import math


def wilson(hits: int, count: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    if not count:
        return 0.0, 1.0
    share = hits / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def format_share(hits: int, count: int) -> str:
    """Return a share with its interval, such as `67 % [39 to 86] (8 of 12)`."""
    if not count:
        return "no run"
    low, high = wilson(hits, count)
    return f"{hits / count:.1%} [{low:.1%} to {high:.1%}] ({hits} of {count})"
