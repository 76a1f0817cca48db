"""Reports of comparisons: tables on the terminal, Markdown, and JSON with every run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.comparison import (
    AimResult,
    ComparisonResult,
    CompetitorResult,
    Measure,
    evaluate_aims,
    round_ratios,
)
from bench.machine import Machine
from vnetbench.estimate.model import Estimate

TABLE_LEGEND = (
    'Each cell shows the median (lowest to highest) of the rounds. The columns "vnetbench/tool" show the '
    "median [95 % interval] of the ratio of vnetbench's value to this tool's value in each round."
)


def print_comparison(console: Console, result: ComparisonResult) -> None:
    """Print the table of a comparison and the results of its aims."""
    console.print()
    console.print(f"{result.title} ({result.name}, {result.rounds} rounds)", style="bold", soft_wrap=True)
    headings, rows = _build_table(result)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for line in (*_aim_sentences(result), *result.failures):
        console.print(f"  {line}", soft_wrap=True, markup=False)


def format_markdown(
    machine: Machine, results: Sequence[ComparisonResult], missing: Sequence[str], seconds: int
) -> str:
    """Return all results as Markdown."""
    lines = ["# Comparison with peer tools", "", f"{TABLE_LEGEND} A run lasts {seconds} s.", ""]
    lines += _markdown_table(("fact", "value"), list(machine.facts.items()))
    lines += [f"- {line}" for line in missing]
    lines += ["", "## Aims", "", *_aims_table(results)]
    for result in results:
        lines += ["", f"## {result.title}", ""]
        lines += _markdown_table(*_build_table(result))
        lines += ["", *(f"- {line}" for line in (*_aim_sentences(result), *result.failures))]
    return "\n".join(lines) + "\n"


def save_results(
    folder: Path, machine: Machine, results: Sequence[ComparisonResult], missing: Sequence[str], seconds: int
) -> Path:
    """Write the results as Markdown and JSON, and return the path of the Markdown file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{machine.label}.md"
    path.write_text(format_markdown(machine, results, missing, seconds))
    comparisons = [_to_json(result) for result in results]
    document = {"machine": dict(machine.facts), "seconds": seconds, "rows": comparisons}
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    return path


def _to_json(result: ComparisonResult) -> dict[str, object]:
    return {
        "name": result.name,
        "title": result.title,
        "results": [asdict(competitor) for competitor in result.results],
        "calibration": result.calibration,
        "remarks": result.failures,
    }


def _build_table(result: ComparisonResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings and the rows of a comparison's table."""
    ours = next((competitor for competitor in result.results if competitor.is_ours), None)
    relative = [m for m in result.measures if m.aim is not None and m.aim.is_relative]
    headings = ["tool", *(m.name for m in result.measures), *(f"vnetbench/tool: {m.name}" for m in relative)]
    rows = []
    for competitor in result.results:
        values = [_format_range(competitor.values[m.name], m.decimals) for m in result.measures]
        ratios = [_ratio_cell(ours, competitor, m) for m in relative]
        rows.append((f"{competitor.tool} {competitor.flags}".strip(), *values, *ratios))
    return tuple(headings), rows


def _ratio_cell(ours: CompetitorResult | None, competitor: CompetitorResult, measure: Measure) -> str:
    if competitor.exclusion or ours is None or competitor is ours:
        return competitor.exclusion or ""
    return _format_interval(round_ratios(ours, competitor, measure.name), 2)


def _aim_sentences(result: ComparisonResult) -> Iterator[str]:
    for aim in evaluate_aims(result):
        yield f"{aim.measure.name}, {aim.ours.tool}: {_format_aim(aim.measure)}. {_format_aim_result(aim)}"
    if not any(competitor.is_ours for competitor in result.results):
        yield "vnetbench has no valid run in this comparison."


def _aims_table(results: Sequence[ComparisonResult]) -> list[str]:
    rows = []
    for result in results:
        for aim in evaluate_aims(result):
            title = result.title if aim.best_peer else f"{result.title}: {aim.ours.tool}"
            estimate = "" if aim.estimate is None else _format_interval(aim.estimate, 2)
            reached = aim.ours.exclusion or estimate
            best_peer = aim.best_peer.tool if aim.best_peer else ""
            aim_text = _format_aim(aim.measure)
            rows.append((title, aim.measure.name, aim_text, reached, best_peer, aim.verdict.value))
    return _markdown_table(("comparison", "measure", "aim", "reached", "best peer", "verdict"), rows)


def _format_aim(measure: Measure) -> str:
    assert measure.aim is not None
    bound = "at least" if measure.higher_is_better else "at most"
    unit = " × the best peer" if measure.aim.is_relative else ""
    return f"{bound} {measure.aim.limit:g}{unit}"


def _format_aim_result(aim: AimResult) -> str:
    if aim.estimate is None:
        return f"{aim.verdict.value}{f': {aim.ours.exclusion}' if aim.ours.exclusion else ''}"
    unit = f" × {aim.best_peer.tool}" if aim.best_peer else ""
    return f"{_format_interval(aim.estimate, 2)}{unit}: {aim.verdict.value}"


def _format_range(values: Sequence[float], decimals: int) -> str:
    low, middle, high = (f"{f(values):.{decimals}f}" for f in (min, statistics.median, max))
    return f"{middle} ({low} to {high})"


def _format_interval(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{decimals}f}"
    return f"{estimate.value:.{decimals}f} [{estimate.low:.{decimals}f} to {estimate.high:.{decimals}f}]"


def _markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
