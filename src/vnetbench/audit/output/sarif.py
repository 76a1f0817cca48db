"""The audit in SARIF 2.1.0 (OASIS standard), which code hosts and security tools show."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from vnetbench import __version__
from vnetbench.audit.finding import AuditResult, Finding
from vnetbench.audit.output.groups import closing_notes, limit_text, relevance_text
from vnetbench.audit.rules import Rule

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FILE_PLATFORMS = ("vmx", "libvirt", "proxmox", "vsphere", "windows")
"""Platforms whose targets are files."""


def audit_sarif(result: AuditResult) -> str:
    """Return the audit as SARIF."""
    rules = list({finding.rule.id: finding.rule for finding in result.findings}.values())
    index = {rule.id: number for number, rule in enumerate(rules)}
    driver = {
        "name": "vnetbench audit",
        "version": __version__,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": f"{rule.problem[:1].upper()}{rule.problem[1:]}."},
                "fullDescription": {"text": rule.why},
                "help": {"text": _help_text(rule)},
                "defaultConfiguration": {"level": rule.severity},
            }
            for rule in rules
        ],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "results": [_result(finding, index[finding.rule.id]) for finding in result.findings],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "note", "message": {"text": note}} for note in closing_notes(result)
                ],
            }
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _help_text(rule: Rule) -> str:
    text = f"Expected: {rule.expected}. Source: {rule.source}."
    return f"{text} Limit: {limit_text(rule)}" if rule.threshold_reason else text


def _result(finding: Finding, index: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [
            {"name": finding.object_name, "fullyQualifiedName": f"{finding.target}/{finding.object_name}"}
        ]
    }
    if finding.platform in _FILE_PLATFORMS:
        uri = quote(PurePath(finding.target).as_posix())
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}}
    text = f"Found {finding.found}. Expected {finding.expected}. Fix: {finding.fix}."
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": finding.rule.severity,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"ruleTargetObject/v1": "/".join(finding.key)},
        "properties": {"mattersHere": relevance_text(finding)},
    }
