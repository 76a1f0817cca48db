"""An explanation in a terminal: the answer, then each finding with its evidence and test command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vnetbench.explain.model import CONFIRMED, REFUTED, CandidateCause, Explanation, Finding
from vnetbench.report.tables.text_table import to_printable_text
from vnetbench.report.text.evidence_text import (
    EvidenceText,
    format_evidence,
    format_experiment_result,
    is_named_in_finding,
    split_first_sentence,
)
from vnetbench.report.text.intervention_text import (
    advice_with_outcome,
    interventions_table,
    setting_verdict_label,
)

_INDENT, _GAP = 3, 2
_MIN_LABEL_WIDTH = 12
_MIN_COUNTERS_WIDTH = 40
"""With this many characters left, counters stand on the line of their value; otherwise on the next line."""
_CONFIDENCE_STYLES = {CONFIRMED: "green"}
_FINDING_STYLES = {"failed": "yellow", "unstable": "yellow", "instrument": "yellow"}
"""Colours of the findings that you must know before you use the results."""


@dataclass(frozen=True)
class ExplanationText:
    """An explanation as a rich renderable. Print it with `crop=False` to keep long commands whole."""

    explanation: Explanation
    remarks: tuple[str, ...] = ()
    """Remarks about the explanation itself, printed below it."""
    time_lines: tuple[str, ...] = ()
    """Where the time goes, a line per group of treatments, printed below the answer."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        sections = iter(self._section_renderables(options.max_width))
        yield from next(sections, ())
        for section in sections:
            yield Text("")
            yield from section

    def _section_renderables(self, width: int) -> Iterator[list[RenderableType]]:
        """Yield the sections between blank lines: the answer, each finding, each remark."""
        if self.explanation.answer:
            yield list(_answer_text(self.explanation.answer))
        if self.time_lines:
            yield [to_printable_text(line) for line in self.time_lines]
        for number, finding in enumerate(self.explanation.findings, 1):
            yield list(_finding_renderables(number, finding, width))
        for remark in self.remarks:
            yield [to_printable_text(remark)]


@dataclass(frozen=True)
class FindingHeadlines:
    """The answer and the first sentence of each finding, as a rich renderable without evidence."""

    explanation: Explanation
    time_lines: tuple[str, ...] = ()
    """Where the time goes, a line per group of treatments, printed below the answer."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        answer, findings = self.explanation.answer, self.explanation.findings
        yield from _answer_text(answer)
        if answer and self.time_lines:
            yield Text("")
        yield from map(to_printable_text, self.time_lines)
        if (answer or self.time_lines) and findings:
            yield Text("")
        for number, finding in enumerate(findings, 1):
            yield _numbered_paragraph(number, finding, split_first_sentence(finding)[0])
        if answer or self.time_lines or findings:
            yield Text("")


def _finding_renderables(number: int, finding: Finding, width: int) -> Iterator[RenderableType]:
    yield _numbered_paragraph(number, finding, finding.text)
    if (table := interventions_table(finding)) is not None:
        yield Text("")
        yield _indent(table)
    for candidate in finding.candidates:
        yield from _candidate_renderables(finding, candidate, width)


def _answer_text(sentences: Sequence[str]) -> Iterator[Text]:
    if sentences:
        answer = to_printable_text(" ".join(sentences))
        answer.stylize("bold")
        yield answer


def _numbered_paragraph(number: int, finding: Finding, paragraph: str) -> Table:
    text = to_printable_text(paragraph)
    text.stylize(_FINDING_STYLES.get(finding.kind, ""))
    return _with_hanging_indent(Text(str(number)), text)


def _candidate_renderables(
    finding: Finding, candidate: CandidateCause, width: int
) -> Iterator[RenderableType]:
    yield Text("")
    if not is_named_in_finding(candidate, finding):
        head = Text(candidate.confidence, style=_CONFIDENCE_STYLES.get(candidate.confidence, ""))
        yield _labelled_paragraph(head.append(":"), candidate.cause.description)
    yield from _evidence_tables([format_evidence(item) for item in candidate.evidence], width)
    for setting in candidate.settings:
        yield _labelled_paragraph(Text("Setting:"), f"{setting.text}. Fix: {setting.fix}")
    result = candidate.experiment_result
    if result is not None:
        yield _labelled_paragraph(
            Text(f"{setting_verdict_label(candidate)}:"), format_experiment_result(result)
        )
    if candidate.cause.advice:
        yield _labelled_paragraph(Text("To change it:"), advice_with_outcome(candidate))
    if candidate.command and candidate.confidence not in (CONFIRMED, REFUTED):
        yield _indent(Text("To test it:"))
        # Keep the command on one line so that you can copy it.
        yield Text(f"{' ' * 2 * _INDENT}{candidate.command}", no_wrap=True, overflow="ignore")


def _evidence_tables(texts: Sequence[EvidenceText], width: int) -> Iterator[RenderableType]:
    """Yield a line per evidence item, with its counters on the same line or below."""
    if not texts:
        return
    rows = [(text.label, text.value_without_unit, text.unit, text.range, text.threshold) for text in texts]
    widths = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    available = width - 2 * _INDENT - sum(widths[1:]) - _GAP * len(widths)
    widths[0] = max(_MIN_LABEL_WIDTH, min(widths[0], available))
    is_wide = available - widths[0] >= _MIN_COUNTERS_WIDTH
    for text, row in zip(texts, rows, strict=True):
        table = Table.grid(padding=(0, _GAP, 0, 0))
        for index, column_width in enumerate(widths):
            table.add_column(width=column_width, justify="right" if index == 1 else "left")
        counters = Text(", ".join(text.counters), style="dim")
        if is_wide:
            table.add_column(overflow="fold")
        table.add_row(*map(Text, row), *([counters] if is_wide else []))
        yield Padding(table, (0, 0, 0, 2 * _INDENT))
        if text.counters and not is_wide:
            yield Padding(counters, (0, 0, 0, 3 * _INDENT))


def _labelled_paragraph(label: Text, paragraph: str) -> Padding:
    return _indent(_with_hanging_indent(label, to_printable_text(paragraph)))


def _indent(body: RenderableType) -> Padding:
    return Padding(body, (0, 0, 0, _INDENT))


def _with_hanging_indent(head: Text, body: Text) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(head, body)
    return table
