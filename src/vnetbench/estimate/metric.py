"""What a metric is: a figure of a trial, with its unit, its label and its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One metric. `unit` is the unit of the stored number, `better` says which way is good (or neither)."""

    name: str
    unit: str
    label: str
    better: Literal["higher", "lower", "neither"] = "neither"
    meaning: str = ""
