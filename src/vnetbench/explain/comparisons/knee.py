"""From where on more brings little: the knee of a metric over a factor of numbers, all else alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.cell_means import Cell, Numbers, cells_of, redrawn
from vnetbench.explain.comparisons.scaling_laws import FEWEST_LEVELS, SCALABILITY, Law, choose, in_first_levels
from vnetbench.explain.comparisons.words import is_numeric, others_of
from vnetbench.explain.model import MEASURED_SERIES, Finding, EvidenceChart
from vnetbench.explain.models import scalability
from vnetbench.quantity import scale_for, spell_share
from vnetbench.study.model import Level
from vnetbench.wording.estimate_text import finite_or_none, metric_of, noun_of
from vnetbench.wording.factor_text import capitalised, factor_label, level_phrase

LITTLE = 0.05
"""Once all that more can bring is less than this share, it brings little."""
_LOG_OF_LITTLE = math.log1p(LITTLE)
_DRAWS = 100
_DRAWN_AT = 40
"""Places at which a law is drawn."""


@dataclass(frozen=True)
class Knee:
    """One scaling curve: the treatments that differ in one factor alone."""

    factor: str
    cells: tuple[Cell, ...]
    """Ascending by level, as `levels` are."""
    levels: tuple[float, ...]
    law: Law
    heights: tuple[float, ...]
    """Of the law at the levels, as logarithms."""
    line: tuple[tuple[float, float], ...]
    """The law as it is drawn: a level and its height."""
    at: float
    """The smallest level after which the law gains less than LITTLE; the last one where none is shown."""
    low: float
    high: float
    """Its interval, of levels."""
    scaling: scalability.Fit | None
    """Where that is the law: its parameters, in units of the first level."""
    criteria: Mapping[str, float]

    @property
    def is_shown(self) -> bool:
        """Whether the knee lies before the last level, beyond doubt."""
        return self.high < self.levels[-1]

    @property
    def peak(self) -> float | None:
        """The level with the most, where the law falls again beyond it within the levels."""
        peak = self.scaling.peak * self.levels[0] if self.scaling else math.inf
        return peak if peak < self.levels[-1] else None

    @property
    def loss(self) -> float:
        """The share that the last level loses against the best, by the law."""
        return 1 - math.exp(self.heights[-1] - max(self.heights))


def knees(summary: CampaignSummary) -> tuple[Knee, ...]:
    """Every scaling curve with levels enough; none of a metric that should be low."""
    metric = summary.main_metric
    if is_lower_better(metric):
        return ()
    cells = cells_of(summary, metric)
    if not cells:
        return ()
    drawn = {
        cell.treatment.index: column for cell, column in zip(cells, redrawn(cells, _DRAWS).T, strict=True)
    }
    return tuple(
        knee
        for factor in summary.factors
        if is_numeric(factor.name)
        for knee in _of_factor(factor.name, cells, drawn, summary.precision.confidence)
    )


def findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """One finding a factor that has a scaling curve."""
    by_factor: dict[str, list[Knee]] = {}
    for knee in knees(summary):
        by_factor.setdefault(knee.factor, []).append(knee)
    return tuple(_finding(summary, factor, found) for factor, found in by_factor.items())


def _curves(cells: Sequence[Cell], factor: str) -> Iterator[list[Cell]]:
    groups: dict[frozenset[tuple[str, Level]], list[Cell]] = {}
    for cell in cells:
        levels = cell.treatment.factors
        if isinstance(levels.get(factor), int | float) and float(levels[factor]) > 0:
            groups.setdefault(cell.treatment.levels_without(factor), []).append(cell)
    for group in groups.values():
        if len(group) >= FEWEST_LEVELS:
            yield sorted(group, key=lambda cell: float(cell.treatment.factors[factor]))


def _of_factor(
    factor: str, cells: Sequence[Cell], drawn: Mapping[int, Numbers], confidence: float
) -> Iterator[Knee]:
    """Curves over the same levels are fitted together: a large matrix has hundreds of them."""
    curves = list(_curves(cells, factor))
    by_levels: dict[tuple[float, ...], list[int]] = {}
    for number, curve in enumerate(curves):
        levels = tuple(float(cell.treatment.factors[factor]) for cell in curve)
        by_levels.setdefault(levels, []).append(number)
    found: dict[int, Knee] = {}
    for levels, numbers in by_levels.items():
        alike = [curves[number] for number in numbers]
        found |= zip(numbers, _knees(factor, levels, alike, drawn, confidence), strict=True)
    yield from (found[number] for number in range(len(curves)))


def _knees(
    factor: str,
    levels: tuple[float, ...],
    curves: Sequence[Sequence[Cell]],
    drawn: Mapping[int, Numbers],
    confidence: float,
) -> list[Knee]:
    """Of curves over these levels, in their order."""
    at, line_at = np.array(levels), np.geomspace(levels[0], levels[-1], _DRAWN_AT)
    logs = np.array([[cell.log for cell in curve] for curve in curves])
    again = np.array([[drawn[cell.treatment.index] for cell in curve] for curve in curves]).swapaxes(1, 2)
    tail = 100 * (1 - confidence) / 2
    laws = choose(levels, logs, _LOG_OF_LITTLE)
    found: dict[int, Knee] = {}
    for law in dict.fromkeys(law for law, _ in laws):
        rows = [row for row, (own, _) in enumerate(laws) if own is law]
        fitted = law.fit(at, logs[rows])
        heights, lines = fitted(at), fitted(line_at)
        many = law.fit(at, again[rows].reshape(-1, len(at)))(at)
        places = _little_from(many).reshape(len(rows), -1)
        ends = np.percentile(places, [tail, 100 - tail], axis=1, method="closest_observation")
        for row, place, own, line, low, high in zip(
            rows, _little_from(heights), heights, lines, *ends.astype(int), strict=True
        ):
            found[row] = Knee(
                factor=factor,
                cells=tuple(curves[row]),
                levels=levels,
                law=law,
                heights=tuple(own.tolist()),
                line=tuple(zip(line_at.tolist(), line.tolist(), strict=True)),
                at=levels[place],
                low=levels[min(place, low)],
                high=levels[max(place, high)],
                scaling=in_first_levels(at, logs[row]) if law.name == SCALABILITY else None,
                criteria=laws[row][1],
            )
    return [found[row] for row in range(len(curves))]


def _little_from(heights: Numbers) -> npt.NDArray[np.intp]:
    """Of each row the first place after which nothing is higher by more than little."""
    still_to_come = np.maximum.accumulate(heights[:, ::-1], axis=1)[:, ::-1]
    places: npt.NDArray[np.intp] = np.argmax(still_to_come - heights < _LOG_OF_LITTLE, axis=1)
    return places


def _finding(summary: CampaignSummary, factor: str, found: Sequence[Knee]) -> Finding:
    groups: dict[str, list[Knee]] = {}
    for knee in found:
        groups.setdefault(_says(summary, knee), []).append(knee)
    sentences = [f"{says}{_where(summary, factor, of_them, len(found))}." for says, of_them in groups.items()]
    return Finding(
        kind="knee",
        text=" ".join(map(capitalised, sentences)),
        treatments=tuple(cell.treatment.index for knee in found for cell in knee.cells),
        chart=_picture(summary, found),
        details={"factor": factor, "little": LITTLE, "curves": [_details(knee) for knee in found]},
    )


def _says(summary: CampaignSummary, knee: Knee) -> str:
    noun, little = noun_of(summary.main_metric), spell_share(LITTLE)
    last = _level(knee, knee.levels[-1])
    if not knee.is_shown:
        return f"no knee is shown: up to {last} more may still bring {little} more {noun}"
    says = f"from {_level(knee, knee.at)} on more brings less than {little}"
    if knee.low != knee.high:
        says += f" (interval: {_level(knee, knee.low)} to {_level(knee, knee.high)})"
    if knee.loss >= LITTLE:
        says += f", and then less: with {last} {spell_share(round(knee.loss, 2))} below the most"
    return says


def _where(summary: CampaignSummary, factor: str, of_them: Sequence[Knee], count: int) -> str:
    if count == 1:
        return ""
    if len(of_them) == count:
        return f", in all {count} curves"
    names = [others_of(summary, knee.cells[0].treatment, factor) for knee in of_them]
    listed = "; ".join(names[:3]) + ("; …" if len(names) > 3 else "")
    return f" (with {listed})"


def _level(knee: Knee, level: float) -> str:
    return level_phrase(knee.factor, _as_level(knee, level))


def _as_level(knee: Knee, level: float) -> Level:
    return knee.cells[knee.levels.index(level)].treatment.factors[knee.factor]


def _picture(summary: CampaignSummary, found: Sequence[Knee]) -> EvidenceChart:
    metric = metric_of(summary.main_metric)
    scale = scale_for(metric.unit, max(math.exp(cell.log) for knee in found for cell in knee.cells))
    rows: list[Mapping[str, str | float]] = []
    for knee in found:
        name = others_of(summary, knee.cells[0].treatment, knee.factor)
        rows += [
            _measured(level, cell, scale.divisor) for level, cell in zip(knee.levels, knee.cells, strict=True)
        ]
        rows += [
            {
                "x": level,
                "y": math.exp(height) / scale.divisor,
                "series": f"{name}: {knee.law.name}" if name else knee.law.name,
            }
            for level, height in knee.line
        ]
    return EvidenceChart(
        chart_type="curve",
        title=f"{metric.label} over {factor_label(found[0].factor).lower()}",
        x_label=factor_label(found[0].factor),
        y_label=f"{metric.label} ({scale.unit})" if scale.unit else metric.label,
        rows=tuple(rows),
    )


def _measured(level: float, cell: Cell, divisor: float) -> dict[str, str | float]:
    reach = 2 * math.sqrt(cell.variance)
    low, middle, high = (math.exp(cell.log + way * reach) / divisor for way in (-1, 0, 1))
    return {"x": level, "y": middle, "low": low, "high": high, "series": MEASURED_SERIES}


def _details(knee: Knee) -> dict[str, object]:
    return {
        "treatments": [cell.treatment.index for cell in knee.cells],
        "knee": knee.at,
        "low": knee.low,
        "high": knee.high,
        "is_shown": knee.is_shown,
        "law": knee.law.name,
        "criteria": dict(knee.criteria),
        "peak": knee.peak,
        "scalability": _of_scaling(knee.scaling) if knee.scaling else None,
    }


def _of_scaling(law: scalability.Fit) -> dict[str, object]:
    """JSON has no infinity: a peak that is nowhere is None."""
    found = {"gamma": law.gamma, "sigma": law.sigma, "kappa": law.kappa, "peak": law.peak}
    return {
        name: {
            "value": finite_or_none(value),
            "interval": [finite_or_none(end) for end in law.intervals.get(name, ())],
        }
        for name, value in found.items()
    }
