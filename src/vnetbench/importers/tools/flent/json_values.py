"""Values of a Flent document as what they should be, whatever stands there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 1e15
"""Nothing that a Flent file tells is beyond: not a Unix time, nor a rate in 10^6 bit/s."""


def mapped(value: Any) -> Mapping[str, Any]:
    """An object; an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> Sequence[Any]:
    """A list; an empty one where it is none."""
    return value if isinstance(value, list) else ()


def told(value: Any) -> str:
    """A text or a number as text; empty for all else."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def number(value: Any, least: float = -_MOST) -> float | None:
    """A finite number, or the text of one (netperf's counts are kept as texts), that is not below `least`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and least <= found <= _MOST else None
