"""The statement about the first seconds of a trial."""

from __future__ import annotations

import statistics

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import TrialPoint
from vnetbench.quantity import format_duration
from vnetbench.statements.claims import build_statement_part, claim_at_least, evaluate_claim
from vnetbench.statements.selection import TreatmentSelection
from vnetbench.statements.statement import StatementEvidence, StatementPart

stats = DeferredModule("scipy.stats")

TRIAL_SHARE_WITH_WARM_UP = "warm_up_share"
"""Metric name: the share of trials with a warm-up of MIN_WARM_UP_TO_COUNT_S or more."""
MIN_WARM_UP_TO_COUNT_S = 1.0
"""Shortest warm-up that the statement is about."""
_MIN_TRIAL_DURATION_S = 10.0
"""Minimum length of a trial: twice the time that the report drops, so that a warm-up stands out."""


def check_most_trials_warm_up(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S04: most trials have a different level in their first seconds."""
    claim = f"most trials have a warm-up of {format_duration(MIN_WARM_UP_TO_COUNT_S)} or more"
    if selection.summary.timing.warmup_s is not None:
        return (
            build_statement_part(
                claim, (), "results of a study without `timing.warmup`, so that the bench detects the warm-up"
            ),
        )
    points = [point for each in selection.treatments for point in each.treatment.points]
    long_points = [
        point
        for point in points
        if point.has_steady_state and point.duration_s >= _MIN_TRIAL_DURATION_S and point.time_series
    ]
    if not long_points:
        missing = (
            f"trials of {format_duration(_MIN_TRIAL_DURATION_S)} or more with samples and a steady state"
        )
        return (build_statement_part(claim, (), missing),)
    share = _trial_share_with_warm_up(long_points, selection.summary.required_precision.confidence)
    warm_up = statistics.median(point.warmup_s for point in long_points)
    length = statistics.median(point.duration_s for point in long_points)
    warm_up_text = format_duration(warm_up) if warm_up else "0 s"
    note = f"the median warm-up is {warm_up_text}, and the median trial length is {format_duration(length)}"
    return (
        build_statement_part(
            claim,
            [
                StatementEvidence(
                    {}, TRIAL_SHARE_WITH_WARM_UP, share, evaluate_claim(share, claim_at_least(0.5)), note=note
                )
            ],
            "",
        ),
    )


def _trial_share_with_warm_up(points: list[TrialPoint], confidence: float) -> Estimate:
    """Return the share of trials with a warm-up; interval of Clopper & Pearson (1934), Biometrika 26(4)."""
    count = sum(point.warmup_s >= MIN_WARM_UP_TO_COUNT_S for point in points)
    interval = stats.binomtest(count, len(points)).proportion_ci(confidence)
    return Estimate(count / len(points), interval.low, interval.high, confidence, len(points))
