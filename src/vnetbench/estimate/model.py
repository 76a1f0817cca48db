"""Result types of the statistics: estimates, warm-ups, ratios and effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vnetbench.study.model import Level

_ROUNDING_TOLERANCE = 1e-12
"""Rounding error of 1 minus a confidence."""


@dataclass(frozen=True)
class Mode:
    """One of two modes of a treatment's trials."""

    value: float
    """Median of the trials in this mode."""
    share: float
    """Share of the trials in this mode, 0 to 1."""
    low: float | None = None
    high: float | None = None
    """Confidence interval of this mode's median; None if the mode has too few trials."""


@dataclass(frozen=True)
class Estimate:
    """The median of one metric over a treatment's trials, with its confidence interval.

    `low`..`high` covers the median of the distribution that the trials were drawn from. Both are None for
    too few trials.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    trial_count: int
    modality: str = "unknown"
    """`one`, `two` or `unknown`: 20 trials are needed to rule out a second mode."""
    modes: tuple[Mode, ...] = ()
    """The two modes, ascending by value, if `modality` is `two`; otherwise empty."""
    outliers: tuple[int, ...] = ()
    """Indices of the trials marked as outliers. The estimate includes these trials."""
    is_from_single_search: bool = False
    """True if `low` and `high` come from a single throughput search that was not repeated.

    `confidence` is the one that the search method reports, or 0 if the method reports none."""
    is_published: bool = False
    """True for a published value. `low` and `high` are then the published minimum and maximum, or None.

    A published value has no confidence interval: `confidence` is 0."""

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width as a share of the value; None without an interval or at value 0."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


@dataclass(frozen=True, slots=True)
class Warmup:
    """The warm-up of one trial."""

    samples: int
    """Number of samples at the start of the trial that are warm-up."""
    has_steady_state: bool
    """False if the last segment with a constant level is shorter than half of the trial."""
    rule: str
    """The rule that set the warm-up, for example `change-point` or `fixed`."""


@dataclass(frozen=True)
class Ratio:
    """The ratio after / before of two sets of trials, with its confidence interval."""

    value: float
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    """Two-sided p value of the hypothesis "no difference"."""
    is_p_value_adjusted: bool = False
    """True if `p_value` is adjusted for multiple comparisons."""

    @property
    def has_significant_p_value(self) -> bool:
        """Whether the p value shows a difference at the ratio's confidence; False without one."""
        return self.p_value is not None and self.p_value <= 1 - self.confidence + _ROUNDING_TOLERANCE


@dataclass(frozen=True)
class Effect:
    """The factor by which a change of one factor's level multiplies a metric, other factors equal."""

    factor: str
    base_level: str | int | float
    level: str | int | float
    ratio: Ratio
    """Geometric mean over the matched pairs of treatments."""
    pair_count: int
    """Number of matched pairs of treatments in the mean."""
    excluded_pair_count: int
    """Number of matched pairs left out: refused, failed, zero at one level, or in too few blocks."""
    min_pair_ratio: float
    """The smallest ratio of a single pair."""
    max_pair_ratio: float
    """The largest ratio of a single pair: far from `min_pair_ratio` if other factors interact."""


@dataclass(frozen=True)
class BestTreatment:
    """The treatment with the best median of a metric, compared with all others."""

    index: int
    metric: str
    ratios: Mapping[int, Ratio]
    """Index of each other treatment to its ratio other / best. The p values are adjusted over all of them.

    A treatment that shares no block with the best one, or only blocks where both are zero, is absent."""
    tied_with: tuple[int, ...]
    """Indices of the other treatments that may be the best, best median first (`best_treatments.py`)."""
    worst_ratio_to_best: Mapping[int, float] = field(default_factory=dict)
    """Index to the worst ratio to the best other treatment that the trials allow; 1 if it is surely the best.

    It is 0 if unknown, or infinite if lower values are better. All bounds hold together, with the confidence
    of the study."""


@dataclass(frozen=True)
class Experiment:
    """A treatment before and after a change of its settings, in the same blocks (`experiments.py`)."""

    results_path: str
    """Path of the results file that contains the experiment."""
    base_levels: Mapping[str, Level]
    """Levels of the treatment before the change, defaults included."""
    changed_levels: Mapping[str, Level]
    """The levels that the experiment changed."""
    metric: str
    ratio: Ratio
    """After the change / before the change."""
    shared_block_count: int
    """Number of blocks in which both treatments ran."""
    resource: str = ""
    """Name of the resource that the change affects (docs/explain.md); empty if the file names none."""
    resource_ratio: float | None = None
    """Amount of this resource after the change / before it; None for a switch such as an offload."""
    has_changed_resource: bool = True
    """False if the trials show that the change left its resource as it was, such as the size of segments."""

    def without_effect_on_resource(self) -> Experiment:
        """Return the experiment as one that left its resource as it was, so that it says nothing about it."""
        return replace(self, resource="", resource_ratio=None, has_changed_resource=False)
