"""The audit in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from vnetbench.audit.finding import AuditResult
from vnetbench.audit.output.groups import (
    RuleFindings,
    closing_notes,
    group_findings,
    limit_text,
    object_label,
    relevance_text,
)
from vnetbench.audit.rules import Rule

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
_LABEL_WIDTH = 10
_MIN_WIDTH, _MAX_WIDTH = 60, 110


def audit_table(result: AuditResult, width: int) -> str:
    """Return the answer, the findings by rule, and what could not be judged."""
    width = min(max(width, _MIN_WIDTH), _MAX_WIDTH)
    lines = [*textwrap.wrap(result.answer, width)]
    for group in group_findings(result):
        lines += ["", *_group_lines(group, result, width)]
    if notes := closing_notes(result):
        lines += ["", *(line for note in notes for line in textwrap.wrap(note, width))]
    return "\n".join(lines)


def rules_table(rules: list[Rule]) -> str:
    """Return all rules with their severities and what they find."""
    longest = max(len(rule.id) for rule in rules)
    return "\n".join(f"{rule.id:<{longest}}  {rule.severity:<7}  {rule.problem}" for rule in rules)


def _group_lines(group: RuleFindings, result: AuditResult, width: int) -> Iterator[str]:
    rule = group.rule
    severity = click.style(rule.severity, fg=_COLOURS[rule.severity], bold=True)
    yield f"{severity}  {rule.problem}  [{rule.id}]"
    for finding in group.shown:
        yield from _field("found", f"{object_label(finding, result)}: {finding.found}", width)
        if len({each.expected for each in group.findings}) > 1:
            yield from _field("expected", finding.expected, width)
        if len({each.fix for each in group.findings}) > 1:
            yield from _field("fix", finding.fix, width)
    if group.hidden_count:
        yield from _field("", f"and {group.hidden_count} more (--json has all)", width)
    first = group.findings[0]
    if len({each.expected for each in group.findings}) == 1:
        yield from _field("expected", first.expected, width)
    yield from _field("why", rule.why, width)
    if rule.threshold_reason:
        yield from _field("limit", limit_text(rule), width)
    if len({each.fix for each in group.findings}) == 1:
        yield from _field("fix", first.fix, width)
    yield from _field("matters", relevance_text(first), width)
    yield from _field("source", rule.source, width)


def _field(label: str, text: str, width: int) -> Iterator[str]:
    indent = " " * (_LABEL_WIDTH + 2)
    wrapped = textwrap.wrap(text, width - len(indent), break_on_hyphens=False) or [""]
    yield f"  {label:<{_LABEL_WIDTH}}{wrapped[0]}"
    for line in wrapped[1:]:
        yield f"{indent}{line}"
