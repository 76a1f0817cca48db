"""An explanation in a terminal: the answer, then each finding with its evidence, and how to prove it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vnetbench.explain.model import CONFIRMED, REFUTED, Explanation, Finding, CandidateCause
from vnetbench.report.tables.text_table import to_safe_text
from vnetbench.report.text.evidence_text import EvidenceText, format_evidence, split_headline, is_named_in_finding, format_experiment_result

_INDENT, _GAP = 3, 2
_MIN_LABEL_WIDTH = 12
_MIN_COUNTERS_WIDTH = 40
"""So many characters put the counters beside their figure, else they stand below it."""
_CONFIDENCE_STYLES = {"confirmed": "green"}
_FINDING_STYLES = {"unstable": "yellow", "instrument": "yellow"}
"""What has to be known before a figure is used; all else is said without colour."""


@dataclass(frozen=True)
class ExplanationText:
    """A rich renderable. Print it with `crop=False`: the commands in it are whole, however long they are."""

    explanation: Explanation
    remarks: tuple[str, ...] = ()
    """What is to be said of the explanation itself, below it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = iter(self._parts(options.max_width))
        yield from next(parts, ())
        for part in parts:
            yield Text("")
            yield from part

    def _parts(self, width: int) -> Iterator[list[RenderableType]]:
        """What stands apart by a line: the answer, each finding, each remark."""
        if self.explanation.answer:
            yield list(_answer_text(self.explanation.answer))
        for number, finding in enumerate(self.explanation.findings, 1):
            yield list(_finding_parts(number, finding, width))
        for remark in self.remarks:
            yield [to_safe_text(remark)]


@dataclass(frozen=True)
class FindingHeadlines:
    """A rich renderable: the answer and the first sentence of each finding, without the evidence."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _answer_text(self.explanation.answer)
        if self.explanation.answer and self.explanation.findings:
            yield Text("")
        for number, finding in enumerate(self.explanation.findings, 1):
            yield _numbered_paragraph(number, finding, split_headline(finding)[0])
        if self.explanation.answer or self.explanation.findings:
            yield Text("")


def _finding_parts(number: int, finding: Finding, width: int) -> Iterator[RenderableType]:
    yield _numbered_paragraph(number, finding, finding.text)
    for suspect in finding.candidates:
        yield from _candidate_parts(finding, suspect, width)


def _answer_text(sentences: Sequence[str]) -> Iterator[Text]:
    if sentences:
        answer = to_safe_text(" ".join(sentences))
        answer.stylize("bold")
        yield answer


def _numbered_paragraph(number: int, finding: Finding, words: str) -> Table:
    says = to_safe_text(words)
    says.stylize(_FINDING_STYLES.get(finding.kind, ""))
    return _with_hanging_indent(Text(str(number)), says)


def _candidate_parts(finding: Finding, suspect: CandidateCause, width: int) -> Iterator[RenderableType]:
    yield Text("")
    if not is_named_in_finding(suspect, finding):
        head = Text(suspect.confidence, style=_CONFIDENCE_STYLES.get(suspect.confidence, ""))
        yield _indent(_with_hanging_indent(head.append(":"), to_safe_text(suspect.cause.description)))
    yield from _evidence_tables([format_evidence(exhibit) for exhibit in suspect.evidence], width)
    if suspect.experiment_result is not None:
        yield _indent(_with_hanging_indent(Text(f"{suspect.experiment_result.verdict}:"), to_safe_text(format_experiment_result(suspect.experiment_result))))
    if suspect.cause.advice:
        yield _indent(_with_hanging_indent(Text("to change it:"), to_safe_text(suspect.cause.advice)))
    if suspect.command and suspect.confidence not in (CONFIRMED, REFUTED):
        yield _indent(Text("to prove it:"))
        # One line whatever its length, so that it can be copied.
        yield Text(f"{' ' * 2 * _INDENT}{suspect.command}", no_wrap=True, overflow="ignore")


def _evidence_tables(texts: Sequence[EvidenceText], width: int) -> Iterator[RenderableType]:
    """A line a figure: what, value, unit, range over the trials, threshold; its counters beside or below."""
    if not texts:
        return
    rows = [(text.label, text.value, text.unit, text.range, text.threshold) for text in texts]
    widths = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    room = width - 2 * _INDENT - sum(widths[1:]) - _GAP * len(widths)
    widths[0] = max(_MIN_LABEL_WIDTH, min(widths[0], room))
    is_wide = room - widths[0] >= _MIN_COUNTERS_WIDTH
    for text, row in zip(texts, rows, strict=True):
        table = Table.grid(padding=(0, _GAP, 0, 0))
        for place, column_width in enumerate(widths):
            table.add_column(width=column_width, justify="right" if place == 1 else "left")
        counters = Text(", ".join(text.counters), style="dim")
        if is_wide:
            table.add_column(overflow="fold")
        table.add_row(*map(Text, row), *([counters] if is_wide else []))
        yield Padding(table, (0, 0, 0, 2 * _INDENT))
        if text.counters and not is_wide:
            yield Padding(counters, (0, 0, 0, 3 * _INDENT))


def _indent(body: RenderableType) -> Padding:
    return Padding(body, (0, 0, 0, _INDENT))


def _with_hanging_indent(head: Text, body: Text) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(head, body)
    return table
