"""A campaign's estimates for programs and for pasting: the documented JSON form, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.report.export.explanation_json import explanation_fields
from vnetbench.report.one_at_a_time import to_single_factor, gain_column
from vnetbench.report.tables.columns import (
    Column,
    factor_columns,
    metric_columns,
    search_columns,
    stop_reason_column,
    trials_column,
)
from vnetbench.report.tables.published_comparison import PublishedComparison, DirectionRanges, compare_with_published, bidirectional_ratio, comparison_columns
from vnetbench.report.text.emulation_warning import find_accelerator
from vnetbench.report.text.evidence_text import format_evidence
from vnetbench.report.text.narrative import Narrative, build_narrative
from vnetbench.report.text.notes import legend, campaign_notes
from vnetbench.study.factors.registry import FACTORS
from vnetbench.wording.estimate_text import measured_metrics

VERSION = 1
"""Version of the JSON form (docs/show-json.md). It rises when a key is removed or changes its meaning."""
_MARKDOWN_METRICS = 6
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")


def campaign_json(summary: CampaignSummary) -> str:
    """The whole summary in the form of docs/show-json.md; numbers in base units (bytes, bit/s, seconds)."""
    told = build_narrative(summary)
    form = {
        "version": VERSION,
        "title": summary.title,
        "question": summary.question,
        "workload": summary.workload,
        "main_metric": summary.main_metric,
        "status": summary.status,
        "accelerator": find_accelerator(summary),
        "started": summary.started,
        "elapsed_s": summary.elapsed_s,
        "seed": summary.seed,
        "overrides": list(summary.overrides),
        "precision": {
            "confidence": summary.precision.confidence,
            "half_width": summary.precision.half_width,
            "fewest_trials": summary.precision.fewest_trials,
            "most_trials": summary.precision.most_trials,
            "time_limit_s": summary.precision.time_limit_s,
        },
        "timing": {
            "duration_s": summary.timing.duration_s,
            "warmup_s": summary.timing.warmup_s,
            "interval_s": summary.timing.interval_s,
            "idle_s": summary.timing.idle_s,
        },
        "factors": [
            {"name": factor.name, "unit": _factor_unit(factor.name), "levels": list(factor.levels)}
            for factor in summary.factors
        ],
        "treatments": [_treatment(treatment) for treatment in summary.treatments],
        "testbed": summary.testbed,
        "facts": summary.facts,
        "warnings": list(summary.warnings),
        "findings": [finding.text for finding in told.findings],
        "explanation": explanation_fields(told.explanation),
        "published": _beside(compare_with_published(summary)),
        "reference": _reference(summary),
        "study": summary.study_text,
    }
    return _json(form)


def explanation_json(summary: CampaignSummary, told: Narrative) -> str:
    """What `told` has of the campaign, in the same form as the summary's `explanation`."""
    head = {"version": VERSION, "title": summary.title, "path": summary.path}
    return _json({**head, **explanation_fields(told.explanation)})


def _json(form: object) -> str:
    return json.dumps(form, indent=2, ensure_ascii=False, allow_nan=False, default=dict)


def campaign_csv(summary: CampaignSummary) -> str:
    """One row a treatment; for each metric its value, low, high and modes (`value*share` joined by blanks).

    Numbers are in base units, an empty cell says that there is none. Where throughputs were searched a
    column says what limited them; of guests the last one says what ran them (`kvm`, `tcg`). Lines end as
    RFC 4180 has it.
    """
    names = [factor.name for factor in summary.factors]
    metrics = measured_metrics(summary.treatments)
    out = io.StringIO()
    writer = csv.writer(out)
    ran_by = find_accelerator(summary)
    groups = [f"{metric}{part}" for metric in metrics for part in ("", "_low", "_high", "_modes")]
    guests = () if ran_by is None else ("accelerator",)
    limits = search_columns(summary.treatments)[:1]
    told = [*(column.key for column in limits), *guests]
    writer.writerow(["treatment", *names, "trials", "stopped_by", *groups, "failures", *told])
    for place, treatment in enumerate(summary.treatments):
        cells: list[object] = [treatment.index, *(treatment.factors.get(name, "") for name in names)]
        cells += [treatment.trials, treatment.stopped_by]
        for metric in metrics:
            cells += _csv_group(treatment.metrics.get(metric))
        cells += ["; ".join(treatment.failures), *("; ".join(c.cells[place]) for c in limits)]
        writer.writerow([*cells, *((ran_by,) if guests else ())])
    return out.getvalue()


def campaign_markdown(summary: CampaignSummary) -> str:
    """Title, question, the table of the terminal with its most important metrics, and the notes."""
    told = build_narrative(summary)
    summary = to_single_factor(summary)
    rows, gains, source = summary.treatments, gain_column(summary), summary.reference
    of_trials = [trials_column(rows), *search_columns(rows), stop_reason_column(rows)]
    columns = [
        *factor_columns(rows, summary.factors),
        *([gains] if gains else []),
        *metric_columns(rows, summary.main_metric)[:_MARKDOWN_METRICS],
        *(of_trials if source is None else []),
    ]
    lines = [f"# {_escaped(summary.title)}", ""]
    if source is not None:
        lines += [f"{_escaped(source.source)}. {_escaped(source.conditions)}", ""]
    if summary.question:
        lines += [_escaped(summary.question), ""]
    lines += _markdown_story(told)
    lines += [*_markdown_table(columns), "", legend(summary)]
    lines += [*(f"\n- {_escaped(note)}" for note in campaign_notes(summary)), ""]
    if (compared := compare_with_published(summary)) is not None:
        published = compared.source
        lines += [f"## {_escaped(published.title)}, beside", "", _escaped(published.conditions), ""]
        lines += [*_markdown_table(comparison_columns(compared)), ""]
    return "\n".join(lines)


def _markdown_story(told: Narrative) -> Iterator[str]:
    """The answer, and each finding with the first suspect's evidence and proving command."""
    if told.lead:
        yield f"**{_escaped(' '.join(told.lead))}**"
        yield ""
    for number, finding in enumerate(told.findings, 1):
        yield f"{number}. {_escaped(finding.text)}"
        for suspect in finding.candidates[:1]:
            for text in map(format_evidence, suspect.evidence):
                cells = (text.figure, text.range, text.threshold)
                yield f"   - {_escaped(f'{text.label}: ' + ', '.join(filter(None, cells)))}"
            if suspect.command:
                yield f"   - to prove it: `{suspect.command}`"
    if told.findings:
        yield ""


def _markdown_table(columns: Sequence[Column]) -> Iterator[str]:
    heads = [f"{column.title} ({column.unit})" if column.unit else column.title for column in columns]
    yield f"| {' | '.join(map(_escaped, heads))} |"
    yield f"|{'|'.join('---:' if column.is_number else ':---' for column in columns)}|"
    for i in range(len(columns[0].cells)):
        cells = ("<br>".join(map(_escaped, column.cells[i])) for column in columns)
        yield f"| {' | '.join(cells)} |"


def _beside(compared: PublishedComparison | None) -> dict[str, object] | None:
    if compared is None:
        return None
    source = compared.source
    return {
        "title": source.title,
        "conditions": source.conditions,
        "metric": source.metric,
        "beside": [
            {
                "factors": pair.levels,
                "here": _ways(pair.here),
                "published": [{"setting": name, **_ways(each)} for name, each in pair.there.items()],
            }
            for pair in compared.pairs
        ],
    }


def _reference(summary: CampaignSummary) -> dict[str, object] | None:
    source = summary.reference
    if source is None:
        return None
    return {
        "name": source.name,
        "title": source.title,
        "source": source.source,
        "conditions": source.conditions,
        "each": source.value_description,
    }


def _ways(ways: DirectionRanges) -> dict[str, object]:
    spreads = {direction: asdict(spread) for direction, spread in ways.items()}
    return {**spreads, "both_over_one": bidirectional_ratio(ways)}


def _treatment(treatment: TreatmentSummary) -> dict[str, object]:
    return {
        "index": treatment.index,
        "factors": treatment.factors,
        "effective": treatment.effective,
        "trials": treatment.trials,
        "stopped_by": treatment.stopped_by,
        "metrics": {
            name: _estimate(name, estimate, treatment) for name, estimate in treatment.metrics.items()
        },
        "failures": list(treatment.failures),
        "notes": list(treatment.notes),
        "each_trial": [_point(point) for point in treatment.points],
    }


def _estimate(name: str, estimate: Estimate, treatment: TreatmentSummary) -> dict[str, object]:
    with_metric = [point.trial for point in treatment.points if name in point.values]
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "unit": METRICS[name].unit if name in METRICS else "",
        "confidence": estimate.confidence,
        "modality": estimate.modality,
        "modes": [asdict(mode) for mode in estimate.modes],
        "outliers": [with_metric[place] for place in estimate.outliers],
    }


def _point(point: TrialPoint) -> dict[str, object]:
    return {
        "trial": point.trial,
        "block": point.block,
        "started_at_s": point.started_s,
        "duration_s": point.duration_s,
        "warmup_s": point.warmup_s,
        "steady": point.has_steady_state,
        "values": point.values,
        **({"answers": [asdict(answer) for answer in point.search_answers]} if point.search_answers else {}),
        **({"steps": [asdict(step) for step in point.steps]} if point.steps else {}),
        "notes": list(point.notes),
        **({"imported": point.imported} if point.imported else {}),
    }


def _factor_unit(name: str) -> str:
    return FACTORS[name].unit if name in FACTORS else ""


def _csv_group(estimate: Estimate | None) -> list[object]:
    if estimate is None:
        return [""] * 4
    modes = " ".join(f"{mode.value}*{mode.share}" for mode in estimate.modes)
    return [estimate.value, _or_empty(estimate.low), _or_empty(estimate.high), modes]


def _or_empty(number: float | None) -> float | str:
    return "" if number is None else number


def _escaped(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", " ".join(text.split()))
