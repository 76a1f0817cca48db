"""Find treatments with too few trials for a confidence interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vnetbench.estimate.interim_analyses import min_trials_for_interval
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.model import CandidateCause, Finding
from vnetbench.explain.rules import CauseRule, get_cause
from vnetbench.explain.scoring import rank_causes
from vnetbench.quantity import format_count_with_noun, format_exact_share

MAX_RATIO_OF_AGREEING_TRIALS = 1.3
"""Largest ratio of two trials at which they predict the next trial."""
AMBIGUOUS_TREATMENTS_KEY = "ambiguous"
"""Key in the finding's details: indices of treatments with two trials that differ in value and limit."""


def missing_interval_findings(summary: CampaignSummary, rules: Mapping[str, CauseRule]) -> Iterator[Finding]:
    """Yield one finding about all treatments without an interval; nothing if every treatment has one."""
    measured = [each for each in summary.treatments if summary.deciding_metric in each.metrics]
    few = [each for each in measured if _has_no_interval(each, summary.deciding_metric)]
    if not few or summary.represented_table is not None:
        return
    counts = sorted({each.trial_count for each in few})
    trials = (
        format_count_with_noun(counts[0], "trial")
        if len(counts) == 1
        else f"{counts[0]} to {counts[-1]} trials"
    )
    subject = (
        f"{len(few)} of {format_count_with_noun(len(measured), 'treatment')} have"
        if len(measured) > 1
        else "The treatment has"
    )
    fewest = min_trials_for_interval(summary.required_precision.confidence, has_more_analyses=False)
    needed = f"at least {fewest}" if counts[-1] < fewest else "more trials"
    share = format_exact_share(summary.required_precision.confidence)
    ambiguous = [each.index for each in few if _has_two_disagreeing_trials(summary, each, rules)]
    text = f"{subject} too few trials for an interval ({trials}). "
    text += f"A {share} interval of the median needs {needed}."
    if ambiguous:
        treatments = (
            "The" if len(measured) == 1 else f"In {format_count_with_noun(len(ambiguous), 'treatment')}, the"
        )
        text += f" {treatments} two trials have different values and limits, and either trial may be typical."
    yield Finding(
        kind="instrument",
        text=text,
        treatment_indices=tuple(each.index for each in few),
        candidates=(CandidateCause(get_cause("too_few_trials"), 1.0, "very likely", ()),),
        details={
            "cause": "too_few_trials",
            "trials": {str(each.index): each.trial_count for each in few},
            AMBIGUOUS_TREATMENTS_KEY: ambiguous,
        },
    )


def _has_two_disagreeing_trials(
    summary: CampaignSummary, treatment: TreatmentSummary, rules: Mapping[str, CauseRule]
) -> bool:
    """Return whether the treatment has two trials that differ in value and limit."""
    metric = summary.deciding_metric
    points = [point for point in treatment.points if metric in point.values]
    if len(points) != 2:
        return False
    values = [point.values[metric] for point in points]
    if max(values) <= MAX_RATIO_OF_AGREEING_TRIALS * min(values):
        return False
    return len({_top_cause_of_trial(summary, point, rules) for point in points}) == 2


def _top_cause_of_trial(
    summary: CampaignSummary, point: TrialPoint, rules: Mapping[str, CauseRule]
) -> str | None:
    """Return the first candidate by the evidence of a single trial."""
    candidates = rank_causes([point.evidence], rules, summary.workload).candidates
    return candidates[0].cause.name if candidates else None


def _has_no_interval(treatment: TreatmentSummary, metric: str) -> bool:
    return treatment.metrics[metric].low is None
