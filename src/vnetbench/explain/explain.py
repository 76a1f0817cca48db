"""Explain a campaign: limits of treatments, differences between them, and doubts about the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.anomalies import unaccounted_evidence_sentence, unusual_evidence_sentence
from vnetbench.explain.cause_phrases import describe_cause, replace_description
from vnetbench.explain.comparisons.findings import comparison_findings
from vnetbench.explain.comparisons.modes import SEPARATION_TEXT_KEY
from vnetbench.explain.differences import difference_findings
from vnetbench.explain.evidence_bars import evidence_bar_chart
from vnetbench.explain.experiment_verdicts import apply_experiment_verdicts, has_experiment_on_levels
from vnetbench.explain.failures import failure_findings, failure_sentences, has_failed_trials
from vnetbench.explain.idle_cpus import saturated_forwarder_findings
from vnetbench.explain.interventions.findings import intervention_findings
from vnetbench.explain.interventions.verdicts import apply_resource_verdicts
from vnetbench.explain.limits import (
    NO_LIMIT_CAUSE_NAME,
    UNEXPLAINED_CAUSE_NAME,
    TreatmentLimit,
    add_experiment_commands,
    choose_median_score_limit,
    find_treatment_limits,
    group_limits_by_cause,
)
from vnetbench.explain.model import (
    CONFIRMED,
    DELIVERED_LOAD_CLAUSE,
    DELIVERED_LOAD_KEY,
    REFUTED,
    REPRESENTATIVE_INDEX_KEY,
    SHORT_CAUSE_PHRASE_KEY,
    CandidateCause,
    Explanation,
    Finding,
)
from vnetbench.explain.model_check import find_model_agreement
from vnetbench.explain.phrases import format_metric, supporting_evidence_phrase
from vnetbench.explain.rules import CauseRule, get_cause, load_rules
from vnetbench.explain.sample_size import AMBIGUOUS_TREATMENTS_KEY, missing_interval_findings
from vnetbench.explain.settings import add_settings
from vnetbench.quantity import format_count_with_noun
from vnetbench.wording.factor_text import capitalize_sentence
from vnetbench.wording.treatment_names import treatment_name

INSTRUMENT_FAMILY = "instrument"
ADVERB_BY_CONFIDENCE = {CONFIRMED: "", "very likely": "", "likely": "probably ", "possible": "possibly "}

_DRIFT_CAUSE = "drift"
"""This cause ranks before limits, like two groups of trials: no single limit applies to all trials."""


def explain(summary: CampaignSummary, rules: Mapping[str, CauseRule] | None = None) -> Explanation:
    """Return all findings about a campaign. This is a pure function of the summary and the rules.

    Args:
        summary: The campaign.
        rules: Rules of all causes, by cause name; None: those in `causes/*.toml`.
    """
    known_rules = load_rules() if rules is None else rules
    limits = find_treatment_limits(summary, known_rules)
    groups = [_build_limit_group(summary, group) for group in group_limits_by_cause(limits)]
    others = [
        *intervention_findings(summary),
        *comparison_findings(summary),
        *difference_findings(summary, limits),
        *missing_interval_findings(summary, known_rules),
        *saturated_forwarder_findings(summary),
    ]
    doubts = _two_modes_sentences(summary, others, limits) or _ambiguous_limits_sentences(others, len(limits))
    limit_findings = [
        _limit_finding(summary, group, len(limits), is_answered=group is groups[0] and not doubts)
        for group in groups
    ]
    findings = sorted(
        [*limit_findings, *others], key=lambda finding: not _precludes_single_limit(finding, len(limits))
    )
    failures = failure_sentences(summary)
    answer = doubts
    if not doubts and (groups or not failures):
        answer = tuple(_main_limit_sentences(groups, len(limits)))
    capitalized = (replace(finding, text=capitalize_sentence(finding.text)) for finding in findings)
    all_findings = (*failure_findings(summary), *capitalized)
    return Explanation(
        (*failures, *answer),
        tuple(add_settings(all_findings, summary)),
        is_limit_answered=not doubts,
        failures=failures,
    )


def _precludes_single_limit(finding: Finding, measured_treatment_count: int) -> bool:
    """Return whether the finding implies that no single limit applies to all trials of a treatment."""
    return (
        _has_two_groups_of_trials(finding)
        or finding.details.get("cause") == _DRIFT_CAUSE
        or _is_every_treatment_ambiguous(finding, measured_treatment_count)
    )


def _has_two_groups_of_trials(finding: Finding) -> bool:
    return SEPARATION_TEXT_KEY in finding.details


def _is_every_treatment_ambiguous(finding: Finding, measured_treatment_count: int) -> bool:
    """Return whether each measured treatment has two trials with different limits."""
    ambiguous = finding.details.get(AMBIGUOUS_TREATMENTS_KEY)
    return isinstance(ambiguous, list) and 0 < measured_treatment_count == len(ambiguous)


def _ambiguous_limits_sentences(
    findings: Sequence[Finding], measured_treatment_count: int
) -> tuple[str, ...]:
    """Return the answer if each treatment has two trials with different limits."""
    if not any(_is_every_treatment_ambiguous(each, measured_treatment_count) for each in findings):
        return ()
    subject = "The two trials" if measured_treatment_count == 1 else "In every treatment, the two trials"
    return (f"{subject} have different values and limits, so the limit is unknown.",)


def _two_modes_sentences(
    summary: CampaignSummary, findings: Sequence[Finding], limits: Sequence[TreatmentLimit]
) -> tuple[str, ...]:
    """Return the answer if every treatment has two modes: no limit applies to both of them.

    The estimate of a single treatment reports its two modes already, so the answer does not repeat them.
    """
    modes = [each for each in findings if _has_two_groups_of_trials(each)]
    if not modes or {limit.treatment.index for limit in limits} - {
        i for m in modes for i in m.treatment_indices
    }:
        return ()
    is_reported = len(limits) == 1 and limits[0].treatment.metrics[summary.deciding_metric].modes
    if is_reported:
        return ("No single limit applies to both modes.",)
    subject = "The trials" if len(limits) == 1 else "In every treatment, the trials"
    return (f"{subject} fall into two groups with different values, so no single limit applies.",)


@dataclass(frozen=True)
class _LimitGroup:
    """Treatments with the same limit, and the one that represents them."""

    limits: Sequence[TreatmentLimit]
    representative: TreatmentLimit
    candidates: tuple[CandidateCause, ...]
    """Candidates of the representative: confirmed ones first, refuted ones last.

    Their descriptions have the figures of all treatments of the group."""

    @property
    def top_candidate(self) -> CandidateCause | None:
        """The most likely candidate; None if all are refuted or none exists."""
        return next((each for each in self.candidates if each.confidence != REFUTED), None)

    @property
    def short_cause_phrase(self) -> str:
        """Description of the top candidate's cause for the answer; empty without a candidate."""
        treatments = [limit.treatment for limit in self.limits]
        first = self.top_candidate
        return describe_cause(get_cause(first.cause.name), treatments).short if first else ""

    @property
    def cause_name(self) -> str:
        """Name of the top candidate's cause, `nothing` or `not explained`."""
        if self.top_candidate is not None:
            return self.top_candidate.cause.name
        return NO_LIMIT_CAUSE_NAME if self.is_load_delivered else UNEXPLAINED_CAUSE_NAME

    @property
    def is_load_delivered(self) -> bool:
        """Whether the network delivered the whole offered load in these treatments."""
        return self.representative.is_load_delivered


def _build_limit_group(summary: CampaignSummary, limits: Sequence[TreatmentLimit]) -> _LimitGroup:
    """Choose the representative: a treatment with an experiment, otherwise the one with the median score."""
    tested = (
        each
        for each in limits
        if has_experiment_on_levels(all_levels(summary, each.treatment), summary.experiments)
    )
    representative = next(tested, choose_median_score_limit(limits))
    treatments = [limit.treatment for limit in limits]
    candidates = tuple(
        replace(each, cause=replace_description(each.cause, describe_cause(each.cause, treatments)))
        for each in add_experiment_commands(summary, representative)
    )
    levels = all_levels(summary, representative.treatment)
    tested_candidates = apply_experiment_verdicts(candidates, levels, summary.experiments)
    return _LimitGroup(
        limits,
        representative,
        apply_resource_verdicts(candidates, tested_candidates, levels, summary.experiments),
    )


def _main_limit_sentences(groups: Sequence[_LimitGroup], measured_treatment_count: int) -> Iterator[str]:
    """Yield the answer for the largest group. The findings contain the evidence and the advice."""
    if not groups:
        yield "No treatment has been measured yet, so there is nothing to explain."
        return
    group = groups[0]
    count, first = len(group.limits), group.top_candidate
    where = (
        ""
        if count == measured_treatment_count
        else f" in {count} of {format_count_with_noun(measured_treatment_count, 'treatment')}"
    )
    if group.cause_name == NO_LIMIT_CAUSE_NAME:
        yield f"{capitalize_sentence(DELIVERED_LOAD_CLAUSE)}{where}."
    elif first is None:
        yield f"The counters do not explain what limits the network{where}."
    else:
        adverb, phrase = ADVERB_BY_CONFIDENCE[first.confidence], group.short_cause_phrase
        if group.is_load_delivered:
            yield f"{capitalize_sentence(DELIVERED_LOAD_CLAUSE)}{where}, but {adverb}with a fault: {phrase}."
        elif first.cause.family == INSTRUMENT_FAMILY:
            yield f"The bench, not the network, {adverb}limits the results{where}: {phrase}."
        else:
            yield f"The network is {adverb}limited{where}: {phrase}."


def _limit_finding(
    summary: CampaignSummary, group: _LimitGroup, measured_treatment_count: int, *, is_answered: bool
) -> Finding:
    """Return the finding about a group's limit.

    If the answer names the cause, the finding starts with where it holds and with its evidence.
    """
    representative, first = group.representative, group.top_candidate
    treatments = _treatments_prefix(summary, group.limits, measured_treatment_count)
    details: dict[str, object] = {
        "cause": group.cause_name,
        REPRESENTATIVE_INDEX_KEY: representative.treatment.index,
        "unscored": dict(representative.ranking.missing_metrics_by_cause),
    }
    if group.cause_name == NO_LIMIT_CAUSE_NAME:
        kind, text = (
            "limit",
            f"{treatments}nothing limits the load. {_delivered_load_sentence(representative)}",
        )
    elif first is None:
        reason = (
            "An experiment refuted the causes that the counters suggest."
            if group.candidates
            else _best_cause_below_minimum_sentence(representative)
        )
        kind = "not explained"
        text = f"{treatments}no cause fits the evidence well enough. {reason}".rstrip()
    else:
        kind = "instrument" if first.cause.family == INSTRUMENT_FAMILY else "limit"
        details[SHORT_CAUSE_PHRASE_KEY] = group.short_cause_phrase
        evidence = supporting_evidence_phrase(first.evidence)
        statement = evidence if is_answered and evidence else first.cause.description
        details[DELIVERED_LOAD_KEY] = group.is_load_delivered
        text = f"{treatments}{statement} ({_confidence_clause(summary, group, first)})."
        has_failures = has_failed_trials([limit.treatment for limit in group.limits])
        if first.confidence != "possible" and not has_failures:
            text = f"{text} {_anomaly_sentence(representative.treatment, first)}".rstrip()
        if evidence and statement != evidence:
            text += f" Evidence: {evidence}."
        if group.is_load_delivered:
            text += f" {_delivered_load_sentence(representative)}"
        if check := find_model_agreement(representative.treatment, first.cause.name):
            text, details = (
                f"{text} {check.text}",
                {**details, "law": dict(check.goodput_bps_by_law_or_metric)},
            )
    return Finding(
        kind=kind,
        text=capitalize_sentence(text),
        treatment_indices=tuple(limit.treatment.index for limit in group.limits),
        candidates=group.candidates,
        chart=evidence_bar_chart(summary, [limit.treatment for limit in group.limits], first.evidence)
        if first
        else None,
        details=details,
    )


def _anomaly_sentence(treatment: TreatmentSummary, first: CandidateCause) -> str:
    """Return what is unusual next to a natural limit, or what a fault does not account for."""
    trials = [point.evidence for point in treatment.points]
    shown = [item.metric for item in first.evidence]
    if not first.cause.is_fault:
        return unusual_evidence_sentence(trials, shown, treatment.factors, first.cause.name)
    supporting = load_rules()[first.cause.name].supporting_metrics
    return unaccounted_evidence_sentence(trials, first.cause.name, supporting, treatment.factors)


def _confidence_clause(summary: CampaignSummary, group: _LimitGroup, first: CandidateCause) -> str:
    """Return the confidence. An experiment confirms a cause only for the treatment that it tested."""
    if first.confidence != CONFIRMED or len(group.limits) == 1:
        return first.confidence
    return f"{CONFIRMED} for {treatment_name(summary, group.representative.treatment)}"


def _treatments_prefix(
    summary: CampaignSummary, limits: Sequence[TreatmentLimit], measured_treatment_count: int
) -> str:
    if measured_treatment_count == 1:
        return ""
    if len(limits) == 1:
        return f"{treatment_name(summary, limits[0].treatment)}: "
    count = "all" if len(limits) == measured_treatment_count else f"{len(limits)} of"
    return f"{count} {format_count_with_noun(measured_treatment_count, 'treatment')}: "


def _delivered_load_sentence(limit: TreatmentLimit) -> str:
    delivery = limit.load_delivery
    assert delivery is not None
    delivered, offered = (
        format_metric(delivery.delivered_metric, rate)
        for rate in (delivery.delivered_per_s, delivery.offered_per_s)
    )
    return f"The network delivered {delivered} of an offered load of {offered} ({delivery.unit_noun})."


def _best_cause_below_minimum_sentence(limit: TreatmentLimit) -> str:
    """Name the cause with the highest score below the minimum; empty if all scores are 0."""
    if limit.ranking.best_cause_and_score is None:
        return "The trials recorded none of the counters that the causes need."
    name, score = limit.ranking.best_cause_and_score
    return f'The closest cause is "{get_cause(name).description}" (score {score:.2f}).' if score > 0 else ""
