"""The Markdown of `vnetbench show --markdown`: the answer, the findings and the table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.printable import make_printable
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
from vnetbench.report.text.evidence_text import format_evidence
from vnetbench.report.text.narrative_model import Narrative
from vnetbench.report.text.notes import campaign_notes, table_values_legend
from vnetbench.report.text.stored_narrative import read_or_build_narrative

_MAX_METRIC_COLUMNS = 6
_MARKDOWN_SPECIAL_CHARACTERS = re.compile(r"([\\`*_{}\[\]<>|#~])")


def campaign_markdown(summary: CampaignSummary) -> str:
    """Return the title, the answer, the findings, the table with its first metrics, and the notes."""
    narrative = read_or_build_narrative(summary)
    summary = merge_sparse_design_into_one_factor(summary)
    source = summary.represented_table
    lines = [f"# {_escape_markdown(summary.title)}", ""]
    if source is not None:
        lines += [f"{_escape_markdown(source.source)}. {_escape_markdown(source.conditions)}", ""]
    if summary.question:
        lines += [_escape_markdown(summary.question), ""]
    lines += _narrative_lines(narrative)
    lines += [*_table_lines(_summary_columns(summary)), "", table_values_legend(summary)]
    lines += [*(f"\n- {_escape_markdown(note)}" for note in campaign_notes(summary)), ""]
    if (comparison := compare_with_published(summary)) is not None:
        published = comparison.source
        lines += [
            f"## Comparison with {_escape_markdown(published.title)}",
            "",
            _escape_markdown(published.conditions),
            "",
        ]
        lines += [*_table_lines(measured_and_published_columns(comparison)), ""]
    return make_printable("\n".join(lines), keep="\n")


def _summary_columns(summary: CampaignSummary) -> list[Column]:
    rows, gains = summary.treatments, baseline_ratio_column(summary)
    columns = [
        *factor_columns(rows, summary.factors),
        *([gains] if gains else []),
        *metric_columns(rows, summary.deciding_metric)[:_MAX_METRIC_COLUMNS],
    ]
    if summary.represented_table is None:
        columns += [trials_column(rows), *search_columns(rows), stop_reason_column(rows)]
    return columns


def _narrative_lines(narrative: Narrative) -> Iterator[str]:
    """Yield the answer, then each finding with the evidence and the command of its first candidate cause."""
    if narrative.answer:
        yield f"**{_escape_markdown(' '.join(narrative.answer))}**"
        yield ""
    for number, finding in enumerate(narrative.findings, 1):
        yield f"{number}. {_escape_markdown(finding.text)}"
        for candidate in finding.candidates[:1]:
            for text in map(format_evidence, candidate.evidence):
                values = ", ".join(filter(None, (text.value_with_unit, text.range, text.threshold)))
                yield f"   - {_escape_markdown(f'{text.label}: {values}')}"
            for setting in candidate.settings:
                yield f"   - {_escape_markdown(f'Setting: {setting.text}. Fix: {setting.fix}')}"
            if candidate.command:
                yield f"   - To test it: {_code_span(candidate.command)}"
    if narrative.findings:
        yield ""


def _table_lines(columns: Sequence[Column]) -> Iterator[str]:
    titles = [f"{column.title} ({column.unit})" if column.unit else column.title for column in columns]
    yield f"| {' | '.join(map(_escape_markdown, titles))} |"
    yield f"|{'|'.join('---:' if column.is_number else ':---' for column in columns)}|"
    for i in range(len(columns[0].cells)):
        cells = ("<br>".join(map(_escape_markdown, column.cells[i])) for column in columns)
        yield f"| {' | '.join(cells)} |"


def _code_span(text: str) -> str:
    """Return the text as code on one line, with more backticks around it than inside (CommonMark 6.1)."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence, padding = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{padding}{' '.join(text.split())}{padding}{fence}"


def _escape_markdown(text: str) -> str:
    """Return the text on one line, with the special characters of Markdown escaped."""
    return _MARKDOWN_SPECIAL_CHARACTERS.sub(r"\\\1", " ".join(text.split()))
