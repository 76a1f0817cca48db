"""How many times faster or slower, told from trials of the same blocks: what a block did to both cancels out.

A pair of treatments gives one logarithm of a ratio in each block that both have. Their 20 % trimmed mean
bears one odd or dead trial in five on either side; its spread is told from the same logarithms, the trimmed
ones pulled in (Tukey & McLaughlin 1963, "Less vulnerable confidence and significance procedures for
location based on a single sample: trimming/Winsorization 1", Sankhyā A 25(3)). Several pairs count alike.
Their blocks are the same, and a bad block may be worse for one level than for the other: so what a block adds
to the error is summed over the pairs before it is squared (Liang & Zeger 1986, "Longitudinal data analysis
using generalized linear models", Biometrika 73(1), with blocks as clusters).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import special

from vnetbench.estimate.interim_analyses import fewest_trials_for_interval
from vnetbench.estimate.model import Ratio

_TRIMMED = 0.2


@dataclass(frozen=True)
class PairedRatio:
    """Two treatments compared in the blocks that both have."""

    log_ratio: float
    """Logarithm of the ratio: trimmed mean over the blocks; infinite where one treatment is dead."""
    block_errors: Mapping[int, float]
    """Block to its share of the error of `log`; their squares add up to the variance."""
    untrimmed_blocks: int
    """Number of blocks that were not trimmed."""

    @property
    def ratio(self) -> float:
        """The ratio itself; 0 or infinite where one treatment is dead."""
        return _exp(self.log_ratio)

    @property
    def block_count(self) -> int:
        """Number of blocks that both treatments have."""
        return len(self.block_errors)


def paired_ratio(base: Mapping[int, float], changed: Mapping[int, float]) -> PairedRatio | None:
    """level / base, from each one's trials by block (same unit); None where they have no ratio.

    They have none without a block in which either is alive, or where one is dead in more blocks than are
    trimmed and alive in others. Raises ValueError for a value that is negative or not finite.
    """
    if not all(0 <= value < math.inf for value in (*base.values(), *changed.values())):
        raise ValueError("a ratio needs values that are finite and not negative")
    # Two dead trials say nothing about a ratio.
    blocks = sorted(block for block in base.keys() & changed.keys() if base[block] > 0 or changed[block] > 0)
    if not blocks:
        return None
    # Plain floats: of so few they are faster than arrays, and a matrix has thousands of pairs.
    logs = [_log(changed[block]) - _log(base[block]) for block in blocks]
    trimmed = int(_TRIMMED * len(logs))
    kept = len(logs) - 2 * trimmed
    middle = sorted(logs)[trimmed : trimmed + kept]
    low, high = middle[0], middle[-1]
    if low == high:
        return PairedRatio(low, dict.fromkeys(blocks, 0.0), kept)
    if math.isinf(low) or math.isinf(high):
        return None
    pulled_in = [min(max(log, low), high) for log in logs]
    mean, scale = math.fsum(pulled_in) / len(logs), math.sqrt(kept * (kept - 1))
    errors = {block: (log - mean) / scale for block, log in zip(blocks, pulled_in, strict=True)}
    return PairedRatio(math.fsum(middle) / kept, errors, kept)


def fewest_blocks(confidence: float) -> int:
    """How many blocks a pair needs for an interval: as many as one treatment's median needs trials."""
    return fewest_trials_for_interval(confidence, has_more_analyses=False)


def combine_ratios(ratios: Sequence[PairedRatio], confidence: float) -> Ratio:
    """The ratio that all pairs have on average (geometric mean of theirs), its interval and p value.

    `low`, `high` and p are None where a pair has too few blocks (`fewest_blocks`); the bounds alone are None
    where a treatment is dead throughout. The interval is Student's t, with degrees of freedom for a sum of
    unequal variances (Satterthwaite 1946, Biometrics Bulletin 2(6)). Raises ValueError without pairs, for
    pairs of which one is dead at one level and one at the other, and for a confidence outside 0..1.
    """
    if not ratios or len({pair.log_ratio for pair in ratios if math.isinf(pair.log_ratio)}) > 1:
        raise ValueError("pairs have a ratio together when there are any, and not zero and infinite ones")
    log = sum(pair.log_ratio for pair in ratios) / len(ratios)
    value = _exp(log)
    if min(pair.block_count for pair in ratios) < fewest_blocks(confidence):
        return Ratio(value, None, None, confidence, None)
    if math.isinf(log):
        return Ratio(value, None, None, confidence, 0.0)
    shares: dict[int, float] = {}
    for pair in ratios:
        for block, error in pair.block_errors.items():
            shares[block] = shares.get(block, 0.0) + error / len(ratios)
    spread = math.sqrt(math.fsum(share * share for share in shares.values()))
    if spread == 0:
        return Ratio(value, value, value, confidence, 1.0 if log == 0 else 0.0)
    freedom = _degrees_of_freedom(ratios)
    reach = spread * float(special.stdtrit(freedom, (1 + confidence) / 2))
    p = 2 * float(special.stdtr(freedom, -abs(log) / spread))
    return Ratio(value, _exp(log - reach), _exp(log + reach), confidence, p)


def _degrees_of_freedom(pairs: Sequence[PairedRatio]) -> float:
    """As many as there are blocks that matter, less what trimming takes, less one."""
    variances = [math.fsum(error * error for error in pair.block_errors.values()) for pair in pairs]
    weights: dict[int, float] = {}
    for pair, variance in zip(pairs, variances, strict=True):
        for block in pair.block_errors:
            weights[block] = weights.get(block, 0.0) + variance / pair.block_count
    total = math.fsum(weights.values())
    blocks = total**2 / math.fsum(weight**2 for weight in weights.values())
    kept = math.fsum(v * pair.untrimmed_blocks / pair.block_count for pair, v in zip(pairs, variances, strict=True)) / total
    return max(1.0, blocks * kept - 1)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _exp(log: float) -> float:
    return math.exp(log) if log < 700 else math.inf
