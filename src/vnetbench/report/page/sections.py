"""The contents of the page's sections, ready for the template."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.audit.settings import SettingsAudit
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.experiment_command import study_placeholder_note
from vnetbench.explain.model import CONFIRMED, REFUTED, CandidateCause, Finding
from vnetbench.published.tables import PublishedTable
from vnetbench.quantity import Scale, format_count_with_noun, format_duration, format_interval
from vnetbench.report.charts.campaign_charts import main_charts, other_metric_charts, trial_charts
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.finding_charts import finding_chart
from vnetbench.report.charts.image_files import render_svg
from vnetbench.report.charts.team_charts import team_chart
from vnetbench.report.charts.time_charts import time_use_chart
from vnetbench.report.environment import Fact, list_facts
from vnetbench.report.one_at_a_time import baseline_ratio_column, merge_sparse_design_into_one_factor
from vnetbench.report.tables.columns import (
    Column,
    factor_columns,
    metric_columns,
    search_columns,
    stop_reason_column,
    trials_column,
)
from vnetbench.report.tables.published_comparison import (
    compare_with_published,
    measured_and_published_columns,
)
from vnetbench.report.tables.team_table import team_advice, team_columns
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.report.text.evidence_text import (
    EvidenceText,
    format_evidence,
    format_experiment_result,
    is_named_in_finding,
    needs_confidence_label,
    split_first_sentence,
)
from vnetbench.report.text.intervention_text import advice_with_outcome, setting_verdict_label
from vnetbench.report.text.method import describe_method
from vnetbench.report.text.narrative_model import Narrative
from vnetbench.report.text.notes import campaign_notes, table_values_legend
from vnetbench.report.text.settings_text import (
    SettingProblem,
    audit_notes,
    list_problems,
    read_settings_audit,
)
from vnetbench.report.text.stored_narrative import read_or_build_narrative
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.wording.estimate_text import (
    choose_metric_scale,
    find_metric,
    format_estimate_lines,
    format_modes,
)


@dataclass(frozen=True)
class TableCell:
    """One cell of the table: lines with a value and its interval."""

    value_and_interval_lines: tuple[tuple[str, str], ...]
    sort_key: float | str
    is_number: bool


@dataclass(frozen=True)
class CandidateSection:
    """A candidate cause with its evidence and its experiment as texts."""

    cause: str
    advice: str
    confidence: str
    """The confidence label; empty for a cause that the finding states as measured."""
    confidence_class: str
    """CSS class of the label."""
    is_named_in_finding: bool
    evidence: list[EvidenceText]
    settings: list[str]
    """Audited settings that are about the cause, with their fixes."""
    experiment_result: str
    command: str
    """The command that tests the cause; empty if the result is known or no command can test it."""
    study_placeholder_note: str
    """The note on the study placeholder in the command; empty without a placeholder."""


@dataclass(frozen=True)
class FindingSection:
    """A finding with its chart and its candidate causes."""

    headline: str
    text_after_headline: str
    chart: Chart | None
    candidates: list[CandidateSection]


@dataclass(frozen=True)
class SettingsSection:
    """The audit of the endpoints' settings."""

    sentences: tuple[str, ...]
    """Its answer, and which machines it does not cover."""
    problems: list[SettingProblem]
    notes: tuple[str, ...]
    """What it could not judge."""


@dataclass(frozen=True)
class CampaignSection:
    """Everything that the page shows about one campaign."""

    id: str
    summary: CampaignSummary
    counts_and_date: str
    warnings: tuple[str, ...]
    narrative: Narrative
    findings: list[FindingSection]
    main_chart: Chart | None
    """The chart directly below the answer; None without trials."""
    time_use_chart: Chart | None
    """Where the time of a stream or request goes; None without time evidence."""
    more_main_charts: list[Chart]
    """Further charts of the deciding metric, of frames and of latencies."""
    other_metric_charts: list[Chart]
    trial_charts: list[Chart]
    omitted_charts: list[str]
    columns: list[Column]
    rows: list[list[TableCell]]
    notes: tuple[str, ...]
    published_title_and_conditions: str
    """Title and conditions of the published table; empty without one."""
    published_columns: list[Column]
    team_chart: Chart | None
    """The picture of the testbed's team; None without one."""
    team_columns: list[Column]
    """The links of the testbed's team; empty without one."""
    team_advice: list[str]
    """What would spread the team's flows better."""
    settings: SettingsSection | None
    """The audit of the endpoints' settings; None without one."""
    facts: tuple[Fact, ...]
    method: tuple[tuple[str, str], ...]
    fallback_image: str
    """The first chart as an image for browsers without JavaScript."""

    @property
    def charts(self) -> list[Chart]:
        """All charts in page order."""
        finding_charts = [finding.chart for finding in self.findings if finding.chart is not None]
        leading = (self.main_chart, self.team_chart, self.time_use_chart)
        first = [chart for chart in leading if chart is not None]
        return [
            *first,
            *finding_charts,
            *self.more_main_charts,
            *self.other_metric_charts,
            *self.trial_charts,
        ]


def build_section(section_id: str, summary: CampaignSummary) -> CampaignSection:
    """Return the section of a campaign or of a published table."""
    merged = merge_sparse_design_into_one_factor(summary)
    if summary.represented_table is not None:
        return _published_table_section(section_id, merged, summary.represented_table)
    return _measured_section(section_id, merged, read_or_build_narrative(summary))


def limit_other_metric_charts(section: CampaignSection, count: int) -> CampaignSection:
    """Return the section with at most `count` charts of other metrics; it lists the omitted ones."""
    omitted = [chart.title for chart in section.other_metric_charts[count:]]
    return replace(section, other_metric_charts=section.other_metric_charts[:count], omitted_charts=omitted)


def to_image_url(chart: Chart) -> str:
    """Return the chart as an image URL; a script in an SVG image cannot run."""
    return f"data:image/svg+xml;base64,{base64.b64encode(render_svg(chart).encode()).decode()}"


def _published_table_section(
    section_id: str, summary: CampaignSummary, source: PublishedTable
) -> CampaignSection:
    """Return the section of a published table, which has no answer, method and environment."""
    rows = summary.treatments
    metrics = metric_columns(rows, summary.deciding_metric)
    columns = [
        *factor_columns(rows, summary.factors),
        *(_spell_out_column_title(summary, column) for column in metrics),
    ]
    charts = main_charts(summary)
    measurements = (source.conditions, table_values_legend(summary))
    return CampaignSection(
        id=section_id,
        summary=summary,
        counts_and_date=f"Published: {format_count_with_noun(len(rows), 'value')}, {summary.path}",
        warnings=(),
        narrative=Narrative(summary.title, (f"{source.source}.",), (), measurements, (), ()),
        findings=[],
        main_chart=charts[0],
        time_use_chart=None,
        more_main_charts=charts[1:],
        other_metric_charts=other_metric_charts(summary),
        trial_charts=[],
        omitted_charts=[],
        columns=columns,
        rows=_table_rows(summary, columns),
        notes=campaign_notes(summary),
        published_title_and_conditions="",
        published_columns=[],
        team_chart=None,
        team_columns=[],
        team_advice=[],
        settings=None,
        facts=(),
        method=(),
        fallback_image=to_image_url(charts[0]),
    )


def _measured_section(section_id: str, summary: CampaignSummary, narrative: Narrative) -> CampaignSection:
    columns = _columns_of_measured_campaign(summary)
    charts = main_charts(summary)
    comparison = compare_with_published(summary)
    caption = f"{comparison.source.title}: {comparison.source.conditions}" if comparison else ""
    return CampaignSection(
        id=section_id,
        summary=summary,
        counts_and_date=_counts_and_date_text(summary),
        warnings=emulation_warnings(summary),
        narrative=narrative,
        findings=[
            _finding_section(summary, each, number) for number, each in enumerate(narrative.findings, 1)
        ],
        main_chart=charts[0] if charts else None,
        time_use_chart=time_use_chart(summary),
        more_main_charts=charts[1:],
        other_metric_charts=other_metric_charts(summary),
        trial_charts=trial_charts(summary),
        omitted_charts=[],
        columns=columns,
        rows=_table_rows(summary, columns),
        notes=campaign_notes(summary),
        published_title_and_conditions=caption,
        published_columns=measured_and_published_columns(comparison) if comparison else [],
        team_chart=team_chart(summary),
        team_columns=team_columns(summary),
        team_advice=team_advice(summary),
        settings=make_settings_section(read_settings_audit(summary, narrative)),
        facts=list_facts(summary),
        method=describe_method(summary),
        fallback_image=to_image_url(charts[0]) if charts else "",
    )


def make_settings_section(audit: SettingsAudit | None) -> SettingsSection | None:
    """Return what the page shows of an audit; None without one."""
    if audit is None:
        return None
    return SettingsSection(audit.sentences, list_problems(audit), audit_notes(audit))


def _columns_of_measured_campaign(summary: CampaignSummary) -> list[Column]:
    rows = summary.treatments
    metrics = metric_columns(rows, summary.deciding_metric)
    deciding, *others = (_spell_out_column_title(summary, column) for column in metrics)
    gains = baseline_ratio_column(summary)
    return [
        *factor_columns(rows, summary.factors),
        deciding,
        *([gains] if gains else []),
        trials_column(rows),
        *search_columns(rows),
        stop_reason_column(rows),
        *others,
    ]


def _finding_section(summary: CampaignSummary, finding: Finding, number: int) -> FindingSection:
    headline, details = split_first_sentence(finding)
    candidates = [_candidate_section(candidate, finding) for candidate in finding.candidates]
    return FindingSection(headline, details, finding_chart(summary, finding, number), candidates)


def _candidate_section(candidate: CandidateCause, finding: Finding) -> CandidateSection:
    result = candidate.experiment_result
    is_decided = candidate.confidence in (CONFIRMED, REFUTED)
    return CandidateSection(
        cause=candidate.cause.description,
        advice=advice_with_outcome(candidate),
        confidence=candidate.confidence if needs_confidence_label(candidate, finding) else "",
        confidence_class=candidate.confidence.replace(" ", "-"),
        is_named_in_finding=is_named_in_finding(candidate, finding),
        evidence=[format_evidence(item) for item in candidate.evidence],
        settings=[f"{each.text}. Fix: {each.fix}" for each in candidate.settings],
        experiment_result=""
        if result is None
        else f"{setting_verdict_label(candidate)}: {format_experiment_result(result)}",
        command="" if is_decided else candidate.command,
        study_placeholder_note=study_placeholder_note(candidate.command),
    )


def _counts_and_date_text(summary: CampaignSummary) -> str:
    """Return the number of treatments and trials, and when they were measured or imported."""
    trials = sum(treatment.trial_count for treatment in summary.treatments)
    treatment_count = format_count_with_noun(len(summary.treatments), "treatment")
    counts = f"{treatment_count}, {format_count_with_noun(trials, 'trial')}"
    if summary.testbed_backend == IMPORTED_LAB:
        return f"{counts}, imported {summary.started_at}"
    duration = format_duration(summary.elapsed_s)
    return f"{counts}, {duration}, {summary.status}, started {summary.started_at}"


def _spell_out_column_title(summary: CampaignSummary, column: Column) -> Column:
    unit = choose_metric_scale(summary.treatments, column.key).unit
    return replace(column, title=find_metric(column.key).label, unit=unit)


def _table_rows(summary: CampaignSummary, columns: Sequence[Column]) -> list[list[TableCell]]:
    indices = range(len(summary.treatments))
    return [[_table_cell(summary, column, i) for column in columns] for i in indices]


def _table_cell(summary: CampaignSummary, column: Column, row_index: int) -> TableCell:
    treatment = summary.treatments[row_index]
    sort_key = column.sort_keys[row_index]
    lines = tuple((line, "") for line in column.cells[row_index])
    if column.key in treatment.metrics:
        scale = choose_metric_scale(summary.treatments, column.key)
        lines = tuple(_value_and_interval_lines(treatment, column.key, scale))
    return TableCell(lines, sort_key if math.isfinite(sort_key) else "", column.is_number)


def _value_and_interval_lines(
    treatment: TreatmentSummary, metric: str, scale: Scale
) -> Iterator[tuple[str, str]]:
    """Yield the value and the interval of an estimate, or of each of two modes."""
    estimate = treatment.metrics[metric]
    if estimate.modes:
        for mode in format_modes(estimate, metric, scale):
            value, _, share = mode.partition(" ")
            yield value, share
        return
    if estimate.is_published:
        value, _, ends = format_estimate_lines(estimate, metric, scale)[0].partition(" ")
        yield value, ends
        return
    unit = find_metric(metric).unit
    text = format_interval(estimate.value, estimate.low, estimate.high, unit, scale=scale)
    yield text.value, text.interval or "no interval"
