"""What is surprising: treatments far from what all others predict, and changes that do harm and should not.

A treatment's prediction is the additive model of logarithms with each two factors' interaction (of a factor
of numbers its slope over their logarithm), fitted to all other treatments. How far off is far is told by how
far off the others are: the outermost is taken away as long as it stands out, and what stood out is judged
with as many others as there are (Rosner 1983, "Percentage points for a generalized ESD many-outlier
procedure", Technometrics 25(2), with externally studentized residuals: Belsley, Kuh & Welsch 1980).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.effects import compare_treatments
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import combine_ratios
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.comparisons.cell_means import Cell, Numbers, cells_of
from vnetbench.explain.comparisons.variance_shares import indicators, products
from vnetbench.explain.comparisons.words import ends_of, is_numeric, others_of, percent, times
from vnetbench.explain.model import Finding, EvidenceChart
from vnetbench.study.model import ONE_AT_A_TIME, Level
from vnetbench.wording.estimate_text import noun_of
from vnetbench.wording.factor_text import factor_noun, level_phrase
from vnetbench.wording.treatment_names import name_of

_FEWEST_FREE = 5
"""Treatments more than the model has parameters: with fewer, nothing is left to tell what is usual."""
_SMALLEST_ERROR = 1e-9
"""Of a logarithm: a smaller one is of rounding."""
_MOST_OUT, _MOST_LOOKED_AT = 0.1, 10
"""More of the treatments than this share, or number, are no exceptions, but the rule."""

MORE_IS_BETTER = ("streams", "threads", "pairs", "guests", "connections", "mtu", "message_size", "send_batch",
                  "queues", "vcpus", "socket_buffer", "link_rate", "rx_ring", "tx_ring")  # fmt: skip
ON_IS_BETTER = ("tso", "gso", "uso", "gro", "lro", "checksum_offload", "udp_gso", "udp_gro")
"""Factors of which everybody expects that more, or `on`, does no harm to a rate."""
_RATES = (
    "goodput_bps",
    "transactions_per_s",
    "connections_per_s",
    "datagrams_received_per_s",
    "throughput_fps",
)


@dataclass(frozen=True)
class Outlier:
    """A treatment that the others do not predict."""

    cell: Cell
    ratio: Ratio
    """Measured over predicted; its p value holds for the outermost of all treatments."""


@dataclass(frozen=True)
class Contradiction:
    """Two treatments alike but for a factor that should do no harm, and does."""

    factor: str
    less: TreatmentSummary
    more: TreatmentSummary
    ratio: Ratio
    """Of the one with more of the factor to the other; p adjusted over all pairs that were compared."""


def outliers(summary: CampaignSummary) -> tuple[Outlier, ...]:
    """The treatments that stand out beyond chance and by more than the study's half-width."""
    cells = list(cells_of(summary, summary.main_metric))
    if not cells or summary.combine == ONE_AT_A_TIME:
        return ()
    factors = [factor.name for factor in summary.factors]
    all_of_them, out = len(cells), []
    last = 0
    for number in range(1, min(_MOST_LOOKED_AT, max(1, int(_MOST_OUT * all_of_them))) + 1):
        found = _outermost(cells, factors, all_of_them, summary.precision.confidence)
        if found is None:
            break
        out.append(found)
        cells.remove(found.cell)
        # One that hides behind another shows when that is gone: all up to the last that stands out count.
        last = number if _stands_out(summary, found) else last
    return tuple(each for each in out[:last] if _matters(summary, each.ratio))


def contradictions(summary: CampaignSummary) -> tuple[Contradiction, ...]:
    """Neighbouring levels of which the larger one, or `on`, gives a rate less, in the blocks of both."""
    if summary.main_metric not in _RATES or summary.is_imported:
        return ()
    found = [
        Contradiction(factor.name, less, more, combine_ratios([pair], summary.precision.confidence))
        for factor in summary.factors
        for less, more in _neighbours(summary, factor.name)
        if (pair := compare_treatments(less, more, summary.main_metric)) is not None
    ]
    ratios = adjust_p_values([each.ratio for each in found])
    judged = (
        Contradiction(each.factor, each.less, each.more, ratio)
        for each, ratio in zip(found, ratios, strict=True)
    )
    return tuple(
        each
        for each in judged
        if each.ratio.p_value is not None
        and each.ratio.p_value <= 1 - each.ratio.confidence
        and each.ratio.value < 1 - summary.precision.half_width
    )


def findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """One finding a treatment that stands out, and one a factor that does harm somewhere."""
    by_factor: dict[str, list[Contradiction]] = {}
    for each in contradictions(summary):
        by_factor.setdefault(each.factor, []).append(each)
    return (
        *(_outlier_finding(summary, each) for each in outliers(summary)),
        *(_contradiction_finding(summary, factor, found) for factor, found in by_factor.items()),
    )


def _outermost(
    cells: Sequence[Cell], factors: Sequence[str], count: int, confidence: float
) -> Outlier | None:
    """The treatment that is furthest off by the others' measure; None where too few are left to tell."""
    model = _model(cells, factors)
    if model is None:
        return None
    projection, rank = model
    logs = np.array([cell.log for cell in cells])
    freedom = len(cells) - rank - 1
    leverage = np.diag(projection)
    rest = logs - projection @ logs
    free = leverage < 1 - 1e-6  # alone with a level: whatever it is, it is predicted
    if not free.any():
        return None
    share = np.where(free, 1 - leverage, 1.0)
    own_variance = np.array([cell.variance for cell in cells])
    # Nothing is known more exactly than the trials tell, however well the others happen to fit.
    least = np.maximum(own_variance, _SMALLEST_ERROR**2)
    variance = np.maximum((float(rest @ rest) - rest**2 / share) / freedom, least)
    scores = np.where(free, np.abs(rest) / np.sqrt(variance * share), 0.0)
    at = int(np.argmax(scores))
    off = float(rest[at] / share[at])
    error = math.sqrt(float(variance[at] / share[at]))
    p = min(1.0, 2 * float(special.stdtr(freedom, -float(scores[at]))) * count)
    reach = error * float(special.stdtrit(freedom, (1 + confidence) / 2))
    ratio = Ratio(math.exp(off), math.exp(off - reach), math.exp(off + reach), confidence, p, is_adjusted=True)
    return Outlier(cells[at], ratio)


def _model(cells: Sequence[Cell], factors: Sequence[str]) -> tuple[Numbers, int] | None:
    """What projects onto the richest model that leaves treatments enough to judge by, and its rank."""
    constant = np.ones((len(cells), 1))
    mains = {name: own for name in factors if (own := indicators(cells, name)).shape[1]}
    plain = [constant, *mains.values()]
    slim = {name: _slope(cells, name) if is_numeric(name) else own for name, own in mains.items()}
    both = [products(slim[one], slim[other]) for one, other in itertools.combinations(mains, 2)]
    for columns in ([*plain, *both], plain):
        table = np.hstack(columns)
        inverse = np.linalg.pinv(table.T @ table, rcond=1e-10, hermitian=True)
        projection: Numbers = table @ inverse @ table.T
        rank = round(float(np.trace(projection)))
        if len(cells) - rank >= _FEWEST_FREE:
            return projection, rank
    return None


def _slope(cells: Sequence[Cell], factor: str) -> Numbers:
    """The level's logarithm, centred, and a column for each word among the levels."""
    levels = [cell.treatment.factors.get(factor) for cell in cells]
    numbers = np.array([_log(level) for level in levels])
    if np.isnan(numbers).all():
        return indicators(cells, factor)
    slope = np.where(np.isnan(numbers), 0.0, numbers - np.nanmean(numbers))
    words = [level for level in dict.fromkeys(levels) if math.isnan(_log(level))]
    columns = [slope, *([float(level == word) for level in levels] for word in words)]
    table: Numbers = np.array(columns).T
    return table


def _log(level: Level | None) -> float:
    """Not a number for a word."""
    return math.log(level) if isinstance(level, int | float) and level > 0 else math.nan


def _stands_out(summary: CampaignSummary, found: Outlier) -> bool:
    return found.ratio.p_value is not None and found.ratio.p_value <= 1 - summary.precision.confidence


def _matters(summary: CampaignSummary, ratio: Ratio) -> bool:
    """Whether even the nearer end of the interval is further off than the study asked to tell."""
    low, high = ratio.low or 0.0, ratio.high or math.inf
    return low > 1 + summary.precision.half_width or high < 1 - summary.precision.half_width


def _neighbours(summary: CampaignSummary, factor: str) -> Iterator[tuple[TreatmentSummary, TreatmentSummary]]:
    """Treatments alike but for this factor, at one level and the next larger one that was measured."""
    if factor not in (*MORE_IS_BETTER, *ON_IS_BETTER):
        return
    groups: dict[frozenset[tuple[str, Level]], list[tuple[float, TreatmentSummary]]] = {}
    for each in summary.treatments:
        rank = _rank(factor, each.factors.get(factor))
        if rank is not None and summary.main_metric in each.metrics:
            groups.setdefault(each.levels_without(factor), []).append((rank, each))
    for group in groups.values():
        ordered = [each for _, each in sorted(group, key=lambda pair: pair[0])]
        yield from itertools.pairwise(ordered)


def _rank(factor: str, level: Level | None) -> float | None:
    if factor in ON_IS_BETTER:
        return {"off": 0.0, "on": 1.0}.get(str(level))
    return float(level) if isinstance(level, int | float) else None


def _outlier_finding(summary: CampaignSummary, found: Outlier) -> Finding:
    treatment, ratio = found.cell.treatment, found.ratio
    off = f"{percent(abs(ratio.value - 1))} {'more' if ratio.value > 1 else 'less'}"
    return Finding(
        kind="surprise",
        text=(
            f"{name_of(summary, treatment)}: {noun_of(summary.main_metric)} is {off} than the other "
            f"treatments let expect, times {times(ratio)}."
        ),
        treatments=(treatment.index,),
        details={
            "ratio": ratio.value,
            "low": ratio.low,
            "high": ratio.high,
            "p": ratio.p_value,
            "predicted": math.exp(found.cell.log) / ratio.value,
        },
    )


def _contradiction_finding(summary: CampaignSummary, factor: str, found: Sequence[Contradiction]) -> Finding:
    worst = min(found, key=lambda each: each.ratio.value)
    less, more = (level_phrase(factor, each.factors[factor]) for each in (worst.less, worst.more))
    compared = len(list(_neighbours(summary, factor)))
    others = others_of(summary, worst.less, factor)
    where = f" ({others})" if others and len(found) < compared else ""
    often = f"; so in {len(found)} of {compared} pairs that differ in {factor_noun(factor)} alone"
    return Finding(
        kind="surprise",
        text=(
            f"More is less: {more} instead of {less}{where} multiplies {noun_of(summary.main_metric)} by "
            f"{times(worst.ratio)}{often if compared > 1 else ''}."
        ),
        treatments=tuple(dict.fromkeys(each.more.index for each in found)),
        chart=EvidenceChart(
            chart_type="effects",
            title=f"Where more {factor_noun(factor)} is less",
            x_label="",
            y_label=f"{noun_of(summary.main_metric)}, times",
            rows=tuple(_row(summary, each) for each in found),
        ),
        details={
            "factor": factor,
            "pairs": [
                {"less": e.less.index, "more": e.more.index, "ratio": e.ratio.value, "low": e.ratio.low,
                 "high": e.ratio.high, "p": e.ratio.p_value}
                for e in found
            ],
        },
    )  # fmt: skip


def _row(summary: CampaignSummary, found: Contradiction) -> Mapping[str, str | float]:
    ratio = found.ratio
    base = level_phrase(found.factor, found.less.factors[found.factor])
    return {"x": f"{name_of(summary, found.more)} / {base}", "y": ratio.value, **ends_of(ratio)}
