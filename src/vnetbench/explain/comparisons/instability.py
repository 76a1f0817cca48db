"""Why trials of one treatment differ: modes, drift, no rest before they end, other work on the machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.effects import values_by_block
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.comparisons import modes
from vnetbench.explain.comparisons.trend import Trend, over_blocks, with_figure
from vnetbench.explain.comparisons.words import named, percent
from vnetbench.explain.model import EvidenceItem, Finding, EvidenceChart, CandidateCause
from vnetbench.explain.phrases import figure_text, label_of
from vnetbench.explain.rules import get_cause
from vnetbench.wording.estimate_text import metric_of, noun_of
from vnetbench.wording.factor_text import capitalised, counted

_FEWEST_BLOCKS = 6
"""Fewer have too few orders for a p value as small as _SURE."""
_SURE = 0.01
"""At most one sound campaign in a hundred is called unstable for each reason."""
_BUSY = ("other_work_percent", "worst_steal_percent")
_LEAST_BUSY = 20.0
"""Percent of one CPU: less of other work, from the quiet to the busy trials, is no reason."""


def findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """All that makes trials differ, the modes first."""
    if summary.reference is not None:
        return ()
    return (*modes.findings(summary), *_drift(summary), *_warm_up(summary), *_machine_busy(summary))


def _drift(summary: CampaignSummary) -> Iterator[Finding]:
    """A trend over the blocks, in all treatments together, of more than the study's half-width in all."""
    series = [_logs(each, summary.main_metric) for each in summary.treatments]
    blocks = sorted({block for each in series for block in each})
    if summary.is_imported or len(blocks) < _FEWEST_BLOCKS:
        return
    trend = over_blocks(series)
    if trend is None or trend.p > _SURE:
        return
    change = math.expm1(trend.slope * (blocks[-1] - blocks[0]))
    if abs(change) < summary.precision.half_width:
        return
    verb = "falls" if change < 0 else "rises"
    yield Finding(
        kind="unstable",
        text=(
            f"{capitalised(noun_of(summary.main_metric))} {verb} by {percent(abs(change))} from the first "
            f"block to the last (p {_p_text(trend.p)}): what all treatments share changes with time. "
            "Effects and comparisons are made within blocks, so they hold; single values do not."
        ),
        candidates=(_plain_suspect("drift", 1 - trend.p),),
        chart=_course(summary, series),
        details={"cause": "drift", "change": change, "p": trend.p, "blocks": len(blocks)},
    )


def _course(summary: CampaignSummary, series: Sequence[Mapping[int, float]]) -> EvidenceChart:
    """Each block's median of the trials against their treatments' medians."""
    rest: dict[int, list[float]] = {}
    for own in series:
        for block, log in own.items():
            rest.setdefault(block, []).append(log - float(np.median(list(own.values()))))
    metric = metric_of(summary.main_metric)
    return EvidenceChart(
        chart_type="time_series",
        title=f"{metric.label} over the blocks of the campaign",
        x_label="block",
        y_label=f"{metric.label} against its treatments' medians (%)",
        rows=tuple(
            {"x": block, "y": 100 * math.exp(float(np.median(each))), "series": "all treatments"}
            for block, each in sorted(rest.items())
        ),
    )


def _warm_up(summary: CampaignSummary) -> Iterator[Finding]:
    """Treatments most of whose trials end before they come to rest."""
    moving = {each.index: _moving(summary, each) for each in summary.treatments}
    restless = [each for each in summary.treatments if _is_most(moving[each.index], each.trials)]
    if not restless:
        return
    moved = sum(moving[each.index] for each in restless)
    trials = sum(each.trials for each in restless)
    who = "" if len(summary.treatments) == 1 else f"{named(summary, restless)}: "
    yield Finding(
        kind="unstable",
        text=(
            f"{who}{moved} of {counted(trials, 'trial')} were still {_way(summary, restless)} when they "
            "ended, so their values are not those of a steady state."
        ),
        treatments=tuple(each.index for each in restless),
        candidates=(_plain_suspect("warm_up", moved / trials),),
        details={"cause": "warm_up", "moving": moved, "trials": trials},
    )


def _is_most(moving: int, trials: int) -> bool:
    return moving >= 2 and 2 * moving > trials


def _moving(summary: CampaignSummary, treatment: TreatmentSummary) -> int:
    """How many trials have no steady state, and end with a move that is more than the study's half-width.

    They all move one way: where a path or a buffer still fills, trials go on alike, and noise goes both ways.
    """
    return max(_rising_and_falling(summary, treatment))


def _rising_and_falling(summary: CampaignSummary, treatment: TreatmentSummary) -> tuple[int, int]:
    ends = [_end(point) for point in treatment.points if not point.has_steady_state]
    least = summary.precision.half_width
    return sum(end > 1 + least for end in ends), sum(end < 1 / (1 + least) for end in ends)


def _way(summary: CampaignSummary, restless: Sequence[TreatmentSummary]) -> str:
    """Which way the trials that are counted went: all of them in a treatment, but not in all treatments."""
    ways = [_rising_and_falling(summary, each) for each in restless]
    return " or ".join(sorted({"rising" if up >= down else "falling" for up, down in ways}, reverse=True))


def _end(point: TrialPoint) -> float:
    """The last quarter of a trial against the one before it."""
    quarter = len(point.time_series) // 4
    if not quarter:
        return 1.0
    before, last = (float(np.median(point.time_series[-end:][:quarter])) for end in (2 * quarter, quarter))
    return last / before if before > 0 else 1.0


def _machine_busy(summary: CampaignSummary) -> Iterator[Finding]:
    """Trials that are the worse the more something else ran beside them, and by how much."""
    found = {name: both for name in _BUSY if (both := _with(summary, name)) is not None}
    adjusted = adjust_p_values([Ratio(1.0, None, None, 0.95, trend.p) for trend, _ in found.values()])
    for (name, (trend, (quiet, busy))), ratio in zip(found.items(), adjusted, strict=True):
        if (ratio.p_value or 0.0) > _SURE or busy - quiet < _LEAST_BUSY:
            continue
        worse = _worse(summary, _within_trials(summary, trend.slope * (busy - quiet)))
        if worse < summary.precision.half_width:
            continue
        every = [p.evidence[name] for t in summary.treatments for p in t.points if _has(summary, p, name)]
        exhibit = EvidenceItem(name, float(np.median(every)), min(every), max(every), None)
        yield Finding(
            kind="unstable",
            text=(
                f"The machine was busy with something else, and the trials show it: with {label_of(name)} at "
                f"{figure_text(name, busy)} (busiest trials) {noun_of(summary.main_metric)} is "
                f"{percent(worse)} worse than with {figure_text(name, quiet)} (quietest trials)."
            ),
            candidates=(_plain_suspect("machine_busy", 1 - (ratio.p_value or 0.0), exhibit),),
            details={"cause": "machine_busy", "figure": name, "worse": worse, "p": ratio.p_value},
        )
        return


def _with(summary: CampaignSummary, figure: str) -> tuple[Trend, tuple[float, float]] | None:
    """How the logarithm of the metric moves with a figure, and the figure's 5 % and 95 % points.

    Less than a percent of a CPU is no difference: a slope between such trials would be of nothing but noise.
    """
    rows = [
        [
            (math.log(p.values[summary.main_metric]), round(p.evidence[figure]))
            for p in each.points
            if _has(summary, p, figure)
        ]
        for each in summary.treatments
    ]
    rows = [row for row in rows if len(row) > 1]
    trend = with_figure([[v for v, _ in row] for row in rows], [[f for _, f in row] for row in rows])
    if trend is None:
        return None
    ends = np.percentile([figure for row in rows for _, figure in row], [5, 95])
    return trend, (float(ends[0]), float(ends[1]))


def _has(summary: CampaignSummary, point: TrialPoint, figure: str) -> bool:
    return figure in point.evidence and point.values.get(summary.main_metric, 0.0) > 0


def _within_trials(summary: CampaignSummary, log: float) -> float:
    """Not more than trials of one treatment differ: a slope between close figures tells nothing far away."""
    every = [[p.values.get(summary.main_metric, 0.0) for p in each.points] for each in summary.treatments]
    above = [[value for value in own if value > 0] for own in every]
    most = max((math.log(max(own) / min(own)) for own in above if own), default=0.0)
    return max(-most, min(most, log))


def _worse(summary: CampaignSummary, log: float) -> float:
    """The share by which the metric is worse where its logarithm differs by so much; below 0: better."""
    return math.expm1(log) if is_lower_better(summary.main_metric) else -math.expm1(log)


def _logs(treatment: TreatmentSummary, metric: str) -> dict[int, float]:
    return {block: math.log(value) for block, value in values_by_block(treatment, metric).items() if value > 0}


def _plain_suspect(cause: str, score: float, *exhibits: EvidenceItem) -> CandidateCause:
    return CandidateCause(get_cause(cause), score, "very likely", exhibits)


def _p_text(p: float) -> str:
    return "below 0.001" if p < 0.001 else f"{p:.2g}"
