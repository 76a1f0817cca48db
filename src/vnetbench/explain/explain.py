"""Explain a campaign: limits of treatments, differences between them, and doubts about the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.findings import comparison_findings
from vnetbench.explain.comparisons.modes import SEPARATION_TEXT
from vnetbench.explain.differences import difference_findings
from vnetbench.explain.evidence_bars import evidence_bars
from vnetbench.explain.experiment_verdicts import apply_experiments, has_experiment
from vnetbench.explain.idle_cpus import idle_cpu_findings
from vnetbench.explain.limits import (
    NO_LIMIT,
    UNEXPLAINED,
    Limit,
    add_experiment_commands,
    find_limits,
    group_by_cause,
    pick_representative,
)
from vnetbench.explain.model import CONFIRMED, REFUTED, REPRESENTATIVE, CandidateCause, Explanation, Finding
from vnetbench.explain.model_check import check_model
from vnetbench.explain.phrases import evidence_text, format_metric
from vnetbench.explain.rules import get_cause
from vnetbench.explain.sample_size import AMBIGUOUS, sample_size_findings
from vnetbench.wording.factor_text import capitalize_sentence, pluralize
from vnetbench.wording.treatment_names import treatment_name

_ADVERBS = {CONFIRMED: "", "very likely": "", "likely": "probably ", "possible": "possibly "}

_INSTABILITY_CAUSES = ("two_modes", "drift")
"""Causes that come before limits: with them, no single limit applies to all trials."""


def explain(summary: CampaignSummary) -> Explanation:
    """Return all findings about a campaign. This is a pure function of the summary."""
    limits = find_limits(summary)
    groups = [_build_group(summary, group) for group in group_by_cause(limits)]
    findings = [
        *(_limit_finding(summary, group, len(limits)) for group in groups),
        *comparison_findings(summary),
        *difference_findings(summary, limits),
        *sample_size_findings(summary),
        *idle_cpu_findings(summary),
    ]
    findings.sort(key=lambda finding: not _precludes_limits(finding, len(limits)))
    capitalized = tuple(replace(finding, text=capitalize_sentence(finding.text)) for finding in findings)
    answer = _modes_answer(summary, capitalized, limits) or _ambiguity_answer(capitalized, len(limits))
    return Explanation(answer or tuple(_limit_answer(groups, len(limits))), capitalized)


def _precludes_limits(finding: Finding, measured: int) -> bool:
    """Return whether the finding implies that no single limit applies to all trials of a treatment."""
    return finding.details.get("cause") in _INSTABILITY_CAUSES or _is_ambiguous_everywhere(finding, measured)


def _is_ambiguous_everywhere(finding: Finding, measured: int) -> bool:
    """Return whether each measured treatment has two trials with different limits."""
    ambiguous = finding.details.get(AMBIGUOUS)
    return isinstance(ambiguous, list) and 0 < measured == len(ambiguous)


def _ambiguity_answer(findings: Sequence[Finding], measured: int) -> tuple[str, ...]:
    """Return the answer if each treatment has two trials with different limits."""
    finding = next((each for each in findings if _is_ambiguous_everywhere(each, measured)), None)
    return (finding.text, finding.candidates[0].cause.advice) if finding else ()


def _modes_answer(
    summary: CampaignSummary, findings: Sequence[Finding], limits: Sequence[Limit]
) -> tuple[str, ...]:
    """Return the answer if every treatment has two modes: no limit applies to both of them.

    The estimate of a single treatment reports its two modes already, so the answer gives only their
    difference.
    """
    modes = [each for each in findings if each.details.get("cause") == "two_modes"]
    if not modes or {limit.treatment.index for limit in limits} - {i for m in modes for i in m.treatments}:
        return ()
    is_reported = len(limits) == 1 and limits[0].treatment.metrics[summary.deciding_metric].modes
    first = modes[0]
    text = f"{capitalize_sentence(str(first.details[SEPARATION_TEXT]))}." if is_reported else first.text
    return (text, *(candidate.cause.advice for candidate in first.candidates[:1]))


@dataclass(frozen=True)
class _LimitGroup:
    """Treatments with the same limit, and the one that represents them."""

    limits: Sequence[Limit]
    representative: Limit
    candidates: tuple[CandidateCause, ...]
    """Candidates of the representative: confirmed ones first, refuted ones last."""

    @property
    def top_candidate(self) -> CandidateCause | None:
        """The most likely candidate; None if all are refuted or none exists."""
        return next((each for each in self.candidates if each.confidence != REFUTED), None)

    @property
    def cause_name(self) -> str:
        """Name of the top candidate's cause, `nothing` or `not explained`."""
        if self.representative.cause_name == NO_LIMIT:
            return NO_LIMIT
        return UNEXPLAINED if self.top_candidate is None else self.top_candidate.cause.name


def _build_group(summary: CampaignSummary, limits: Sequence[Limit]) -> _LimitGroup:
    """Choose the representative: a treatment with an experiment, otherwise the one with the median score."""
    tested = (
        each for each in limits if has_experiment(all_levels(summary, each.treatment), summary.experiments)
    )
    representative = next(tested, pick_representative(limits))
    candidates = tuple(add_experiment_commands(summary, representative))
    levels = all_levels(summary, representative.treatment)
    return _LimitGroup(limits, representative, apply_experiments(candidates, levels, summary.experiments))


def _limit_answer(groups: Sequence[_LimitGroup], measured: int) -> Iterator[str]:
    """Yield the answer for the largest group, for readers who do not know the counters."""
    if not groups:
        yield "No treatment has been measured yet, so there is nothing to explain."
        return
    group = groups[0]
    count, first = len(group.limits), group.top_candidate
    where = "" if count == measured else f" in {count} of {pluralize(measured, 'treatment')}"
    if group.cause_name == NO_LIMIT:
        yield f"The network delivered the whole offered load{where}."
    elif first is None:
        yield f"The counters do not explain what limits the network{where}."
    else:
        adverb = _ADVERBS[first.confidence]
        if first.cause.family == "instrument":
            yield f"The bench, not the network, {adverb}limits the results{where}: {first.cause.description}."
        else:
            yield f"The network is {adverb}limited{where}: {first.cause.description}."
        is_normal = not first.cause.is_fault and first.confidence != "possible"
        yield f"This is normal for an unpaced load. {first.cause.advice}" if is_normal else first.cause.advice


def _limit_finding(summary: CampaignSummary, group: _LimitGroup, measured: int) -> Finding:
    representative, first = group.representative, group.top_candidate
    treatments = _treatments_prefix(summary, group.limits, measured)
    details: dict[str, object] = {
        "cause": group.cause_name,
        REPRESENTATIVE: representative.treatment.index,
        "unscored": dict(representative.ranking.unscored),
    }
    if group.cause_name == NO_LIMIT:
        kind, text = "limit", f"{treatments}nothing limits the load. {_delivery_sentence(representative)}"
    elif first is None:
        reason = (
            "An experiment refuted the causes that the counters suggest."
            if group.candidates
            else _closest_cause_sentence(representative)
        )
        kind = "not explained"
        text = f"{treatments}no cause fits the evidence well enough. {reason}".rstrip()
    else:
        kind = "instrument" if first.cause.family == "instrument" else "limit"
        text = f"{treatments}{first.cause.description} ({_confidence_text(summary, group, first)})."
        text += f" Evidence: {evidence_text(first.evidence)}."
        if not first.cause.is_fault:
            text += " This is normal for an unpaced load."
        if check := check_model(representative.treatment, first.cause.name):
            text, details = f"{text} {check.text}", {**details, "law": dict(check.details)}
    return Finding(
        kind=kind,
        text=capitalize_sentence(text),
        treatments=tuple(limit.treatment.index for limit in group.limits),
        candidates=group.candidates,
        chart=evidence_bars(summary, [limit.treatment for limit in group.limits], first.evidence)
        if first
        else None,
        details=details,
    )


def _confidence_text(summary: CampaignSummary, group: _LimitGroup, first: CandidateCause) -> str:
    """Return the confidence. An experiment confirms a cause only for the treatment that it tested."""
    if first.confidence != CONFIRMED or len(group.limits) == 1:
        return first.confidence
    return f"{CONFIRMED} for {treatment_name(summary, group.representative.treatment)}"


def _treatments_prefix(summary: CampaignSummary, limits: Sequence[Limit], measured: int) -> str:
    if measured == 1:
        return ""
    if len(limits) == 1:
        return f"{treatment_name(summary, limits[0].treatment)}: "
    count = "all" if len(limits) == measured else f"{len(limits)} of"
    return f"{count} {pluralize(measured, 'treatment')}: "


def _delivery_sentence(limit: Limit) -> str:
    delivery = limit.delivery
    assert delivery is not None
    delivered, offered = (
        format_metric(delivery.metric, rate) for rate in (delivery.delivered_per_s, delivery.offered_per_s)
    )
    return f"The network delivered {delivered} of {offered} offered ({delivery.unit_noun})."


def _closest_cause_sentence(limit: Limit) -> str:
    """Name the cause with the highest score below the minimum; empty if all scores are 0."""
    if limit.ranking.top_score is None:
        return "The trials have no counters that distinguish causes."
    name, score = limit.ranking.top_score
    return f"The closest one is: {get_cause(name).description} (score {score:.2f})." if score > 0 else ""
