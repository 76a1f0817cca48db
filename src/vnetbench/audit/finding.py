"""Findings of an audit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from vnetbench.audit.rules import SEVERITIES, Rule
from vnetbench.quantity import format_count_with_noun

FindingKey = tuple[str, str, str]
"""Rule, target and object: what makes two findings the same one."""


@dataclass(frozen=True)
class Relevance:
    """Whether a finding matters here."""

    state: Literal["measured", "provable", "not measurable here"]
    text: str
    """The measured effect with its interval, or how to prove it."""


@dataclass(frozen=True)
class Finding:
    """A setting that a rule finds."""

    rule: Rule
    target: str
    object_name: str
    platform: str
    found: str
    expected: str
    fix: str
    read_from: tuple[str, ...]
    """Files, keys and commands that the value was read from."""
    matters_here: Relevance

    @property
    def key(self) -> FindingKey:
        """Identity of the finding across audits; the value found may change."""
        return (self.rule.id, self.target, self.object_name)


@dataclass(frozen=True)
class UnjudgedRule:
    """A rule that could not be judged, because a fact could not be read."""

    rule_id: str
    target: str
    object_name: str
    reason: str


@dataclass(frozen=True)
class AuditResult:
    """What the rules say about all targets."""

    targets: tuple[str, ...]
    findings: tuple[Finding, ...]
    applied_rule_count: int
    """Number of rules that apply to at least one object."""
    unjudged: tuple[UnjudgedRule, ...]
    notes: tuple[str, ...]
    known_count: int = 0
    """Number of findings that the baseline has, too, and that are left out."""

    @property
    def answer(self) -> str:
        """The first sentence of every output."""
        severity_by_rule = {finding.rule.id: finding.rule.severity for finding in self.findings}
        applied = format_count_with_noun(self.applied_rule_count, "rule")
        verbs = "applies" if self.applied_rule_count == 1 else "apply"
        new = " new" if self.known_count else ""
        if not severity_by_rule:
            return f"None of {applied} that {verbs} here finds anything{new}."
        counts = Counter[str](severity_by_rule.values())
        parts = [format_count_with_noun(counts[name], name) for name in SEVERITIES if counts[name]]
        find = "finds" if len(severity_by_rule) == 1 else "find"
        count = f"{len(severity_by_rule)} of {applied} that {verbs} here {find} something{new}"
        return f"{count}: {', '.join(parts)}."

    @property
    def is_serious(self) -> bool:
        """Whether a finding is an error or a warning."""
        return any(finding.rule.severity != "note" for finding in self.findings)

    def without(self, known: frozenset[FindingKey]) -> AuditResult:
        """Return the result without findings that a baseline has."""
        new = tuple(finding for finding in self.findings if finding.key not in known)
        return replace(self, findings=new, known_count=len(self.findings) - len(new))
