"""An explanation for programs: the JSON of `explain --json`, and of `explanation` in `show --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from vnetbench.explain.model import EvidenceItem, Explanation, Finding, EvidenceChart, ExperimentResult, CandidateCause
from vnetbench.report.text.evidence_text import find_evidence_metric
from vnetbench.wording.estimate_text import finite_or_none

Form = dict[str, object]


def explanation_fields(explanation: Explanation) -> Form:
    """The answer and all findings, numbers in base units (docs/show-json.md)."""
    return {
        "answer": list(explanation.answer),
        "findings": [_finding(finding) for finding in explanation.findings],
    }


def _finding(finding: Finding) -> Form:
    return {
        "kind": finding.kind,
        "says": finding.text,
        "treatments": list(finding.treatments),
        "suspects": [_suspect(suspect) for suspect in finding.candidates],
        "picture": None if finding.chart is None else _picture(finding.chart),
        "details": _plain(finding.details),
    }


def _suspect(suspect: CandidateCause) -> Form:
    cause = suspect.cause
    return {
        "cause": cause.name,
        "family": cause.family,
        "says": cause.description,
        "is_fault": cause.is_fault,
        "score": suspect.score,
        "certainty": suspect.confidence,
        "evidence": [_exhibit(exhibit) for exhibit in suspect.evidence],
        "change": cause.advice or None,
        "setting": dict(cause.setting),
        "command": suspect.command or None,
        "source": cause.source,
        "proof": None if suspect.experiment_result is None else _proof(suspect.experiment_result),
    }


def _proof(proof: ExperimentResult) -> Form:
    found = proof.experiment
    return {
        "verdict": proof.verdict,
        "path": found.results_path,
        "levels": dict(found.base_levels),
        "setting": dict(found.changed_levels),
        "metric": found.metric,
        "ratio": finite_or_none(found.ratio.value),
        "low": found.ratio.low,
        "high": found.ratio.high,
        "confidence": found.ratio.confidence,
        "blocks": found.shared_blocks,
    }


def _exhibit(exhibit: EvidenceItem) -> Form:
    figure = find_evidence_metric(exhibit.metric)
    return {
        **asdict(exhibit),
        "unit": figure.unit,
        "meaning": figure.meaning,
        "counters": list(figure.counters),
    }


def _picture(picture: EvidenceChart) -> Form:
    return {**asdict(picture), "rows": [dict(row) for row in picture.rows]}


def _plain(details: Mapping[str, object]) -> Form:
    """Mappings and sequences of any kind as JSON has them."""
    return {name: _value(value) for name, value in details.items()}


def _value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _value(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_value(each) for each in value]
    return value
