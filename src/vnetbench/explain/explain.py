"""The explanation of a campaign: what limits it, why treatments differ, what to know before believing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.findings import between
from vnetbench.explain.comparisons.modes import APART
from vnetbench.explain.differences import differences
from vnetbench.explain.evidence_bars import picture_of
from vnetbench.explain.idle_cpus import idle_cpus
from vnetbench.explain.limits import NO_LIMIT, UNEXPLAINED, Limit, group_by_cause, find_limits, pick_representative, add_experiment_commands
from vnetbench.explain.model import CONFIRMED, REFUTED, REPRESENTATIVE, Explanation, Finding, CandidateCause
from vnetbench.explain.model_check import check_model
from vnetbench.explain.phrases import evidence_text, figure_text
from vnetbench.explain.experiment_verdicts import apply_experiments, has_experiment
from vnetbench.explain.rules import get_cause
from vnetbench.explain.sample_size import instrument
from vnetbench.wording.factor_text import capitalised, counted
from vnetbench.wording.treatment_names import name_of

_CAUTION = {CONFIRMED: "", "very likely": "", "likely": "probably ", "possible": "possibly "}

_BEFORE_LIMITS = ("two_modes", "drift")
"""Where trials are of two kinds, or of ever other ones, no single limit holds for all of them."""


def explain(summary: CampaignSummary) -> Explanation:
    """All that is said of a campaign; a pure function of its summary."""
    found = find_limits(summary)
    groups = [_told(summary, group) for group in group_by_cause(found)]
    findings = [
        *(_limit_finding(summary, group, len(found)) for group in groups),
        *between(summary),
        *differences(summary, found),
        *instrument(summary),
        *idle_cpus(summary),
    ]
    findings.sort(key=lambda finding: not _is_before_limits(finding, len(found)))
    told = tuple(replace(finding, text=capitalised(finding.text)) for finding in findings)
    answer = _of_two_kinds(summary, told, found) or _untellable(told, len(found))
    return Explanation(answer or tuple(_answer(summary, groups, len(found))), told)


def _is_before_limits(finding: Finding, measured: int) -> bool:
    """Whether it says that no limit can be told of any treatment, or none that holds for all trials."""
    return finding.details.get("cause") in _BEFORE_LIMITS or _is_of_untellable(finding, measured)


def _is_of_untellable(finding: Finding, measured: int) -> bool:
    untellable = finding.details.get("untellable")
    return isinstance(untellable, list) and 0 < measured == len(untellable)


def _untellable(findings: Sequence[Finding], measured: int) -> tuple[str, ...]:
    """What is said instead of a limit where each treatment has two trials, limited by two causes."""
    found = next((each for each in findings if _is_of_untellable(each, measured)), None)
    return (found.text, found.candidates[0].cause.advice) if found else ()


def _of_two_kinds(
    summary: CampaignSummary, findings: Sequence[Finding], measured: Sequence[Limit]
) -> tuple[str, ...]:
    """What is said instead of a limit where every treatment's trials are of two kinds: none is both's.

    Of a single treatment whose estimate is two modes these are told before it, and only why is left to say.
    """
    modes = [each for each in findings if each.details.get("cause") == "two_modes"]
    if not modes or {limit.treatment.index for limit in measured} - {i for m in modes for i in m.treatments}:
        return ()
    is_told = len(measured) == 1 and measured[0].treatment.metrics[summary.main_metric].modes
    says = f"{capitalised(str(modes[0].details[APART]))}." if is_told else modes[0].text
    return (says, *(suspect.cause.advice for suspect in modes[0].candidates[:1]))


@dataclass(frozen=True)
class _Told:
    """Limits that are alike, and the one of them that stands for all."""

    group: Sequence[Limit]
    chosen: Limit
    suspects: tuple[CandidateCause, ...]
    """Of that one, with what a run has shown of them: confirmed ones first, refuted ones last."""

    @property
    def first(self) -> CandidateCause | None:
        """The likeliest; None where there is none that was not refuted."""
        return next((suspect for suspect in self.suspects if suspect.confidence != REFUTED), None)

    @property
    def name(self) -> str:
        """Of the first suspect's cause, `nothing`, or `not explained`."""
        if self.chosen.cause_name == NO_LIMIT:
            return NO_LIMIT
        return UNEXPLAINED if self.first is None else self.first.cause.name


def _told(summary: CampaignSummary, group: Sequence[Limit]) -> _Told:
    """That one was tried is worth more than that its score is in the middle."""
    tried = (each for each in group if has_experiment(all_levels(summary, each.treatment), summary.experiments))
    chosen = next(tried, pick_representative(group))
    suspects = tuple(add_experiment_commands(summary, chosen))
    levels = all_levels(summary, chosen.treatment)
    return _Told(group, chosen, apply_experiments(suspects, levels, summary.experiments))


def _answer(summary: CampaignSummary, groups: Sequence[_Told], measured: int) -> Iterator[str]:
    """One or two sentences on the largest group, for somebody who has never seen a counter."""
    if not groups:
        yield "Nothing was measured yet, so nothing is explained."
        return
    told = groups[0]
    count, first = len(told.group), told.first
    where = "" if count == measured else f" in {count} of {counted(measured, 'treatment')}"
    if told.name == NO_LIMIT:
        yield f"The network carried all that was asked of it{where}."
    elif first is None:
        yield f"What limits the network{where} is not explained by what was counted."
    else:
        limited = f"What {_CAUTION[first.confidence]}limits the"
        if first.cause.family == "instrument":
            yield f"{limited} figures{where} is not the network: {first.cause.description}."
        else:
            yield f"{limited} network{where}: {first.cause.description}."
        yield (
            first.cause.advice
            if first.cause.is_fault or first.confidence == "possible"
            else f"Nothing is wrong with that. {first.cause.advice}"
        )


def _limit_finding(summary: CampaignSummary, told: _Told, measured: int) -> Finding:
    chosen, first = told.chosen, told.first
    where = _where(summary, told.group, measured)
    details: dict[str, object] = {
        "cause": told.name,
        REPRESENTATIVE: chosen.treatment.index,
        "unjudged": dict(chosen.ranking.unscored),
    }
    if told.name == NO_LIMIT:
        kind, says = "limit", f"{where}nothing limits: {_load(chosen)}."
    elif first is None:
        why = ": a run refuted what its counters suggest" if told.suspects else _nearest(chosen)
        kind, says = "not explained", f"{where}no cause fits the evidence well enough{why}."
    else:
        kind = "instrument" if first.cause.family == "instrument" else "limit"
        natural = "" if first.cause.is_fault else "; every run that goes as fast as it can has such a limit"
        sure, evidence = _how_sure(summary, told, first), evidence_text(first.evidence)
        says = f"{where}{first.cause.description} ({sure}): {evidence}{natural}."
        if law := check_model(chosen.treatment, first.cause.name):
            says, details = f"{says} {capitalised(law.text)}.", {**details, "law": dict(law.details)}
    return Finding(
        kind=kind,
        text=capitalised(says),
        treatments=tuple(limit.treatment.index for limit in told.group),
        candidates=told.suspects,
        chart=picture_of(summary, [limit.treatment for limit in told.group], first.evidence)
        if first
        else None,
        details=details,
    )


def _how_sure(summary: CampaignSummary, told: _Told, first: CandidateCause) -> str:
    """What was confirmed was so in one treatment; the others of the group are alike by their counters."""
    if first.confidence != CONFIRMED or len(told.group) == 1:
        return first.confidence
    return f"{CONFIRMED} with {name_of(summary, told.chosen.treatment)}"


def _where(summary: CampaignSummary, group: Sequence[Limit], measured: int) -> str:
    if measured == 1:
        return ""
    if len(group) == 1:
        return f"{name_of(summary, group[0].treatment)}: "
    return f"{'all ' if len(group) == measured else f'{len(group)} of '}{counted(measured, 'treatment')}: "


def _load(limit: Limit) -> str:
    assert limit.delivery is not None
    got, asked = (
        figure_text(limit.delivery.metric, each) for each in (limit.delivery.delivered_per_s, limit.delivery.offered_per_s)
    )
    return f"{limit.delivery.unit_noun} were carried at {got}, of {asked} asked for"


def _nearest(limit: Limit) -> str:
    """What came nearest; or how little could be judged."""
    if limit.ranking.top_score is None:
        return ": the trials have no counters that tell causes apart"
    name, score = limit.ranking.top_score
    return f" (nearest: {get_cause(name).description}, score {score:.2f})" if score > 0 else ""
