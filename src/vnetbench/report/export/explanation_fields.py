"""The JSON fields of an explanation, in `show --json` and in `explain --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from vnetbench.explain.model import (
    CandidateCause,
    EvidenceItem,
    ExperimentResult,
    Explanation,
    Finding,
)
from vnetbench.report.text.evidence_text import find_evidence_metric
from vnetbench.wording.estimate_text import finite_or_none

JsonObject = dict[str, object]


def explanation_fields(explanation: Explanation) -> JsonObject:
    """Return the answer and all findings, with numbers in base units (docs/show-json.md)."""
    return {
        "answer": list(explanation.answer),
        "findings": [_finding_fields(finding) for finding in explanation.findings],
    }


def _finding_fields(finding: Finding) -> JsonObject:
    chart = finding.chart
    return {
        "kind": finding.kind,
        "text": finding.text,
        "treatments": list(finding.treatment_indices),
        "candidates": [_candidate_fields(candidate) for candidate in finding.candidates],
        "chart": None if chart is None else {**asdict(chart), "rows": [dict(row) for row in chart.rows]},
        "details": {name: _to_json_value(value) for name, value in finding.details.items()},
    }


def _candidate_fields(candidate: CandidateCause) -> JsonObject:
    cause, result = candidate.cause, candidate.experiment_result
    return {
        "cause": cause.name,
        "family": cause.family,
        "description": cause.description,
        "is_fault": cause.is_fault,
        "score": candidate.score,
        "confidence": candidate.confidence,
        "evidence": [_evidence_fields(item) for item in candidate.evidence],
        "settings": [asdict(setting) for setting in candidate.settings],
        "advice": cause.advice or None,
        "is_advice_tried": result is not None,
        "setting": dict(cause.experiment_levels),
        "command": candidate.command or None,
        "source": cause.source,
        "experiment_result": None if result is None else _experiment_fields(result),
    }


def _experiment_fields(result: ExperimentResult) -> JsonObject:
    experiment = result.experiment
    return {
        "verdict": result.verdict,
        "results_path": experiment.results_path,
        "base_levels": dict(experiment.base_levels),
        "changed_levels": dict(experiment.changed_levels),
        "metric": experiment.metric,
        "ratio": finite_or_none(experiment.ratio.value),
        "low": experiment.ratio.low,
        "high": experiment.ratio.high,
        "confidence": experiment.ratio.confidence,
        "shared_blocks": experiment.shared_block_count,
    }


def _evidence_fields(item: EvidenceItem) -> JsonObject:
    metric = find_evidence_metric(item.metric)
    fields = asdict(item)
    fields["supports_when_low"] = fields.pop("applies_below_threshold")
    fields["place"] = fields.pop("location")
    return {
        **fields,
        "unit": metric.unit,
        "meaning": metric.meaning,
        "counters": list(metric.counters),
    }


def _to_json_value(value: object) -> object:
    """Return mappings as objects and tuples as arrays, at any depth."""
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_to_json_value(each) for each in value]
    return value
