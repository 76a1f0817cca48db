"""The finding about a series of interventions: what each change would bring."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.model import Experiment
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.experiment_verdicts import is_experiment_on_levels, ratio_of_improvement
from vnetbench.explain.interventions.elasticity import (
    GAIN,
    LIMITS,
    NO_EFFECT,
    NO_LIMIT,
    UNDECIDED,
    Elasticity,
    experiment_elasticity,
    intervention_verdict,
    strongest_verdict,
)
from vnetbench.explain.interventions.measured_cpu_ratios import CPU_RESOURCES
from vnetbench.explain.interventions.resources import RESOURCES
from vnetbench.explain.model import REPRESENTATIVE_INDEX_KEY, EvidenceChart, Finding
from vnetbench.wording.estimate_text import metric_noun
from vnetbench.wording.factor_text import capitalize_sentence, treatment_phrase
from vnetbench.wording.treatment_names import treatment_name

INTERVENTIONS_DETAIL_KEY = "interventions"
"""Key in a finding's details: the interventions on its treatment, best first (docs/show-json.md)."""
INTERVENTIONS_FINDING_KIND = "interventions"


@dataclass(frozen=True)
class InterventionResult:
    """An intervention with its elasticity and its verdict."""

    experiment: Experiment
    label: str
    """What changed: "4 streams", "CPU time of the sender ×0.70"."""
    elasticity: Elasticity | None
    """None for a switch."""
    verdict: str
    """One of `elasticity.VERDICTS_STRONGEST_FIRST`."""

    @property
    def gain(self) -> float:
        """Improvement of the metric as a ratio; more than 1 is better."""
        return ratio_of_improvement(self.experiment.ratio, self.experiment.metric).value


def intervention_findings(summary: CampaignSummary) -> Iterator[Finding]:
    """Yield a finding for each treatment on which interventions were measured."""
    for treatment in summary.treatments:
        results = intervention_results_by_gain(summary, treatment)
        if results:
            yield _build_finding(summary, treatment, results)


def intervention_results_by_gain(
    summary: CampaignSummary, treatment: TreatmentSummary
) -> tuple[InterventionResult, ...]:
    """Return the interventions on a treatment, the largest gain first."""
    levels = all_levels(summary, treatment)
    results = [
        InterventionResult(
            each,
            _change_label(each),
            experiment_elasticity(each),
            intervention_verdict(each.ratio, each.metric, each.resource_ratio),
        )
        for each in summary.experiments
        if each.resource in RESOURCES and is_experiment_on_levels(each, levels)
    ]
    return tuple(sorted(results, key=lambda each: -each.gain))


def _build_finding(
    summary: CampaignSummary, treatment: TreatmentSummary, results: Sequence[InterventionResult]
) -> Finding:
    where = "" if len(summary.treatments) == 1 else f"{treatment_name(summary, treatment)}: "
    noun = metric_noun(summary.deciding_metric)
    sentences = [
        *_limit_sentences(results, noun),
        *_largest_gain_sentence(results, noun),
        *_no_limit_and_undecided_sentences(results),
    ]
    return Finding(
        kind=INTERVENTIONS_FINDING_KIND,
        text=capitalize_sentence(where + " ".join(sentences)),
        treatment_indices=(treatment.index,),
        chart=_change_ratios_chart(results, noun),
        details={
            REPRESENTATIVE_INDEX_KEY: treatment.index,
            INTERVENTIONS_DETAIL_KEY: [_result_fields(each) for each in results],
        },
    )


def _limit_sentences(results: Sequence[InterventionResult], noun: str) -> Iterator[str]:
    """Yield the sentence about the resource with the largest elasticity that limits."""
    limiting = [
        (each.elasticity, each) for each in results if each.verdict == LIMITS and each.elasticity is not None
    ]
    if not limiting:
        # Removing a limit, such as the rate of a link, has no elasticity.
        removed = next((each for each in results if _is_removal_with_gain(each)), None)
        label = "" if removed is None else RESOURCES[removed.experiment.resource].label
        yield f"the {label} limits." if label else "no changed resource limits the result by itself."
        return
    elasticity, result = max(limiting, key=lambda pair: pair[0].value)
    label = RESOURCES[result.experiment.resource].label
    yield (
        f"the {label} limits: 1 % more of it improves {noun} by {elasticity.value:.2f} % "
        f"({elasticity.low:.2f} to {elasticity.high:.2f})."
    )


def _is_removal_with_gain(result: InterventionResult) -> bool:
    return result.verdict == GAIN and bool(RESOURCES[result.experiment.resource].causes)


def _largest_gain_sentence(results: Sequence[InterventionResult], noun: str) -> Iterator[str]:
    """Yield the sentence about the largest gain among the decided interventions."""
    best = next((each for each in results if _has_decided_gain(each)), None)
    if best is not None:
        ratio = best.experiment.ratio
        interval = f"×{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        yield f"The best change is {best.label}: {noun} {interval}."


def _has_decided_gain(result: InterventionResult) -> bool:
    """Return whether the intervention is decided, and its whole interval is an improvement."""
    improvement = ratio_of_improvement(result.experiment.ratio, result.experiment.metric)
    if result.verdict in (UNDECIDED, NO_EFFECT) or improvement.low is None or improvement.high is None:
        return False
    return improvement.low > 1


def _no_limit_and_undecided_sentences(results: Sequence[InterventionResult]) -> Iterator[str]:
    verdicts: dict[str, list[str]] = {}
    for each in results:
        verdicts.setdefault(each.experiment.resource, []).append(each.verdict)
    by_resource = {name: strongest_verdict(each) for name, each in verdicts.items()}
    for verdict, ending in ((NO_LIMIT, "does not limit"), (UNDECIDED, "is undecided after these trials")):
        labels = [RESOURCES[name].label for name, each in by_resource.items() if each == verdict]
        for label in labels[:1] if len(labels) == 1 else []:
            yield f"The {label} {ending}."
        if len(labels) > 1:
            endings = {"does not limit": "do not limit"}.get(ending, "are undecided after these trials")
            yield f"These {endings}: {', '.join(labels)}."


def _change_label(experiment: Experiment) -> str:
    if experiment.resource in CPU_RESOURCES and experiment.resource_ratio is not None:
        return f"{RESOURCES[experiment.resource].label} ×{experiment.resource_ratio:.2f}"
    return treatment_phrase(experiment.changed_levels, tuple(experiment.changed_levels))


def _change_ratios_chart(results: Sequence[InterventionResult], noun: str) -> EvidenceChart | None:
    """Return the ratios with their intervals, best first; None if no change has an interval."""
    rows: list[Mapping[str, str | float]] = [
        {
            "x": each.label,
            "y": ratio.value,
            "low": ratio.low,
            "high": ratio.high,
            "series": each.verdict,
        }
        for each in results
        if (ratio := each.experiment.ratio).low is not None
        and ratio.high is not None
        and ratio.low > 0
        and ratio.high < math.inf
    ]
    if not rows:
        return None
    title = "What each change would bring"
    return EvidenceChart("effects", title, "", f"{noun}, after / before the change", tuple(rows))


def _result_fields(result: InterventionResult) -> Mapping[str, object]:
    """Return the JSON fields of one intervention (docs/show-json.md)."""
    experiment, elasticity = result.experiment, result.elasticity
    ratio = experiment.ratio
    return {
        "change": result.label,
        "changed_levels": dict(experiment.changed_levels),
        "resource": experiment.resource,
        "resource_ratio": experiment.resource_ratio,
        "metric": experiment.metric,
        "ratio": ratio.value if math.isfinite(ratio.value) else None,
        "low": ratio.low,
        "high": ratio.high,
        "confidence": ratio.confidence,
        "shared_blocks": experiment.shared_block_count,
        "elasticity": None if elasticity is None else elasticity.value,
        "elasticity_low": None if elasticity is None else elasticity.low,
        "elasticity_high": None if elasticity is None else elasticity.high,
        "verdict": result.verdict,
    }
