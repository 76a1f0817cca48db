"""What a figure of evidence is: a number of a trial that speaks for or against a cause."""

from __future__ import annotations

from dataclasses import dataclass

YES_OR_NO = "0 or 1"
"""The unit of a figure that tells of a setting: 1 where it is so."""


@dataclass(frozen=True)
class EvidenceMetric:
    """One figure, by its name in `TrialPoint.evidence`."""

    name: str
    unit: str
    label: str
    """As a reader sees it: "sending thread's CPU"."""
    meaning: str
    counters: tuple[str, ...]
    """What it is made of, by the names of docs/protocol.md."""
