"""Detection of two modes among a treatment's trials.

The values, on a logarithmic scale, are split where the two parts are narrowest together: Fisher (1958), "On
grouping for maximum homogeneity", JASA 53(284), equivalent to a mixture of two normal distributions with hard
assignment. Two parts are two modes if they lie far apart by the measure of Ashman, Bird & Zepf (1994),
"Detecting bimodality in astronomical datasets", Astronomical Journal 108(6), applied to the wider part, so
that a long tail is not a mode. The threshold comes from simulation: of samples from a uniform distribution,
whose halves lie furthest apart among distributions without two modes, at most one in twenty is called two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vnetbench.estimate.model import Mode

MIN_TRIALS_FOR_MODES = 20
MIN_MODE_SHARE_OF_TRIALS = 0.2
"""With the tens of trials of a treatment, a smaller part looks the same as outliers."""
_VALUES_PER_TRIMMED_VALUE = 20
"""One in so many values is trimmed at each end: an outlier would hide both modes."""
_HALVES_DISTANCE_IF_UNIFORM = math.sqrt(12)
"""Distance between the halves of a uniform distribution, in their standard deviations."""
_CHANCE_DISTANCE_TIMES_SQRT_TRIALS = 6.0
"""Extra distance, times the square root of the number of trials, that one sample in twenty has by chance."""


@dataclass(frozen=True)
class ModeSearchResult:
    """The number of modes (`one`, `two`, `unknown`) and, if two, the modes in ascending order."""

    modality: str
    modes: tuple[Mode, ...] = ()


def find_modes(values: Sequence[float], min_trials: int = MIN_TRIALS_FOR_MODES) -> ModeSearchResult:
    """Decide whether the values have one mode or two; a mode's value is the median of its trials.

    Fewer than `MIN_TRIALS_FOR_MODES` values cannot rule out a second mode, but they can show one. Each of
    two modes contains at least a fifth of the values. If not all values are positive, the scale is linear.

    Args:
        values: One value for each trial.
        min_trials: The result is `unknown` for fewer values.
    """
    if len(values) < min_trials:
        return ModeSearchResult("unknown")
    ordered = np.sort(np.asarray(values, dtype=float))
    trimmed = len(ordered) // _VALUES_PER_TRIMMED_VALUE
    scale = np.log(ordered) if ordered[0] > 0 else ordered
    fewest_in_mode = math.ceil(MIN_MODE_SHARE_OF_TRIALS * len(ordered)) - trimmed
    split = trimmed + _split_index_of_narrowest_halves(scale[trimmed : len(scale) - trimmed], fewest_in_mode)
    low, high = scale[trimmed:split], scale[split : len(scale) - trimmed]
    distance = float(np.mean(high) - np.mean(low))
    wider = max(float(np.std(low, ddof=1)), float(np.std(high, ddof=1)))
    threshold = _HALVES_DISTANCE_IF_UNIFORM + _CHANCE_DISTANCE_TIMES_SQRT_TRIALS / math.sqrt(len(ordered))
    # Values that differ only by rounding have parts of no width, so any distance would be far.
    if distance <= max(threshold * wider, 1e-9 * max(1.0, float(np.max(np.abs(scale))))):
        return ModeSearchResult("one" if len(values) >= MIN_TRIALS_FOR_MODES else "unknown")
    parts = (ordered[:split], ordered[split:])
    modes = (Mode(value=float(np.median(part)), share=len(part) / len(ordered)) for part in parts)
    return ModeSearchResult("two", tuple(modes))


def mark_values_of_upper_mode(values: Sequence[float], modes: Sequence[Mode]) -> list[bool]:
    """Return for each value whether it belongs to the upper of the two modes found in these values."""
    lower_count = round(modes[0].share * len(values))
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return [bool(rank >= lower_count) for rank in ranks]


def _split_index_of_narrowest_halves(ordered: npt.NDArray[np.float64], min_part_size: int) -> int:
    """Return the number of values in the lower part, with at least `min_part_size` in each part."""
    count = len(ordered)
    lower_counts = np.arange(min_part_size, count - min_part_size + 1)
    sums = np.cumsum(ordered - np.mean(ordered))
    # The least sum of squares within the parts is the largest between them, and the two parts' sums of
    # deviations are equal but for the sign.
    between = sums[lower_counts - 1] ** 2 * (1 / lower_counts + 1 / (count - lower_counts))
    return int(lower_counts[np.argmax(between)])
