"""The audit of a campaign or of a check as text: its answer, and each problem with its fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vnetbench.audit.output.groups import (
    RuleFindings,
    closing_notes,
    group_findings,
    object_label,
    relevance_text,
)
from vnetbench.audit.settings import SettingsAudit
from vnetbench.audit.stored import read_stored_audit
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.model import CONFIRMED, CandidateCause, Finding
from vnetbench.report.tables.text_table import to_printable_text
from vnetbench.report.text.evidence_text import format_evidence, format_experiment_result
from vnetbench.report.text.narrative_model import Narrative

_INDENT = 3
_MAX_TERMINAL_PROBLEMS = 5
_STYLES = {"error": "red", "warning": "yellow", "note": ""}
_CONFIDENCES_OF_MEASURED = (CONFIRMED, "very likely", "likely")


@dataclass(frozen=True)
class SettingProblem:
    """A rule that finds something, with all machines where it does."""

    severity: str
    problem: str
    found: tuple[str, ...]
    """Where and what, one text for each object."""
    expected: str
    fixes: tuple[str, ...]
    matters_here: str

    is_relevant: bool
    """Whether it is an error or a warning, or a note whose effect was measured."""


@dataclass(frozen=True)
class SettingsText:
    """The relevant problems of an audit as a rich renderable. Its first sentence counts all of them."""

    audit: SettingsAudit

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for sentence in self.audit.sentences:
            yield to_printable_text(sentence)
        relevant = [each for each in list_problems(self.audit) if each.is_relevant]
        for each in relevant[:_MAX_TERMINAL_PROBLEMS]:
            yield from _problem_lines(each)
        hidden = len(relevant) - _MAX_TERMINAL_PROBLEMS
        if hidden > 0:
            yield to_printable_text(f"And {hidden} more: vnetbench report shows all.")


def read_settings_audit(summary: CampaignSummary, narrative: Narrative) -> SettingsAudit | None:
    """Return the audit of a campaign, and which of its findings the campaign shows the effect of."""
    audit = read_stored_audit(summary.facts)
    return None if audit is None else audit.with_measured_effects(_evidence_by_cause(narrative.findings))


def list_problems(audit: SettingsAudit) -> list[SettingProblem]:
    """Return the problems of an audit, worst first; within a severity, those that were measured first."""
    if audit.result is None:
        return []
    groups = group_findings(audit.result)
    first = [group for group in groups if group.findings[0].matters_here.state == "measured"]
    ordered = sorted([*first, *(group for group in groups if group not in first)], key=_severity_rank)
    return [_to_problem(group, audit) for group in ordered]


def audit_notes(audit: SettingsAudit) -> tuple[str, ...]:
    """Return what the audit could not judge, in sentences."""
    return () if audit.result is None else tuple(closing_notes(audit.result))


def _severity_rank(group: RuleFindings) -> int:
    return list(_STYLES).index(group.rule.severity)


def _to_problem(group: RuleFindings, audit: SettingsAudit) -> SettingProblem:
    assert audit.result is not None
    found = [f"{object_label(each, audit.result)}: {each.found}" for each in group.shown]
    if group.hidden_count:
        found.append(f"and {group.hidden_count} more")
    return SettingProblem(
        group.rule.severity,
        group.rule.problem,
        tuple(found),
        group.findings[0].expected,
        tuple(dict.fromkeys(each.fix for each in group.shown)),
        relevance_text(group.findings[0]),
        is_relevant=group.rule.severity != "note" or group.findings[0].matters_here.state == "measured",
    )


def _problem_lines(problem: SettingProblem) -> Iterator[RenderableType]:
    head = Text(f"{problem.severity}: ", style=_STYLES[problem.severity])
    yield head.append_text(to_printable_text(problem.problem))
    details = Table.grid(padding=(0, 1, 0, 0))
    for label, texts in (
        ("Found:", problem.found),
        ("Expected:", (problem.expected,)),
        ("Fix:", problem.fixes),
        ("Matters:", (problem.matters_here,)),
    ):
        for number, text in enumerate(texts):
            details.add_row(Text("" if number else label), to_printable_text(text))
    yield Padding(details, (0, 0, 0, _INDENT))


def _evidence_by_cause(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the causes that a campaign names, with their evidence and its range over the trials."""
    evidence: dict[str, str] = {}
    for finding in findings:
        for candidate in finding.candidates[:1]:
            if candidate.confidence in _CONFIDENCES_OF_MEASURED:
                evidence.setdefault(candidate.cause.name, _evidence_sentence(candidate))
    return evidence


def _evidence_sentence(candidate: CandidateCause) -> str:
    if (result := candidate.experiment_result) is not None:
        return f"an experiment of this campaign shows it: {format_experiment_result(result)}"
    texts = [format_evidence(each) for each in candidate.evidence if each.role == "supports"]
    if not texts:
        return f"this campaign names its cause: {candidate.cause.description}"
    first = texts[0]
    spread = "" if first.range == first.value_without_unit else f" ({first.range} over the trials)"
    return f"this campaign names its cause: {first.label} {first.value_with_unit}{spread}"
