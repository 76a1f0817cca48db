"""Whether a treatment's trials fall into two modes, and which.

The values, on a logarithmic scale, are split in two where the two parts are narrowest together: Fisher
(1958), "On grouping for maximum homogeneity", JASA 53(284), which is a mixture of two normal distributions
with hard shares. Two parts are two modes where they lie far apart by the measure of Ashman, Bird & Zepf
(1994), "Detecting bimodality in astronomical datasets", Astronomical Journal 108(6), here put to the wider
part, so that a long tail is no mode. How far is far was set by simulation: of samples from a uniform
distribution, whose halves lie furthest apart among those without two modes, one in twenty may be called two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vnetbench.estimate.model import Mode

FEWEST_TRIALS_FOR_MODES = 20
SMALLEST_MODE_SHARE = 0.2
"""A smaller part can't be told from outliers in the tens of trials that a treatment has."""
_ONE_ASIDE_OF = 20
"""Of so many values the smallest and the largest are not looked at: an outlier would hide both modes."""
_HALVES_OF_UNIFORM = math.sqrt(12)
"""Distance of a uniform distribution's halves, in their standard deviations."""
_BY_CHANCE = 6.0
"""How much further, times the square root of the number of trials, chance takes one sample in twenty."""


@dataclass(frozen=True)
class ModeSearchResult:
    """How many modes there are (`one`, `two`, `cannot tell`) and, when two, which, ascending by value."""

    modality: str
    modes: tuple[Mode, ...] = ()


def find_modes(values: Sequence[float], fewest_trials: int = FEWEST_TRIALS_FOR_MODES) -> ModeSearchResult:
    """One mode or two, `cannot tell` for fewer than `fewest` values; a mode's value is its trials' median.

    Fewer than FEWEST_TRIALS are too few to say that there is one mode, but may well show two. Each of two
    modes has at least a fifth of the values. Values that are not all above zero are judged on
    their own scale instead of a logarithmic one.
    """
    if len(values) < fewest_trials:
        return ModeSearchResult("cannot tell")
    ordered = np.sort(np.asarray(values, dtype=float))
    aside = len(ordered) // _ONE_ASIDE_OF
    scale = np.log(ordered) if ordered[0] > 0 else ordered
    fewest_trials = math.ceil(SMALLEST_MODE_SHARE * len(ordered)) - aside
    split = aside + _narrowest_split(scale[aside : len(scale) - aside], fewest_trials)
    low, high = scale[aside:split], scale[split : len(scale) - aside]
    apart = float(np.mean(high) - np.mean(low))
    wider = max(float(np.std(low, ddof=1)), float(np.std(high, ddof=1)))
    far = _HALVES_OF_UNIFORM + _BY_CHANCE / math.sqrt(len(ordered))
    # Values that are alike but for rounding have parts of no width, any distance apart.
    if apart <= max(far * wider, 1e-9 * max(1.0, float(np.max(np.abs(scale))))):
        return ModeSearchResult("one" if len(values) >= FEWEST_TRIALS_FOR_MODES else "cannot tell")
    return ModeSearchResult("two", (_mode(ordered[:split], len(ordered)), _mode(ordered[split:], len(ordered))))


def mark_upper_mode(values: Sequence[float], modes: Sequence[Mode]) -> list[bool]:
    """Whether each of the values that these two modes were found in is in the upper one."""
    lower = round(modes[0].share * len(values))
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return [bool(rank >= lower) for rank in ranks]


def _narrowest_split(ordered: npt.NDArray[np.float64], fewest: int) -> int:
    """How many of the ordered values make up the lower part, with at least `fewest` in either."""
    count = len(ordered)
    lower = np.arange(fewest, count - fewest + 1)
    sums = np.cumsum(ordered - np.mean(ordered))
    # The least sum of squares within is the largest between, and both parts' sums are each other's negative.
    between = sums[lower - 1] ** 2 * (1 / lower + 1 / (count - lower))
    return int(lower[np.argmax(between)])


def _mode(values: npt.NDArray[np.float64], count: int) -> Mode:
    return Mode(value=float(np.median(values)), share=len(values) / count)
