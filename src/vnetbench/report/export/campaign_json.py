"""The JSON of `vnetbench show --json` and `vnetbench explain --json` (docs/show-json.md)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from vnetbench.audit.output.json_form import finding_fields
from vnetbench.audit.settings import SettingsAudit
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.estimate.treatment_time import campaign_time_shares, treatment_time_shares
from vnetbench.report.export.explanation_fields import JsonObject, explanation_fields
from vnetbench.report.tables.published_comparison import (
    PublishedComparison,
    ValuesByDirection,
    bidirectional_ratio,
    compare_with_published,
)
from vnetbench.report.text.emulation_warning import find_accelerator
from vnetbench.report.text.narrative_model import Narrative
from vnetbench.report.text.settings_text import read_settings_audit
from vnetbench.report.text.stored_narrative import read_or_build_narrative
from vnetbench.results.records import StepRecord
from vnetbench.study.factors.registry import FACTORS

CAMPAIGN_JSON_VERSION = 2
"""Format version. It increases when a key is removed or changes its meaning."""

_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e\n]")


def campaign_json(summary: CampaignSummary) -> str:
    """Return the whole summary as JSON, with numbers in base units: bytes, bit/s, seconds."""
    narrative = read_or_build_narrative(summary)
    fields: JsonObject = {
        "version": CAMPAIGN_JSON_VERSION,
        "title": summary.title,
        "question": summary.question,
        "workload": summary.workload,
        "deciding_metric": summary.deciding_metric,
        "status": summary.status,
        "accelerator": find_accelerator(summary),
        "started_at": summary.started_at,
        "elapsed_s": summary.elapsed_s,
        "seed": summary.seed,
        "overrides": list(summary.overrides),
        "precision": {
            "confidence": summary.required_precision.confidence,
            "half_width": summary.required_precision.half_width,
            "min_trials": summary.required_precision.min_trials,
            "max_trials": summary.required_precision.max_trials,
            "time_limit_s": summary.required_precision.campaign_time_limit_s,
        },
        "timing": {
            "duration_s": summary.timing.duration_s,
            "warmup_s": summary.timing.warmup_s,
            "interval_s": summary.timing.interval_s,
            "idle_s": summary.timing.idle_phase_s,
        },
        "factors": [
            {"name": factor.name, "unit": _unit_of_factor(factor.name), "levels": list(factor.levels)}
            for factor in summary.factors
        ],
        "treatments": [_treatment_fields(treatment) for treatment in summary.treatments],
        "testbed": summary.testbed,
        "facts": summary.facts,
        "audit": _audit_fields(read_settings_audit(summary, narrative)),
        "warnings": list(summary.warnings),
        "findings": [finding.text for finding in narrative.findings],
        "explanation": explanation_fields(narrative.findings_as_explanation),
        "published_comparison": _published_comparison_fields(compare_with_published(summary)),
        "published_table": _published_table_fields(summary),
        "study": summary.study_text,
    }
    return format_json(fields)


def explanation_json(
    summary: CampaignSummary, narrative: Narrative, treatment_indices: Sequence[int] = ()
) -> str:
    """Return the explanation alone as JSON, in the form of `explanation` in the campaign's JSON.

    The time shares are those of the treatments with these indices, or of all treatments without any.
    """
    head = {"version": CAMPAIGN_JSON_VERSION, "title": summary.title, "path": summary.path}
    time_shares = [
        {"treatment": item.treatment.index, "factors": item.treatment.factors, "time_shares": item.shares}
        for item in campaign_time_shares(summary)
        if not treatment_indices or item.treatment.index in treatment_indices
    ]
    explanation = explanation_fields(narrative.findings_as_explanation)
    return format_json({**head, **explanation, "time_shares": time_shares})


def format_json(fields: JsonObject) -> str:
    """Return JSON text that is safe to print in a terminal."""
    text = json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False, default=dict)
    # A terminal would obey some characters that JSON does not escape. A parser reads the same text.
    return _NOT_PRINTABLE_ASCII.sub(_escape_unprintable, text)


def _escape_unprintable(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else json.dumps(character)[1:-1]


def _null_for_infinite(value: object) -> object:
    """Return a JSON value with null for each infinite number: a search may have no time limit."""
    if isinstance(value, Mapping):
        return {key: _null_for_infinite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_null_for_infinite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _audit_fields(audit: SettingsAudit | None) -> JsonObject | None:
    if audit is None:
        return None
    return {
        "answer": audit.result.answer if audit.result else None,
        "findings": [finding_fields(finding) for finding in audit.findings],
        "not_read": dict(audit.unread),
    }


def _treatment_fields(treatment: TreatmentSummary) -> JsonObject:
    return {
        "index": treatment.index,
        "factors": treatment.factors,
        "effective": treatment.effective,
        "trial_count": treatment.trial_count,
        "stopped_by": treatment.stop_reason,
        "metrics": {
            name: _estimate_fields(name, estimate, treatment) for name, estimate in treatment.metrics.items()
        },
        "time_shares": treatment_time_shares(treatment),
        "failures": list(treatment.failures),
        "failed_trials": [
            {**asdict(each), "path_probe": dict(each.path_probe)} for each in treatment.failed_trials
        ],
        "notes": list(treatment.notes),
        "trials": [_trial_fields(point) for point in treatment.points],
        "stopped_search": _null_for_infinite(treatment.stopped_search_result),
    }


def _estimate_fields(name: str, estimate: Estimate, treatment: TreatmentSummary) -> JsonObject:
    trial_ids = [point.trial_id for point in treatment.points if name in point.values]
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "unit": METRICS[name].unit if name in METRICS else "",
        "confidence": estimate.confidence,
        "modality": estimate.modality,
        "modes": [asdict(mode) for mode in estimate.modes],
        "outliers": [trial_ids[index] for index in estimate.outliers],
    }


def _trial_fields(point: TrialPoint) -> JsonObject:
    fields: JsonObject = {
        "trial": point.trial_id,
        "block": point.block,
        "started_s": point.since_campaign_start_s,
        "duration_s": point.duration_s,
        "warmup_s": point.warmup_s,
        "has_steady_state": point.has_steady_state,
        "values": point.values,
        "notes": list(point.notes),
    }
    if point.goal_results:
        fields["goal_results"] = [result.to_json() for result in point.goal_results]
    if point.steps:
        fields["steps"] = [_step_fields(step) for step in point.steps]
    if point.teams:
        fields["teams"] = [asdict(team) for team in point.teams]
    if point.imported_log:
        fields["imported"] = point.imported_log
    return fields


def _step_fields(step: StepRecord) -> JsonObject:
    fields = asdict(step)
    return {"started_s" if name == "since_campaign_start_s" else name: fields[name] for name in fields}


def _unit_of_factor(name: str) -> str:
    return FACTORS[name].unit if name in FACTORS else ""


def _published_comparison_fields(comparison: PublishedComparison | None) -> JsonObject | None:
    if comparison is None:
        return None
    return {
        "title": comparison.source.title,
        "conditions": comparison.source.conditions,
        "metric": comparison.source.metric,
        "treatments": [
            {
                "factors": each.varying_levels_without_direction,
                "measured": _direction_fields(each.measured_by_direction),
                "published": [
                    {"setting": setting, **_direction_fields(ranges)}
                    for setting, ranges in each.published_by_non_factor_cells.items()
                ],
            }
            for each in comparison.treatments
        ],
    }


def _direction_fields(values_by_direction: ValuesByDirection) -> JsonObject:
    by_direction = {direction: asdict(each) for direction, each in values_by_direction.items()}
    return {**by_direction, "bidirectional_ratio": bidirectional_ratio(values_by_direction)}


def _published_table_fields(summary: CampaignSummary) -> JsonObject | None:
    table = summary.represented_table
    if table is None:
        return None
    return {
        "name": table.name,
        "title": table.title,
        "source": table.source,
        "conditions": table.conditions,
        "value_description": table.value_description,
    }
