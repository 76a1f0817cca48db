"""The JSON document of `vnetbench check --json` (docs/check.schema.json)."""

from __future__ import annotations

from dataclasses import asdict

from vnetbench.audit.output.json_form import finding_fields
from vnetbench.check.result import CheckResult
from vnetbench.report.export.campaign_json import format_json

CHECK_JSON_VERSION = 1
"""Format version. It increases when a key is removed or changes its meaning."""


def check_json(result: CheckResult) -> str:
    """Return the document, with numbers in base units."""
    path = result.path
    return format_json(
        {
            "version": CHECK_JSON_VERSION,
            "ends": [asdict(end) for end in (path.first, path.second)],
            "depth": result.depth,
            "max_rate_bps": result.max_rate_bps,
            "is_complete": result.is_complete,
            "verdict": list(result.verdict),
            "limits": [asdict(limit) for limit in result.limits],
            "audit": {
                "is_audited": result.audit.result is not None,
                "findings": [finding_fields(finding) for finding in result.audit.findings],
                "not_audited": list(result.audit.unread.values()),
            },
            "measurements": [asdict(each) for each in result.measurements],
            "not_measured": [asdict(each) for each in result.missing],
            "requirements": [
                {
                    "text": each.requirement.text,
                    "measurement": each.requirement.name,
                    "verdict": each.verdict,
                    "reason": each.reason,
                }
                for each in result.requirements
            ],
            "results_files": dict(result.results_files),
            "notes": list(result.notes),
        }
    )
