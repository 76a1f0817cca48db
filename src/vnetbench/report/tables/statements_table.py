"""What campaigns say of published statements, for a terminal and for programs."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from vnetbench.estimate.model import Ratio
from vnetbench.printable import make_printable
from vnetbench.quantity import format_share, choose_scale
from vnetbench.statements.check import StatementResult
from vnetbench.statements.statement import CANNOT_TELL, REFUTED, SHOWN, StatementEvidence, StatementPart, Statement, Verdict
from vnetbench.statements.warm_up import WARM_UP
from vnetbench.wording.estimate_text import format_estimate, finite_or_none, find_metric, metric_noun, format_ratio
from vnetbench.wording.factor_text import pluralize, treatment_phrase

VERSION = 1
_STYLES = {SHOWN: "green", REFUTED: "red", CANNOT_TELL: "dim"}
_MARKS = {SHOWN: "+", REFUTED: "-", CANNOT_TELL: "?"}
_MAX_EVIDENCE_LINES = 3
"""So many figures of a part are listed, those first that decide it; the JSON has all."""
_MAX_TEXT_WIDTH = 110


@dataclass(frozen=True)
class StatementsTable:
    """A rich renderable: a line a state, then each statement with its parts and their figures."""

    checked: Sequence[StatementResult]
    several: bool
    """Whether there are several files, so that each verdict names its own."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, _MAX_TEXT_WIDTH)
        counts = Counter(each.state for each in self.checked)
        said = ", ".join(f"{counts[state]} {state}" for state in _STYLES)
        yield Text(f"{pluralize(len(self.checked), 'published statement')}: {said}")
        for each in self.checked:
            yield Text("")
            yield from _statement_lines(each, width, self.several)


def statements_table(checked: Sequence[StatementResult], files: int) -> StatementsTable:
    """Of so many results files."""
    return StatementsTable(checked, files > 1)


def statements_json(checked: Sequence[StatementResult]) -> str:
    """All of it for a program; docs/statements.md has the form."""
    form = {"version": VERSION, "statements": [_statement_json(each) for each in checked]}
    return json.dumps(form, indent=2, ensure_ascii=False, allow_nan=False)


def evidence_text(evidence: StatementEvidence, varying: Sequence[str]) -> str:
    """One figure in a line: `MTU 1500: 16 streams against 8 streams, goodput times 0.81 [0.79, 0.83]`."""
    names = [name for name in varying if name in evidence.levels]
    where = f"{treatment_phrase(evidence.levels, names)}: " if names else ""
    note = f" ({evidence.note})" if evidence.note else ""
    return f"{where}{_value_text(evidence)}{note}"


def _value_text(evidence: StatementEvidence) -> str:
    own = evidence.value
    if isinstance(own, Ratio):
        level, base = (
            treatment_phrase(each or {}, tuple(each or {})) for each in (evidence.level, evidence.base)
        )
        return f"{level} against {base}, {metric_noun(evidence.metric)} times {format_ratio(own)}"
    if evidence.metric == WARM_UP:
        low, high = (format_share(end or 0.0) for end in (own.low, own.high))
        return f"{format_share(own.value)} [{low}, {high}] of {pluralize(own.trials, 'trial')}"
    scale = choose_scale(find_metric(evidence.metric).unit, own.value)
    text = format_estimate(own, evidence.metric, scale)
    return f"{metric_noun(evidence.metric)} {text} {scale.unit}".rstrip()


def _statement_lines(each: StatementResult, width: int, several: bool) -> Iterator[Text]:
    statement = each.statement
    head = Text(f"{statement.id}  ", style="bold")
    head.append(each.state, style=_STYLES[each.state])
    yield head
    yield from _wrap_lines(f"{statement.condition}: {statement.statement}", width, 5)
    yield from _wrap_lines(_source_text(statement), width, 5, style="dim")
    for verdict in each.verdicts:
        if several:
            yield from _wrap_lines(verdict.path, width, 5, style="bold")
        for part in verdict.parts:
            yield from _part_lines(part, verdict, width)
        if verdict.reported_values and verdict.state != CANNOT_TELL:
            yield from _reported_value_lines(statement, verdict, width)
    if each.state == CANNOT_TELL:
        if statement.run:
            yield from _wrap_lines(f"to tell: vnetbench run {statement.run}", width, 5, further=7)
        if statement.limitation:
            yield from _wrap_lines(f"what no run can tell: {statement.limitation}", width, 5, further=7)


def _part_lines(part: StatementPart, verdict: Verdict, width: int) -> Iterator[Text]:
    if part.claim != verdict.statement.statement:
        text = f"{_MARKS[part.state]} {part.claim}"
        yield from _wrap_lines(text, width, 5, further=7, style=_STYLES[part.state])
    deciding = sorted(part.evidence, key=lambda each: each.state != part.state)
    for each in deciding[:_MAX_EVIDENCE_LINES]:
        yield from _wrap_lines(evidence_text(each, verdict.varying), width, 7, further=9)
    if len(deciding) > _MAX_EVIDENCE_LINES:
        agreeing = sum(each.state == part.state for each in deciding)
        so = "" if part.state == CANNOT_TELL else f"; {agreeing} of {len(deciding)} say so"
        yield from _wrap_lines(f"and {len(deciding) - _MAX_EVIDENCE_LINES} more{so}", width, 7)
    if part.missing:
        yield from _wrap_lines(f"missing: {part.missing}", width, 7, further=9)


def _reported_value_lines(statement: Statement, verdict: Verdict, width: int) -> Iterator[Text]:
    told = f"{statement.value} {statement.unit}".strip()
    before = f"not checked, another machine's: {told}; here" if told else "here"
    for each in verdict.reported_values[:_MAX_EVIDENCE_LINES]:
        yield from _wrap_lines(f"{before} {evidence_text(each, verdict.varying)}", width, 5, further=7)


def _source_text(statement: Statement) -> str:
    told = f"; {statement.value} {statement.unit}" if statement.value else ""
    return f"{statement.source}, {statement.subject}{told}"


def _wrap_lines(
    text: str, width: int, indent: int, further: int | None = None, style: str = ""
) -> Iterator[Text]:
    lines = textwrap.wrap(
        make_printable(text),
        max(width, 40),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if further is None else further),
        break_on_hyphens=False,
    )
    yield from (Text(line, style=style) for line in lines)


def _statement_json(each: StatementResult) -> dict[str, object]:
    own = each.statement
    return {
        "id": own.id,
        "source": own.source,
        "subject": own.subject,
        "condition": own.condition,
        "statement": own.statement,
        "value": own.value or None,
        "unit": own.unit or None,
        "state": each.state,
        "run": own.run or None,
        "short_of": own.limitation or None,
        "files": [
            {
                "path": verdict.path,
                "state": verdict.state,
                "parts": [
                    {
                        "what": part.claim,
                        "state": part.state,
                        "missing": part.missing or None,
                        "evidence": [_evidence_json(evidence) for evidence in part.evidence],
                    }
                    for part in verdict.parts
                ],
                "beside": [_evidence_json(evidence) for evidence in verdict.reported_values],
            }
            for verdict in each.verdicts
        ],
    }


def _evidence_json(evidence: StatementEvidence) -> dict[str, object]:
    own = evidence.value
    is_ratio = isinstance(own, Ratio)
    return {
        "levels": dict(evidence.levels),
        "metric": evidence.metric,
        "is_ratio": is_ratio,
        "value": finite_or_none(own.value),
        "low": own.low,
        "high": own.high,
        "confidence": own.confidence,
        "unit": "1" if is_ratio else find_metric(evidence.metric).unit,
        "modes": [] if isinstance(own, Ratio) else [asdict(mode) for mode in own.modes],
        "base": None if evidence.base is None else dict(evidence.base),
        "level": None if evidence.level is None else dict(evidence.level),
        "says": evidence.state or None,
        "note": evidence.note or None,
    }
