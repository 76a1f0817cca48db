"""The description of an evidence metric: a number of a trial that supports or contradicts a cause."""

from __future__ import annotations

from dataclasses import dataclass

YES_OR_NO_UNIT = "0 or 1"
"""The unit of a metric that describes a setting: 1 if it applies."""

ENDPOINT_ROLES_WITH_ADJECTIVES = (("sender", "sending"), ("receiver", "receiving"))
"""The two endpoints of a load, as names of metrics and their texts call them."""


@dataclass(frozen=True)
class EvidenceMetric:
    """One evidence metric; `name` is its key in `TrialPoint.evidence`."""

    name: str
    unit: str
    label: str
    """Short name in reports, for example "sending thread's CPU"."""
    meaning: str
    counters: tuple[str, ...]
    """The counters that it is calculated from, named as in docs/protocol.md."""
