"""The description of a metric: its unit, its label and its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One metric of a trial."""

    name: str
    unit: str
    """Unit of the stored number."""
    label: str
    better: Literal["higher", "lower", "neither"] = "neither"
    """Whether higher or lower values are better."""
    meaning: str = ""
