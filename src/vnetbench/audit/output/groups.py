"""Findings in groups: one for each rule, most severe first."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.audit.finding import AuditResult, Finding
from vnetbench.audit.rules import Rule
from vnetbench.quantity import format_count_with_noun

OWN_LIMIT = "Chosen by vnetbench, not by the source."
MAX_SHOWN_OBJECTS = 10
"""Objects that people see of a rule; JSON and SARIF have all."""


@dataclass(frozen=True)
class RuleFindings:
    """All findings of a rule."""

    rule: Rule
    findings: tuple[Finding, ...]

    @property
    def shown(self) -> tuple[Finding, ...]:
        """The findings that people see."""
        return self.findings[:MAX_SHOWN_OBJECTS]

    @property
    def hidden_count(self) -> int:
        """Number of further findings."""
        return len(self.findings) - len(self.shown)


def group_findings(result: AuditResult) -> list[RuleFindings]:
    """Return the findings by rule, in their order."""
    groups: dict[str, list[Finding]] = {}
    for finding in result.findings:
        groups.setdefault(finding.rule.id, []).append(finding)
    return [RuleFindings(findings[0].rule, tuple(findings)) for findings in groups.values()]


def object_label(finding: Finding, result: AuditResult) -> str:
    """Return the name of a finding's object, with its target if there are several."""
    return finding.object_name if len(result.targets) == 1 else f"{finding.target}: {finding.object_name}"


def limit_text(rule: Rule) -> str:
    """Return why a limit that is our own choice has its value; empty if a source states it."""
    return f"{OWN_LIMIT} {rule.threshold_reason}" if rule.threshold_reason else ""


def relevance_text(finding: Finding) -> str:
    """Return whether a finding matters here, and how to prove it."""
    relevance = finding.matters_here
    return f"{relevance.state}: {relevance.text}" if relevance.text else relevance.state


def closing_notes(result: AuditResult) -> list[str]:
    """Return sentences about what was left out or could not be judged."""
    notes = list(result.notes)
    reasons: dict[tuple[str, str], set[str]] = {}
    for each in result.unjudged:
        reasons.setdefault((each.target, each.reason), set()).add(each.rule_id)
    notes += (
        f"{target}: {format_count_with_noun(len(rules), 'rule')} not judged, because {reason}."
        for (target, reason), rules in reasons.items()
    )
    if result.known_count:
        known = format_count_with_noun(result.known_count, "finding")
        notes.append(f"{known} of the baseline not shown.")
    return notes
