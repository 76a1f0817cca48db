"""What is to be known of the trials before their figures are believed."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.interim_analyses import fewest_trials_for_interval
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.scoring import rank_causes
from vnetbench.explain.model import Finding, CandidateCause
from vnetbench.explain.rules import get_cause, load_rules
from vnetbench.quantity import spell_share
from vnetbench.wording.factor_text import counted

DIFFERING = 1.3
"""Two trials that differ by more, as a ratio, say nothing of what a third would be."""


def instrument(summary: CampaignSummary) -> Iterator[Finding]:
    """Treatments with too few trials for an interval, where there are any."""
    measured = [each for each in summary.treatments if summary.main_metric in each.metrics]
    few = [each for each in measured if _has_no_interval(each, summary.main_metric)]
    if not few or summary.reference is not None:
        return
    counts = sorted({each.trials for each in few})
    trials = counted(counts[0], "trial") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} trials"
    who = f"{len(few)} of {counted(len(measured), 'treatment')} have {trials}"
    if len(measured) == 1:
        who = f"there {'is' if counts == [1] else 'are'} {counts[0]}"
    least = fewest_trials_for_interval(summary.precision.confidence, has_more_analyses=False)
    needed = least if counts[-1] < least else "more"
    share = spell_share(summary.precision.confidence)
    untellable = [each.index for each in few if _is_untellable(summary, each)]
    yield Finding(
        kind="instrument",
        text=f"Too few trials to be sure: {who}, and a {share} interval of a median needs {needed}."
        + _of_untellable(len(untellable), len(measured)),
        treatments=tuple(each.index for each in few),
        candidates=(CandidateCause(get_cause("too_few_trials"), 1.0, "very likely", ()),),
        details={
            "cause": "too_few_trials",
            "trials": {str(each.index): each.trials for each in few},
            "untellable": untellable,
        },
    )


def _of_untellable(count: int, measured: int) -> str:
    if not count:
        return ""
    whose = "Its" if measured == 1 else f"Of {counted(count, 'treatment')} the"
    return f" {whose} two trials differ, and what limits them too: either may be the usual one."


def _is_untellable(summary: CampaignSummary, treatment: TreatmentSummary) -> bool:
    """Whether its trials are two that differ, and in what limits them too."""
    metric = summary.main_metric
    both = [point for point in treatment.points if metric in point.values]
    if len(both) != 2:
        return False
    values = [point.values[metric] for point in both]
    return max(values) > DIFFERING * min(values) and len({_limit(summary, point) for point in both}) == 2


def _limit(summary: CampaignSummary, point: TrialPoint) -> str | None:
    """The cause that one trial alone would name first."""
    suspects = rank_causes([point.evidence], load_rules(), summary.workload).candidates
    return suspects[0].cause.name if suspects else None


def _has_no_interval(treatment: TreatmentSummary, metric: str) -> bool:
    return treatment.metrics[metric].low is None
