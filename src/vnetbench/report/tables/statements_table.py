"""The check of published statements in a terminal: each statement with its state and its evidence."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from vnetbench.estimate.model import Ratio
from vnetbench.printable import make_printable
from vnetbench.quantity import choose_scale, format_count_with_noun, format_share
from vnetbench.statements.check import StatementResult
from vnetbench.statements.statement import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    Statement,
    StatementEvidence,
    StatementPart,
    Verdict,
)
from vnetbench.statements.warm_up import TRIAL_SHARE_WITH_WARM_UP
from vnetbench.wording.estimate_text import find_metric, format_estimate, format_ratio, metric_noun
from vnetbench.wording.factor_text import treatment_phrase

_STYLE_BY_STATE = {SUPPORTED: "green", REFUTED: "red", INCONCLUSIVE: "dim"}
_SYMBOL_BY_STATE = {SUPPORTED: "+", REFUTED: "-", INCONCLUSIVE: "?"}
_MAX_EVIDENCE_LINES = 3
"""A part lists at most this many values, the deciding ones first. The JSON contains all of them."""
_MAX_TEXT_WIDTH = 110
_MIN_TEXT_WIDTH = 40


@dataclass(frozen=True)
class StatementsTable:
    """A rich renderable: a summary line, then each statement with its parts and their evidence."""

    results: Sequence[StatementResult]
    has_several_files: bool
    """True if each verdict has to name its results file."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, _MAX_TEXT_WIDTH)
        counts = Counter(result.state for result in self.results)
        states = ", ".join(f"{counts[state]} {state}" for state in _STYLE_BY_STATE)
        yield Text(f"{format_count_with_noun(len(self.results), 'published statement')}: {states}")
        for result in self.results:
            yield Text("")
            yield from _statement_lines(result, width, self.has_several_files)


def statements_table(results: Sequence[StatementResult], file_count: int) -> StatementsTable:
    """Return the table for the results of checking `file_count` files."""
    return StatementsTable(results, file_count > 1)


def evidence_text(evidence: StatementEvidence, varying: Sequence[str]) -> str:
    """Return one line: `MTU 1500: 16 streams relative to 8 streams, goodput ×0.81 [0.79, 0.83]`."""
    names = [name for name in varying if name in evidence.levels]
    treatment = f"{treatment_phrase(evidence.levels, names)}: " if names else ""
    note = f" ({evidence.note})" if evidence.note else ""
    return f"{treatment}{_evidence_value_text(evidence)}{note}"


def _evidence_value_text(evidence: StatementEvidence) -> str:
    value = evidence.value
    if isinstance(value, Ratio):
        level, base = (
            treatment_phrase(levels or {}, tuple(levels or {}))
            for levels in (evidence.differing_compared_levels, evidence.differing_base_levels)
        )
        return f"{level} relative to {base}, {metric_noun(evidence.metric)} ×{format_ratio(value)}"
    if evidence.metric == TRIAL_SHARE_WITH_WARM_UP:
        low, high = (format_share(end or 0.0) for end in (value.low, value.high))
        trials = format_count_with_noun(value.trial_count, "trial")
        return f"{format_share(value.value)} [{low}, {high}] of {trials}"
    scale = choose_scale(find_metric(evidence.metric).unit, value.value)
    text = format_estimate(value, evidence.metric, scale)
    return f"{metric_noun(evidence.metric)} {text} {scale.unit}".rstrip()


def _statement_lines(result: StatementResult, width: int, has_several_files: bool) -> Iterator[Text]:
    statement = result.statement
    head = Text(f"{statement.id}  ", style="bold")
    head.append(result.state, style=_STYLE_BY_STATE[result.state])
    yield head
    yield from _wrap_lines(f"{statement.condition}: {statement.statement}", width, 5)
    yield from _wrap_lines(_source_text(statement), width, 5, style="dim")
    for verdict in result.conclusive_or_all_verdicts:
        if has_several_files:
            yield from _wrap_lines(verdict.path, width, 5, style="bold")
        for part in verdict.parts:
            yield from _part_lines(part, verdict, width)
        if verdict.measured_values_next_to_reported and verdict.state != INCONCLUSIVE:
            yield from _reported_value_comparison_lines(statement, verdict, width)
    if result.state == INCONCLUSIVE:
        if statement.run:
            yield from _wrap_lines(f"To check it: vnetbench run {statement.run}", width, 5, hanging=7)
        if statement.uncheckable_part:
            yield from _wrap_lines(
                f"vnetbench cannot check {statement.uncheckable_part}", width, 5, hanging=7
            )


def _part_lines(part: StatementPart, verdict: Verdict, width: int) -> Iterator[Text]:
    if part.claim != verdict.statement.statement:
        text = f"{_SYMBOL_BY_STATE[part.state]} {part.claim}"
        yield from _wrap_lines(text, width, 5, hanging=7, style=_STYLE_BY_STATE[part.state])
    deciding_first = sorted(part.evidence, key=lambda each: each.state != part.state)
    for evidence in deciding_first[:_MAX_EVIDENCE_LINES]:
        yield from _wrap_lines(evidence_text(evidence, verdict.varying_factors_of_file), width, 7, hanging=9)
    hidden_count = len(part.evidence) - _MAX_EVIDENCE_LINES
    if hidden_count > 0:
        agreeing = sum(evidence.state == part.state for evidence in part.evidence)
        note = "" if part.state == INCONCLUSIVE else f" ({agreeing} of {len(part.evidence)} values agree)"
        yield from _wrap_lines(f"and {format_count_with_noun(hidden_count, 'more value')}{note}", width, 7)
    if part.missing:
        yield from _wrap_lines(f"Missing: {part.missing}", width, 7, hanging=9)


def _reported_value_comparison_lines(statement: Statement, verdict: Verdict, width: int) -> Iterator[Text]:
    """Yield the measured values next to the reported value, which comes from another machine."""
    value = f"{statement.reported_value} {statement.unit}".strip()
    prefix = (
        f"Reported for another machine and not checked: {value}. Measured here:" if value else "Measured:"
    )
    for evidence in verdict.measured_values_next_to_reported[:_MAX_EVIDENCE_LINES]:
        yield from _wrap_lines(
            f"{prefix} {evidence_text(evidence, verdict.varying_factors_of_file)}", width, 5, hanging=7
        )


def _source_text(statement: Statement) -> str:
    value = f"; {statement.reported_value} {statement.unit}" if statement.reported_value else ""
    return f"{statement.source}, {statement.subject}{value}"


def _wrap_lines(
    text: str, width: int, indent: int, hanging: int | None = None, style: str = ""
) -> Iterator[Text]:
    """Yield the wrapped text; `hanging` is the indent of the lines after the first."""
    lines = textwrap.wrap(
        make_printable(text),
        max(width, _MIN_TEXT_WIDTH),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if hanging is None else hanging),
        break_on_hyphens=False,
    )
    yield from (Text(line, style=style) for line in lines)
