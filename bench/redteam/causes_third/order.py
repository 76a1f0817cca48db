"""Order of the third set: families take turns, and controls are spread evenly among the faults."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from bench.redteam.model import Cause


def interleave(families: Sequence[Sequence[Cause]], controls: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return the first cause of each family, then the second of each, with the controls in between."""
    faults = [cause for row in zip_longest(*families) for cause in row if cause is not None]
    causes: list[Cause] = []
    left = list(controls)
    for number, fault in enumerate(faults, start=1):
        causes.append(fault)
        while left and len(controls) - len(left) < number * len(controls) // len(faults):
            causes.append(left.pop(0))
    return (*causes, *left)
