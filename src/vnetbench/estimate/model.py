"""The values that the estimates are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study.model import Level


@dataclass(frozen=True)
class Mode:
    """One of two modes of a treatment's trials."""

    value: float
    share: float
    """Share of the trials in this mode, 0 to 1."""
    low: float | None = None
    high: float | None = None
    """The interval of the median of this mode's trials alone; None where these are too few for one."""


@dataclass(frozen=True)
class Estimate:
    """A treatment's value of one metric, with its confidence interval.

    `value` is the median of the trials, `low`..`high` the interval of the median of the distribution that the
    trials were drawn from. `low` and `high` are None when there are too few trials for the asked confidence.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    trials: int
    modality: str = "cannot tell"
    """`one`, `two` or `cannot tell` (fewer than 20 trials)."""
    modes: tuple[Mode, ...] = ()
    """Two modes when `modality` is `two`, ascending by value; else empty."""
    outliers: tuple[int, ...] = ()
    """Positions (in the order given) of trials marked as outliers; they are part of the estimate."""
    is_single_search: bool = False
    """`low` and `high` are what a single search of the throughput says of its own answer, at `confidence`
    where its method knows one (else 0): nothing repeated it."""
    is_published: bool = False
    """`low` and `high` are the least and the most of what `value` was published as the mean of, at
    `confidence` 0; None where it was published alone. No interval of it is known."""

    @property
    def half_width(self) -> float | None:
        """Half the interval's width as a share of the value; None without an interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


@dataclass(frozen=True)
class Warmup:
    """How many samples at the beginning of a trial are warm-up."""

    samples: int
    has_steady_state: bool
    """False: no steady state was reached (the last segment is under half of the trial)."""
    rule: str
    """The rule that found it, for example `change-point` or `fixed`."""


@dataclass(frozen=True)
class Ratio:
    """after / before of one treatment, with its interval."""

    value: float
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    """Two-sided p value of 'no difference'; adjusted over the matrix when `adjusted` is set."""
    is_adjusted: bool = False


@dataclass(frozen=True)
class Effect:
    """What changing one factor from one level to another multiplies a metric by, other factors alike."""

    factor: str
    base_level: str | int | float
    level: str | int | float
    ratio: Ratio
    """Geometric mean over the matched pairs of treatments."""
    pair_count: int
    """How many matched pairs of treatments it rests on."""
    excluded_pairs: int
    """How many more were matched but not used: refused, failed, dead at one level, or in too few blocks."""
    smallest_ratio: float
    """The smallest of the pairs' own ratios."""
    largest_ratio: float
    """The largest of the pairs' own ratios: far from `least` where the other factors matter to this one."""


@dataclass(frozen=True)
class BestTreatment:
    """The treatment with the best median of a metric, and how surely it is the best."""

    index: int
    metric: str
    ratios: Mapping[int, Ratio]
    """Each other measured treatment's index to its ratio to the best one; p adjusted over them. A treatment
    that shares no live block with the best one is absent."""
    tied_with: tuple[int, ...]
    """Indices of the treatments that can't be told from the best one, best median first."""


@dataclass(frozen=True)
class Experiment:
    """A treatment as it was and with another setting, in the same blocks (`experiments.py`)."""

    results_path: str
    """Of the results file that it is in."""
    base_levels: Mapping[str, Level]
    """Of the treatment as it was, with its defaults."""
    changed_levels: Mapping[str, Level]
    """What was set otherwise."""
    metric: str
    ratio: Ratio
    """With the setting / as it was."""
    shared_blocks: int
