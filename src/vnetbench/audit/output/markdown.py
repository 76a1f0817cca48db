"""The audit as Markdown, for tickets and merge requests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vnetbench.audit.finding import AuditResult
from vnetbench.audit.output.groups import (
    RuleFindings,
    closing_notes,
    group_findings,
    limit_text,
    object_label,
    relevance_text,
)

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def audit_markdown(result: AuditResult) -> str:
    """Return the audit as Markdown."""
    lines = ["# Audit", "", escape_markdown(result.answer)]
    for group in group_findings(result):
        lines += ["", *_group_lines(group, result)]
    if notes := closing_notes(result):
        lines += ["", *(f"- {escape_markdown(note)}" for note in notes)]
    return "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Return a text whose characters mean themselves in Markdown and HTML."""
    return _SPECIAL.sub(r"\\\1", text)


def _group_lines(group: RuleFindings, result: AuditResult) -> Iterator[str]:
    rule, first = group.rule, group.findings[0]
    yield f"## {rule.severity.capitalize()}: {escape_markdown(rule.problem)} (`{rule.id}`)"
    yield ""
    yield "| object | found | expected |"
    yield "|---|---|---|"
    for finding in group.shown:
        cells = (object_label(finding, result), finding.found, finding.expected)
        yield f"| {' | '.join(map(escape_markdown, cells))} |"
    if group.hidden_count:
        yield f"| and {group.hidden_count} more | | |"
    yield ""
    yield f"- Why: {escape_markdown(rule.why)}"
    if rule.threshold_reason:
        yield f"- Limit: {escape_markdown(limit_text(rule))}"
    for fix in dict.fromkeys(finding.fix for finding in group.shown):
        yield f"- Fix: {escape_markdown(fix)}"
    yield f"- Does it matter here? {escape_markdown(relevance_text(first))}"
    yield f"- Source: {escape_markdown(rule.source)}"
