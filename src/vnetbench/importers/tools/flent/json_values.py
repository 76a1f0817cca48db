"""Convert values of a Flent document to the types that they should have, whatever the document holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_MAX_VALUE = 1e15
"""No number in a Flent file is larger: no Unix time, and no rate in 10^6 bit/s."""


def as_object(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return the value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else ()


def as_text(value: Any) -> str:
    """Return a text or a number as text; empty for anything else."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def as_number(value: Any, least: float = -_MAX_VALUE) -> float | None:
    """Return a finite number of at least `least`.

    A text is accepted: netperf's counts are stored as texts.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and least <= number <= _MAX_VALUE else None
