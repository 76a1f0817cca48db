"""The statement on the first seconds of a trial."""

from __future__ import annotations

import statistics

from scipy import stats

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import TrialPoint
from vnetbench.quantity import format_duration
from vnetbench.statements.claims import at_least, judged, part
from vnetbench.statements.selection import TreatmentSelection
from vnetbench.statements.statement import StatementEvidence, StatementPart

WARM_UP = "warm_up_share"
"""In the place of a metric: the share of trials that had a warm-up of SHORTEST_S or more."""
SHORTEST_S = 1.0
"""A warm-up of less is not what is meant by the first seconds."""
_LONG_ENOUGH_S = 10.0
"""Twice what the report drops: what a trial has to last for its first seconds to stand out."""


def first_seconds(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S04: the level of most trials is another one in the first seconds than after them."""
    what = f"most trials have a warm-up of {format_duration(SHORTEST_S)} or more"
    if found.summary.timing.warmup_s is not None:
        return (part(what, (), "a study that sets no warm-up, so that it is looked for"),)
    points = [point for each in found.tested for point in each.treatment.points]
    long = [point for point in points if point.has_steady_state and point.duration_s >= _LONG_ENOUGH_S and point.time_series]
    if not long:
        lacks = f"trials of {format_duration(_LONG_ENOUGH_S)} or more with samples, steady at their ends"
        return (part(what, (), lacks),)
    share = _share(long, found.summary.precision.confidence)
    cut = statistics.median(point.warmup_s for point in long)
    length = statistics.median(point.duration_s for point in long)
    note = f"{format_duration(cut) if cut else 'nothing'} of {format_duration(length)} in the middle of them"
    return (part(what, [StatementEvidence({}, WARM_UP, share, judged(share, at_least(0.5)), note=note)], ""),)


def _share(points: list[TrialPoint], confidence: float) -> Estimate:
    """The share of trials with such a warm-up, its interval by Clopper & Pearson (1934), Biometrika 26(4)."""
    count = sum(point.warmup_s >= SHORTEST_S for point in points)
    interval = stats.binomtest(count, len(points)).proportion_ci(confidence)
    return Estimate(count / len(points), interval.low, interval.high, confidence, len(points))
