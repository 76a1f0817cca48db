"""The explanation of a campaign: what limits it, why treatments differ, what to know before believing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.by_law import by_law
from vnetbench.explain.comparisons.findings import between
from vnetbench.explain.comparisons.modes import APART
from vnetbench.explain.differences import differences
from vnetbench.explain.idle_cpus import idle_cpus
from vnetbench.explain.instrument import instrument
from vnetbench.explain.limits import NOTHING, UNEXPLAINED, Limit, alike, limits, typical, with_commands
from vnetbench.explain.model import CONFIRMED, REFUTED, TYPICAL, Explanation, Finding, Suspect
from vnetbench.explain.pictures import picture_of
from vnetbench.explain.proven import proven, was_tried
from vnetbench.explain.rules import cause_named
from vnetbench.explain.words import evidence_text, figure_text
from vnetbench.wording.labels import capitalised, counted
from vnetbench.wording.treatments import name_of

_CAUTION = {CONFIRMED: "", "very likely": "", "likely": "probably ", "possible": "possibly "}

_BEFORE_LIMITS = ("two_modes", "drift")
"""Where trials are of two kinds, or of ever other ones, no single limit holds for all of them."""


def explain(summary: CampaignSummary) -> Explanation:
    """All that is said of a campaign; a pure function of its summary."""
    found = limits(summary)
    groups = [_told(summary, group) for group in alike(found)]
    findings = [
        *(_limit_finding(summary, group, len(found)) for group in groups),
        *between(summary),
        *differences(summary, found),
        *instrument(summary),
        *idle_cpus(summary),
    ]
    findings.sort(key=lambda finding: not _is_before_limits(finding, len(found)))
    told = tuple(replace(finding, says=capitalised(finding.says)) for finding in findings)
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
    return (found.says, found.suspects[0].cause.change) if found else ()


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
    says = f"{capitalised(str(modes[0].details[APART]))}." if is_told else modes[0].says
    return (says, *(suspect.cause.change for suspect in modes[0].suspects[:1]))


@dataclass(frozen=True)
class _Told:
    """Limits that are alike, and the one of them that stands for all."""

    group: Sequence[Limit]
    chosen: Limit
    suspects: tuple[Suspect, ...]
    """Of that one, with what a run has shown of them: confirmed ones first, refuted ones last."""

    @property
    def first(self) -> Suspect | None:
        """The likeliest; None where there is none that was not refuted."""
        return next((suspect for suspect in self.suspects if suspect.certainty != REFUTED), None)

    @property
    def name(self) -> str:
        """Of the first suspect's cause, `nothing`, or `not explained`."""
        if self.chosen.name == NOTHING:
            return NOTHING
        return UNEXPLAINED if self.first is None else self.first.cause.name


def _told(summary: CampaignSummary, group: Sequence[Limit]) -> _Told:
    """That one was tried is worth more than that its score is in the middle."""
    tried = (each for each in group if was_tried(all_levels(summary, each.treatment), summary.experiments))
    chosen = next(tried, typical(group))
    suspects = tuple(with_commands(summary, chosen))
    levels = all_levels(summary, chosen.treatment)
    return _Told(group, chosen, proven(suspects, levels, summary.experiments))


def _answer(summary: CampaignSummary, groups: Sequence[_Told], measured: int) -> Iterator[str]:
    """One or two sentences on the largest group, for somebody who has never seen a counter."""
    if not groups:
        yield "Nothing was measured yet, so nothing is explained."
        return
    told = groups[0]
    count, first = len(told.group), told.first
    where = "" if count == measured else f" in {count} of {counted(measured, 'treatment')}"
    if told.name == NOTHING:
        yield f"The network carried all that was asked of it{where}."
    elif first is None:
        yield f"What limits the network{where} is not explained by what was counted."
    else:
        limited = f"What {_CAUTION[first.certainty]}limits the"
        if first.cause.family == "instrument":
            yield f"{limited} figures{where} is not the network: {first.cause.says}."
        else:
            yield f"{limited} network{where}: {first.cause.says}."
        yield (
            first.cause.change
            if first.cause.is_fault or first.certainty == "possible"
            else f"Nothing is wrong with that. {first.cause.change}"
        )


def _limit_finding(summary: CampaignSummary, told: _Told, measured: int) -> Finding:
    chosen, first = told.chosen, told.first
    where = _where(summary, told.group, measured)
    details: dict[str, object] = {
        "cause": told.name,
        TYPICAL: chosen.treatment.index,
        "unjudged": dict(chosen.judgement.unjudged),
    }
    if told.name == NOTHING:
        kind, says = "limit", f"{where}nothing limits: {_load(chosen)}."
    elif first is None:
        why = ": a run refuted what its counters suggest" if told.suspects else _nearest(chosen)
        kind, says = "not explained", f"{where}no cause fits the evidence well enough{why}."
    else:
        kind = "instrument" if first.cause.family == "instrument" else "limit"
        natural = "" if first.cause.is_fault else "; every run that goes as fast as it can has such a limit"
        sure, evidence = _how_sure(summary, told, first), evidence_text(first.exhibits)
        says = f"{where}{first.cause.says} ({sure}): {evidence}{natural}."
        if law := by_law(chosen.treatment, first.cause.name):
            says, details = f"{says} {capitalised(law.says)}.", {**details, "law": dict(law.details)}
    return Finding(
        kind=kind,
        says=capitalised(says),
        treatments=tuple(limit.treatment.index for limit in told.group),
        suspects=told.suspects,
        picture=picture_of(summary, [limit.treatment for limit in told.group], first.exhibits)
        if first
        else None,
        details=details,
    )


def _how_sure(summary: CampaignSummary, told: _Told, first: Suspect) -> str:
    """What was confirmed was so in one treatment; the others of the group are alike by their counters."""
    if first.certainty != CONFIRMED or len(told.group) == 1:
        return first.certainty
    return f"{CONFIRMED} with {name_of(summary, told.chosen.treatment)}"


def _where(summary: CampaignSummary, group: Sequence[Limit], measured: int) -> str:
    if measured == 1:
        return ""
    if len(group) == 1:
        return f"{name_of(summary, group[0].treatment)}: "
    return f"{'all ' if len(group) == measured else f'{len(group)} of '}{counted(measured, 'treatment')}: "


def _load(limit: Limit) -> str:
    assert limit.carried is not None
    got, asked = (
        figure_text(limit.carried.metric, each) for each in (limit.carried.got, limit.carried.asked)
    )
    return f"{limit.carried.what} were carried at {got}, of {asked} asked for"


def _nearest(limit: Limit) -> str:
    """What came nearest; or how little could be judged."""
    if limit.judgement.best is None:
        return ": the trials have no counters that tell causes apart"
    name, score = limit.judgement.best
    return f" (nearest: {cause_named(name).says}, score {score:.2f})" if score > 0 else ""
