"""The JSON of `vnetbench check-statements --json` (docs/statements.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from vnetbench.estimate.model import Ratio
from vnetbench.report.export.explanation_fields import JsonObject
from vnetbench.statements.check import StatementResult
from vnetbench.statements.statement import StatementEvidence, StatementPart, Verdict
from vnetbench.wording.estimate_text import find_metric, finite_or_none

STATEMENTS_JSON_VERSION = 2
"""Format version. It increases when a key is removed or changes its meaning."""


def statements_json(results: Sequence[StatementResult]) -> str:
    """Return all statements with their verdicts and evidence as JSON."""
    fields = {
        "version": STATEMENTS_JSON_VERSION,
        "statements": [_statement_fields(result) for result in results],
    }
    return json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False)


def _statement_fields(result: StatementResult) -> JsonObject:
    statement = result.statement
    return {
        "id": statement.id,
        "source": statement.source,
        "subject": statement.subject,
        "condition": statement.condition,
        "statement": statement.statement,
        "value": statement.reported_value or None,
        "unit": statement.unit or None,
        "state": result.state,
        "run": statement.run or None,
        "limitation": statement.uncheckable_part or None,
        "files": [_verdict_fields(verdict) for verdict in result.conclusive_or_all_verdicts],
    }


def _verdict_fields(verdict: Verdict) -> JsonObject:
    return {
        "path": verdict.path,
        "state": verdict.state,
        "parts": [_part_fields(part) for part in verdict.parts],
        "reported_values": [
            _evidence_fields(evidence) for evidence in verdict.measured_values_next_to_reported
        ],
    }


def _part_fields(part: StatementPart) -> JsonObject:
    return {
        "claim": part.claim,
        "state": part.state,
        "missing": part.missing or None,
        "evidence": [_evidence_fields(evidence) for evidence in part.evidence],
    }


def _evidence_fields(evidence: StatementEvidence) -> JsonObject:
    value = evidence.value
    is_ratio = isinstance(value, Ratio)
    return {
        "levels": dict(evidence.levels),
        "metric": evidence.metric,
        "is_ratio": is_ratio,
        "value": finite_or_none(value.value),
        "low": value.low,
        "high": value.high,
        "confidence": value.confidence,
        "unit": "1" if is_ratio else find_metric(evidence.metric).unit,
        "modes": [] if isinstance(value, Ratio) else [asdict(mode) for mode in value.modes],
        "base": None if evidence.differing_base_levels is None else dict(evidence.differing_base_levels),
        "level": None
        if evidence.differing_compared_levels is None
        else dict(evidence.differing_compared_levels),
        "state": evidence.state or None,
        "note": evidence.note or None,
    }
