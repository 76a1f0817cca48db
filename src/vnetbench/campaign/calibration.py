"""Calibration: short trials before a treatment's first trial that choose its fastest send mode."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vnetbench.estimate.median import median_interval
from vnetbench.lab.errors import TreatmentRefused

DEFAULT_SEND_MODE = "copy"
OTHER_SEND_MODES = ("sendfile", "splice", "zerocopy", "io_uring", "io_uring_zerocopy")
CALIBRATION_TRIAL_S = 0.2
SCREENING_ROUNDS = 2
"""Rounds that select the best mode other than `copy`."""
COMPARISON_ROUNDS = 6
"""Minimum number of rounds for which the median of their ratios has an interval of `CONFIDENCE`."""
CONFIDENCE = 0.95

MAX_CALIBRATION_TRIALS = SCREENING_ROUNDS * (1 + len(OTHER_SEND_MODES)) + 2 * COMPARISON_ROUNDS

MeasureGoodput = Callable[[str], float]
"""Returns the goodput of a short trial with a send mode, bit/s.

It raises TreatmentRefused if the kernel does not support the mode."""


@dataclass(frozen=True)
class Calibration:
    """The chosen send mode and the measurements behind it."""

    send_mode: str
    goodputs_bps_by_mode: Mapping[str, tuple[float, ...]]
    """Goodput of each mode's short trials, in the order of measurement."""
    other_to_copy_ratio_interval: tuple[float, float] | None
    """Interval of the best other mode's goodput divided by that of `copy`; None if no mode was faster."""
    refusal_by_mode: Mapping[str, str]
    """Modes that the kernel does not support, with its error."""

    def to_json(self) -> dict[str, object]:
        """Return the calibration in the form stored in the results file."""
        return {
            "send_mode": self.send_mode,
            "goodput_bps": {mode: list(values) for mode, values in self.goodputs_bps_by_mode.items()},
            "ratio": self.other_to_copy_ratio_interval and list(self.other_to_copy_ratio_interval),
            "refused": dict(self.refusal_by_mode),
        }


def choose_send_mode(measure_goodput: MeasureGoodput) -> Calibration:
    """Return `copy`, unless another mode is significantly faster.

    Screening rounds measure all modes. The best other mode is then compared with `copy` in separate rounds,
    so that a lucky screening trial has no effect. It is chosen if the whole interval of the rounds' ratios is
    above 1.

    Raises:
        TreatmentRefused: the kernel refuses `copy` itself.
    """
    goodput_bps: dict[str, list[float]] = {DEFAULT_SEND_MODE: []}
    refusals: dict[str, str] = {}
    for _ in range(SCREENING_ROUNDS):
        goodput_bps[DEFAULT_SEND_MODE].append(measure_goodput(DEFAULT_SEND_MODE))
        for mode in OTHER_SEND_MODES:
            if mode in refusals:
                continue
            try:
                mode_bps = measure_goodput(mode)
            except TreatmentRefused as refusal:
                refusals[mode] = refusal.what
            else:
                goodput_bps.setdefault(mode, []).append(mode_bps)
    candidates = [mode for mode in goodput_bps if mode not in refusals]
    best = max(candidates, key=lambda mode: statistics.median(goodput_bps[mode]))
    ratio_interval = None
    if best != DEFAULT_SEND_MODE:
        try:
            ratio_interval = median_interval(
                _measure_ratios_to_copy_mode(measure_goodput, best, goodput_bps), CONFIDENCE
            )
        except _ModeRefused as refusal:
            refusals[best] = refusal.what
    chosen = best if ratio_interval is not None and ratio_interval[0] > 1 else DEFAULT_SEND_MODE
    return Calibration(
        chosen, {mode: tuple(values) for mode, values in goodput_bps.items()}, ratio_interval, refusals
    )


class _ModeRefused(TreatmentRefused):
    """The kernel refuses a mode that it has supported before; `copy` still works."""


def _measure_ratios_to_copy_mode(
    measure_goodput: MeasureGoodput, mode: str, collected_goodput_bps: dict[str, list[float]]
) -> list[float]:
    """Return the ratios of a mode's goodput to that of `copy`, and add the goodputs.

    Raises:
        _ModeRefused: the kernel refuses the mode.
        TreatmentRefused: the kernel refuses `copy`.
    """
    ratios = []
    for _ in range(COMPARISON_ROUNDS):
        copy_bps = measure_goodput(DEFAULT_SEND_MODE)
        collected_goodput_bps[DEFAULT_SEND_MODE].append(copy_bps)
        try:
            collected_goodput_bps[mode].append(measure_goodput(mode))
        except TreatmentRefused as refusal:
            raise _ModeRefused(refusal.what) from refusal
        ratios.append(collected_goodput_bps[mode][-1] / max(copy_bps, 1.0))
    return ratios
