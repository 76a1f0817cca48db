"""Which send mode is the fastest for one treatment, told by short trials before its first one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vnetbench.estimate.median import interval
from vnetbench.lab.errors import TreatmentRefused

SAFE = "copy"
OTHERS = ("sendfile", "splice", "zerocopy", "io_uring", "io_uring_zerocopy")
TRIAL_S = 0.2
SCREENING_ROUNDS = 2
"""Enough to tell which of the others is worth a closer look."""
DECIDING_ROUNDS = 6
CONFIDENCE = 0.95
"""The fewest rounds that give the median of their ratios an interval of this confidence are six."""

MOST_TRIALS = SCREENING_ROUNDS * (1 + len(OTHERS)) + 2 * DECIDING_ROUNDS

Goodput = Callable[[str], float]
"""Bits a second of one short trial by this send mode; raises TreatmentRefused where the kernel lacks it."""


@dataclass(frozen=True)
class Calibration:
    """What was chosen, and why."""

    send_mode: str
    goodput_bps: Mapping[str, tuple[float, ...]]
    """Every mode's short trials, in the order in which they were made."""
    ratio: tuple[float, float] | None
    """Interval of how many times faster than `copy` the best of the others was; None where none looked so."""
    refused: Mapping[str, str]
    """Modes that this kernel lacks, and what it said."""

    def as_json(self) -> dict[str, object]:
        """As it is kept in the results file."""
        return {
            "send_mode": self.send_mode,
            "goodput_bps": {mode: list(values) for mode, values in self.goodput_bps.items()},
            "ratio": self.ratio and list(self.ratio),
            "refused": dict(self.refused),
        }


def calibrate(goodput: Goodput) -> Calibration:
    """`copy`, unless another mode is faster beyond doubt.

    Every mode is tried in turn. The best of the others meets `copy` again in rounds of their own, so that
    having been picked for a lucky trial is of no use to it; it is taken when the whole interval of the
    rounds' ratios is above 1. Raises TreatmentRefused where `copy` itself is refused.
    """
    found: dict[str, list[float]] = {SAFE: []}
    refused: dict[str, str] = {}
    for _ in range(SCREENING_ROUNDS):
        found[SAFE].append(goodput(SAFE))
        for mode in OTHERS:
            if mode in refused:
                continue
            try:
                reached = goodput(mode)
            except TreatmentRefused as refusal:
                refused[mode] = refusal.what
            else:
                found.setdefault(mode, []).append(reached)
    best = max(found, key=lambda mode: statistics.median(found[mode]))
    ratio = None
    if best != SAFE:
        ratios = []
        for _ in range(DECIDING_ROUNDS):
            for mode in (SAFE, best):
                found[mode].append(goodput(mode))
            ratios.append(found[best][-1] / max(found[SAFE][-1], 1.0))
        ratio = interval(ratios, CONFIDENCE)
    chosen = best if ratio is not None and ratio[0] > 1 else SAFE
    return Calibration(chosen, {mode: tuple(values) for mode, values in found.items()}, ratio, refused)
