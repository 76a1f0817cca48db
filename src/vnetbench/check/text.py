"""The result of a check in a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vnetbench.check.ends import IPERF3_SCHEME, CheckedPath, End
from vnetbench.check.limits import FAILED_TRIALS, PathLimit
from vnetbench.check.measurements import NO_DIRECTION, Measurement
from vnetbench.check.parts import GOODPUT, NORMAL
from vnetbench.check.result import CheckResult
from vnetbench.check.value_text import format_cell
from vnetbench.quantity import format_exact_bit_rate
from vnetbench.report.tables.text_table import to_printable_text
from vnetbench.report.text.settings_text import SettingsText
from vnetbench.study.labs import NETNS
from vnetbench.wording.factor_text import capitalize_sentence

_INDENT = 2
_MAX_LIMITS_SHOWN = 4
_STYLE_BY_VERDICT = {"met": "green", "missed": "red", "undecided": "yellow"}


@dataclass(frozen=True)
class CheckText:
    """The result as a rich renderable."""

    result: CheckResult

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result = self.result
        yield to_printable_text(" ".join(result.verdict))
        yield Text("")
        if result.measurements:
            yield _measurement_table(result)
            yield Text("Medians of the trials ± the wider side of the 95 % interval; ± ?: too few trials.")
        yield from _missing_lines(result)
        yield from _section("What limits it", _limit_lines(result))
        yield from _section("Settings", iter([SettingsText(result.audit)]))
        if result.requirements:
            yield from _section("Requirements", _requirement_lines(result))
        for note in result.notes:
            yield to_printable_text(f"\n{note}")
        yield from _section("Next", _next_lines(result))


def check_command(path: CheckedPath, *options: str) -> str:
    """Return the command that checks this path."""
    ends = [_end_argument(end) for end in (path.first, path.second)]
    if path.is_own_lab:
        ends = [] if path.lab == NETNS else ["--lab", path.lab]
    return shlex.join(["vnetbench", "check", *ends, *options])


def _end_argument(end: End) -> str:
    prefix = IPERF3_SCHEME if end.access == "iperf3" else ""
    return f"{prefix}{end.destination}" if end.destination else end.access


def _measurement_table(result: CheckResult) -> Table:
    """Return a row for each value, with a column for each direction."""
    table = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    directions = ("forward", "reverse")
    table.add_column("Measurement", overflow="fold")
    for direction in directions:
        table.add_column(result.path.direction_name(direction), justify="right", overflow="fold")
    for label, row in measurement_rows(result.measurements):
        shared = row.get(NO_DIRECTION) or row.get("both")
        cells = [row.get(direction) for direction in directions]
        texts = [format_cell(each) if each else "" for each in cells]
        if shared is not None:
            texts = [format_cell(shared), "" if shared.direction == NO_DIRECTION else "(both loaded)"]
        table.add_row(Text(label), *(Text(text) for text in texts))
    return table


def measurement_rows(
    measurements: Sequence[Measurement],
) -> Iterator[tuple[str, dict[str, Measurement]]]:
    """Yield the label of each row and its measurements by direction."""
    rows: dict[str, dict[str, Measurement]] = {}
    for each in measurements:
        rows.setdefault(each.label, {})[each.direction] = each
    yield from rows.items()


def _missing_lines(result: CheckResult) -> Iterator[RenderableType]:
    by_reason: dict[str, list[str]] = {}
    for each in result.missing:
        by_reason.setdefault(each.reason, []).append(f"{each.label[:1].lower()}{each.label[1:]}")
    for reason, labels in by_reason.items():
        yield to_printable_text(f"Not measured: {'; '.join(labels)}. Reason: {reason}.")


def _section(title: str, lines: Iterator[RenderableType]) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold")
    for line in lines:
        yield Padding(line, (0, 0, 0, _INDENT))


def _limit_lines(result: CheckResult) -> Iterator[RenderableType]:
    if not result.limits:
        yield Text("Unknown, because no measurement finished.")
    for number, limit in enumerate(result.limits[:_MAX_LIMITS_SHOWN], start=1):
        yield to_printable_text(f"{number} {capitalize_sentence(limit.description)}{confidence_text(limit)}.")
        details = Table.grid(padding=(0, 1, 0, 0))
        for label, text in _limit_details(limit, result):
            details.add_row(Text(label), to_printable_text(text))
        yield Padding(details, (0, 0, 0, _INDENT))
    if len(result.limits) > _MAX_LIMITS_SHOWN:
        yield Text(f"and {len(result.limits) - _MAX_LIMITS_SHOWN} more in the JSON")


def confidence_text(limit: PathLimit) -> str:
    """Return the confidence in brackets, after a space; empty without a cause."""
    words = [limit.confidence] if limit.confidence else []
    if limit.cause != FAILED_TRIALS and not limit.is_fault and limit.confidence:
        words.append("normal at full speed")
    return f" ({', '.join(words)})" if words else ""


def _limit_details(limit: PathLimit, result: CheckResult) -> Iterator[tuple[str, str]]:
    if limit.evidence != limit.description:
        yield "Seen:", f"{limit.part}: {limit.evidence}"
    if limit.advice:
        yield "Fix:", limit.advice
    if limit.fix_command:
        yield "Command:", limit.fix_command
    if limit.can_be_tested:
        yield "Proof:", proof_command(limit, result)


def proof_command(limit: PathLimit, result: CheckResult) -> str:
    """Return the command that tests a limit by experiments."""
    if file := result.results_files.get(limit.part):
        return shlex.join(["vnetbench", "explain", file, "--prove"])
    # A name for each limit, so that all of these commands work in one folder. The check may miss a value and
    # exit with 1, so the explanation follows anyway.
    file = limit.cause if limit.part == GOODPUT else f"{limit.cause}.{limit.part}"
    kept = _keep_command(result, f"{limit.cause}.vnb")
    return f"{kept}; {shlex.join(['vnetbench', 'explain', f'{file}.vnb', '--prove'])}"


def _keep_command(result: CheckResult, output: str) -> str:
    """Return the command that repeats this check and keeps its results."""
    depth = [] if result.depth == NORMAL else [f"--{result.depth}"]
    rate = [] if result.max_rate_bps is None else ["--max-rate", format_exact_bit_rate(result.max_rate_bps)]
    overrides = [word for each in result.overrides for word in ("--set", each)]
    consent = ["--yes"] if result.has_consent else []
    return check_command(result.path, *depth, *rate, *overrides, *consent, "-o", output)


def _requirement_lines(result: CheckResult) -> Iterator[RenderableType]:
    table = Table.grid(padding=(0, 2, 0, 0))
    for each in result.requirements:
        verdict = Text(each.verdict, style=_STYLE_BY_VERDICT[each.verdict])
        table.add_row(to_printable_text(each.requirement.text), verdict, to_printable_text(each.reason))
    yield table


def _next_lines(result: CheckResult) -> Iterator[RenderableType]:
    files = [shlex.quote(file) for file in result.results_files.values()]
    if not files:
        yield to_printable_text(f"Keep the results:  {_keep_command(result, 'check.vnb')}")
        return
    yield to_printable_text(f"Explain:  vnetbench explain {files[0]}")
    yield to_printable_text(f"Report:   vnetbench report {' '.join(files)} -o check.html")
