"""The JSON of `vnetbench audit --json` (docs/audit.md). It also serves as a baseline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from vnetbench.audit.finding import AuditResult, Finding
from vnetbench.audit.rules import SEVERITIES, Rule

AUDIT_JSON_VERSION = 1
"""Format version. It increases when a key is removed or changes its meaning."""


def audit_json(result: AuditResult) -> str:
    """Return the audit as JSON."""
    return json.dumps(audit_fields(result), indent=2, allow_nan=False)


def audit_fields(result: AuditResult) -> dict[str, Any]:
    """Return the audit as a JSON value."""
    return {
        "version": AUDIT_JSON_VERSION,
        "answer": result.answer,
        "targets": list(result.targets),
        "rules_applied": result.applied_rule_count,
        "findings_in_baseline": result.known_count,
        "severities": {
            name: sum(finding.rule.severity == name for finding in result.findings) for name in SEVERITIES
        },
        "findings": [finding_fields(finding) for finding in result.findings],
        "not_judged": [
            {"rule": each.rule_id, "target": each.target, "object": each.object_name, "reason": each.reason}
            for each in result.unjudged
        ],
        "notes": list(result.notes),
    }


def rules_json(rules: Iterable[Rule]) -> str:
    """Return the rules as JSON."""
    fields = [rule.model_dump(mode="json", by_alias=True, exclude_none=True) for rule in rules]
    return json.dumps({"version": AUDIT_JSON_VERSION, "rules": fields}, indent=2)


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Return a finding as a JSON value."""
    rule = finding.rule
    return {
        "rule": rule.id,
        "severity": rule.severity,
        "problem": rule.problem,
        "target": finding.target,
        "object": finding.object_name,
        "kind": rule.object,
        "platform": finding.platform,
        "found": finding.found,
        "expected": finding.expected,
        "read_from": list(finding.read_from),
        "why": rule.why,
        "threshold_reason": rule.threshold_reason,
        "fix": finding.fix,
        "source": rule.source,
        "cause": rule.cause,
        "matters_here": {"state": finding.matters_here.state, "text": finding.matters_here.text},
    }
