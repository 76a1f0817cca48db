"""Convert values of a Flent document to the types that they should have, whatever the document holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_MAX_PLAUSIBLE_NUMBER = 1e15
"""No number in a Flent file is larger: no Unix time, and no rate in 10^6 bit/s."""


def object_or_empty(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def list_or_empty(value: Any) -> Sequence[Any]:
    """Return the value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else ()


def scalar_text_or_empty(value: Any) -> str:
    """Return a text or a number as text; empty for anything else."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def parse_finite_number_or_none(value: Any, minimum: float = -_MAX_PLAUSIBLE_NUMBER) -> float | None:
    """Return a finite number of at least `minimum`.

    A text is accepted: netperf's counts are stored as texts.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and minimum <= number <= _MAX_PLAUSIBLE_NUMBER else None
