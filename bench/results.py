"""The figures as a person reads them, on the terminal and as Markdown, and as JSON with every run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.comparison import AimResult, CompetitorResult, Measure, ComparisonResult, evaluate_aims, round_ratios
from bench.machine import Machine
from vnetbench.estimate.model import Estimate

HOW_TO_READ = (
    "Median (lowest to highest) of the rounds. Against it: vnetbench's figure divided by this tool's, round "
    "by round: median [95 % interval]."
)


def print_row(console: Console, outcome: ComparisonResult) -> None:
    """One row's table."""
    console.print()
    console.print(f"{outcome.title} ({outcome.name}, {outcome.rounds} rounds)", style="bold", soft_wrap=True)
    heads, rows = _table(outcome)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for line in (*_verdicts(outcome), *outcome.failures):
        console.print(f"  {line}", soft_wrap=True, markup=False)


def markdown(machine: Machine, outcomes: Sequence[ComparisonResult], missing: Sequence[str], seconds: int) -> str:
    """The whole result."""
    lines = ["# Side by side", "", f"{HOW_TO_READ} {seconds} s a run.", ""]
    lines += _markdown_table(("what", "found"), list(machine.facts.items()))
    lines += [f"- {line}" for line in missing]
    lines += ["", "## Aims", "", *_aims(outcomes)]
    for outcome in outcomes:
        lines += ["", f"## {outcome.title}", ""]
        lines += _markdown_table(*_table(outcome))
        lines += ["", *(f"- {line}" for line in (*_verdicts(outcome), *outcome.failures))]
    return "\n".join(lines) + "\n"


def save(
    folder: Path, machine: Machine, outcomes: Sequence[ComparisonResult], missing: Sequence[str], seconds: int
) -> Path:
    """Write the Markdown and, beside it, the JSON; returns the former's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{machine.label}.md"
    path.write_text(markdown(machine, outcomes, missing, seconds))
    raw = {"machine": dict(machine.facts), "seconds": seconds, "rows": [_raw(o) for o in outcomes]}
    path.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    return path


def _raw(outcome: ComparisonResult) -> dict[str, object]:
    return {
        "name": outcome.name,
        "title": outcome.title,
        "results": [asdict(line) for line in outcome.results],
        "calibration": outcome.calibration,
        "remarks": outcome.failures,
    }


def _table(outcome: ComparisonResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    ours = next((line for line in outcome.results if line.is_ours), None)
    compared = [m for m in outcome.measures if m.aim is not None and m.aim.is_relative]
    heads = ["tool", *(m.name for m in outcome.measures), *(f"against it: {m.name}" for m in compared)]
    rows = []
    for line in outcome.results:
        figures = [_spread(line.values[m.name], m.decimals) for m in outcome.measures]
        against = [_against(ours, line, m) for m in compared]
        rows.append((f"{line.tool} {line.flags}".strip(), *figures, *against))
    return tuple(heads), rows


def _against(ours: CompetitorResult | None, line: CompetitorResult, measure: Measure) -> str:
    if line.exclusion or ours is None or line is ours:
        return line.exclusion or ""
    return _interval(round_ratios(ours, line, measure.name), 2)


def _verdicts(outcome: ComparisonResult) -> Iterator[str]:
    for judged in evaluate_aims(outcome):
        yield f"{judged.measure.name}, {judged.ours.tool}: {_aim(judged.measure)}. {_found(judged)}"
    if not any(line.is_ours for line in outcome.results):
        yield "vnetbench gave no figure here"


def _aims(outcomes: Sequence[ComparisonResult]) -> list[str]:
    rows = []
    for outcome in outcomes:
        for judged in evaluate_aims(outcome):
            what = outcome.title if judged.best_peer else f"{outcome.title}: {judged.ours.tool}"
            reached = judged.ours.exclusion or ("" if judged.estimate is None else _interval(judged.estimate, 2))
            best = judged.best_peer.tool if judged.best_peer else ""
            rows.append(
                (what, judged.measure.name, _aim(judged.measure), reached, best, judged.verdict.value)
            )
    return _markdown_table(("what", "figure", "aim", "reached", "best peer", "verdict"), rows)


def _aim(measure: Measure) -> str:
    assert measure.aim is not None
    bound = "at least" if measure.higher_is_better else "at most"
    of = " × the best peer" if measure.aim.is_relative else ""
    return f"{bound} {measure.aim.limit:g}{of}"


def _found(judged: AimResult) -> str:
    if judged.estimate is None:
        return f"{judged.verdict.value}{f': {judged.ours.exclusion}' if judged.ours.exclusion else ''}"
    beside = f" × {judged.best_peer.tool}" if judged.best_peer else ""
    return f"{_interval(judged.estimate, 2)}{beside}: {judged.verdict.value}"


def _spread(values: Sequence[float], decimals: int) -> str:
    low, middle, high = (f"{f(values):.{decimals}f}" for f in (min, statistics.median, max))
    return f"{middle} ({low} to {high})"


def _interval(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{decimals}f}"
    return f"{estimate.value:.{decimals}f} [{estimate.low:.{decimals}f} to {estimate.high:.{decimals}f}]"


def _markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
