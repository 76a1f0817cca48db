"""Scores of the explanations of the corpus: `python -m bench.explain [PART]...`."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from bench.corpus.scoring import (
    AIMS,
    STRICT_METRICS,
    Proportion,
    ScoredRun,
    ScoreMetric,
    count_confusions,
    count_runs,
    has_no_fault,
    has_single_fault,
    score_run,
)
from bench.corpus.split import PARTS
from bench.corpus.store import DISCARDED, LabelledRun, read_json_lines, read_labelled_runs
from vnetbench.errors import BenchError

CORPUS = Path("out/corpus")
RESULTS = Path(__file__).parent / "results"
PAIR_METRICS: tuple[ScoreMetric, ...] = (
    ("either named first", lambda each: each.names_accepted_cause(1)),
    ("both among the first two", lambda each: each.names_all_causes(2)),
    ("both among the first three", lambda each: each.names_all_causes(3)),
)


@click.command()
@click.argument("parts", metavar="[PART]...", nargs=-1, type=click.Choice(PARTS))
@click.option("--corpus", type=click.Path(file_okay=False, path_type=Path), default=CORPUS, show_default=True)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the Markdown and JSON results. Default: bench/results if you name no part; "
    "otherwise the results are only printed.",
)  # fmt: skip
def main(parts: tuple[str, ...], corpus: Path, output: Path | None) -> None:
    """Explain every run of the corpus and report how often the explanations are correct."""
    console = Console(highlight=False)
    try:
        scored_parts = {part: _score_part(console, corpus / part) for part in parts or PARTS}
        discarded = read_json_lines(corpus / DISCARDED)
    except BenchError as error:
        click.echo(f"{error}", err=True)
        sys.exit(1)
    text = "\n".join(format_report(scored_parts, discarded))
    console.print(text, markup=False, soft_wrap=True)
    if folder := output or (None if parts else RESULTS):
        console.print(f"\nResults: {save_results(folder, text, scored_parts)}", soft_wrap=True)


def _score_part(console: Console, folder: Path) -> list[ScoredRun]:
    runs = read_labelled_runs(folder)
    if not runs:
        raise BenchError("the corpus has no runs", where=str(folder), fix="run make corpus")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(
            track(
                pool.map(score_run, runs, chunksize=4),
                folder.name,
                len(runs),
                console=console,
                transient=True,
            )
        )


def format_report(
    scored_parts: Mapping[str, Sequence[ScoredRun]], discarded: Sequence[Mapping[str, object]] = ()
) -> Iterator[str]:
    """Return the lines of the report in Markdown.

    Args:
        scored_parts: The scored runs of each part.
        discarded: Labels of the runs that were discarded.
    """
    yield "# Explanations of the corpus"
    for part, runs in scored_parts.items():
        yield f"\n## {part}: {len(runs)} runs\n"
        yield from markdown_table(("metric", "aim", "reached [95 %]", "runs", "verdict"), _aims_rows(runs))
        if clean := [each for each in runs if has_no_fault(each)]:
            yield f"\n{_later_faults_sentence(clean)}"
        if discarded_labels := [each for each in discarded if each["part"] == part]:
            yield f"\n{_discarded_sentence(discarded_labels)}"
        if faults := [each for each in runs if has_single_fault(each)]:
            yield "\nRuns with one fault:\n"
            yield from _metrics_table(faults, STRICT_METRICS)
        if pairs := [each for each in runs if len(each.run.causes) == 2]:
            yield "\nRuns with two causes:\n"
            yield from _metrics_table(pairs, PAIR_METRICS)
        yield "\nBy cause:\n"
        yield from _group_table("cause", runs, lambda each: " + ".join(each.run.causes))
        yield "\nBy testbed:\n"
        yield from _group_table("testbed", runs, lambda each: str(each.run.label["topology"]))
        yield "\nProduced causes (rows) and causes named first (columns):\n"
        yield from _confusion_table(runs)
        if wrong := [each for each in runs if not each.names_accepted_cause(1)]:
            yield "\nRuns whose cause is not named first:\n"
            yield from markdown_table(
                ("run", "produced", "testbed", "strength", "named"), [_missed_row(each) for each in wrong]
            )


def _later_faults_sentence(clean: Sequence[ScoredRun]) -> str:
    counts = Counter(f"{named.cause} ({named.confidence})" for each in clean for named in each.later_faults)
    runs_with_faults = sum(bool(each.later_faults) for each in clean)
    sentence = f"{runs_with_faults} of {len(clean)} runs without a fault name a fault after the first cause"
    if not counts:
        return f"{sentence}."
    return f"{sentence}: {', '.join(f'{name} {count}' for name, count in counts.most_common())}."


def _discarded_sentence(labels: Sequence[Mapping[str, object]]) -> str:
    counts = Counter(" + ".join(LabelledRun(Path(), label).causes) for label in labels)
    counts_text = ", ".join(f"{cause} {count}" for cause, count in sorted(counts.items()))
    return f"Discarded runs, which failed or in which the cause had no effect: {counts_text}."


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a Markdown table with aligned columns."""
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]

    def format_line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    yield format_line(headings)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from map(format_line, rows)


def _aims_rows(runs: Sequence[ScoredRun]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for aim in AIMS:
        proportion = aim.measure(runs)
        limit = f"{'at least' if aim.is_minimum else 'under'} {aim.limit:.0%}"
        reached = _format_proportion(proportion)
        rows.append((aim.name, limit, reached, f"{proportion.total}", aim.verdict(proportion)))
    return rows


def _metrics_table(runs: Sequence[ScoredRun], metrics: Sequence[ScoreMetric]) -> Iterator[str]:
    rows = [(name, _format_proportion(count_runs(runs, is_hit)), f"{len(runs)}") for name, is_hit in metrics]
    yield from markdown_table(("metric", "reached [95 %]", "runs"), rows)


def _group_table(heading: str, runs: Sequence[ScoredRun], key: Callable[[ScoredRun], str]) -> Iterator[str]:
    groups: dict[str, list[ScoredRun]] = {}
    for each in runs:
        groups.setdefault(key(each), []).append(each)
    rows = []
    for name, members in sorted(groups.items()):
        proportions = [count_runs(members, is_hit) for is_hit in _GROUP_METRICS.values()]
        rows.append([name, f"{len(members)}", *map(_format_proportion, proportions)])
    yield from markdown_table((heading, "runs", *_GROUP_METRICS), rows)


_GROUP_METRICS: dict[str, Callable[[ScoredRun], bool]] = {
    "named first [95 %]": lambda each: each.names_accepted_cause(1),
    "among the first two": lambda each: each.names_accepted_cause(2),
    "by its own name among the first three": lambda each: each.names_all_causes(3),
    "confidently wrong": lambda each: each.is_confidently_wrong,
}


def _confusion_table(runs: Sequence[ScoredRun]) -> Iterator[str]:
    produced, named, counts = count_confusions(runs)
    numbers = {name: f"{number}" for number, name in enumerate(named, start=1)}
    rows = [
        (
            f"{numbers.get(name, '')} {name}".strip(),
            *(f"{counts.get((name, other), '')}" or "." for other in named),
        )
        for name in produced
    ]
    yield from markdown_table(("", *numbers.values()), rows)
    if others := [f"{numbers[name]} {name}" for name in named if name not in produced]:
        yield f"\nColumns without a row: {', '.join(others)}."


def _missed_row(each: ScoredRun) -> tuple[str, ...]:
    label = each.run.label
    names = ", ".join(f"{named.cause} ({named.confidence})" for named in each.named_causes[:3])
    return (
        str(label["file"]),
        " + ".join(each.run.causes),
        str(label["topology"]),
        f"{label['strength']}: {label['says']}",
        names or "not explained",
    )


def _format_proportion(proportion: Proportion) -> str:
    low, high = proportion.interval()
    return f"{proportion.ratio:.1%} [{low:.1%} to {high:.1%}]" if proportion.total else "none"


def save_results(folder: Path, text: str, scored_parts: Mapping[str, Sequence[ScoredRun]]) -> Path:
    """Write the report as Markdown and all runs as JSON, and return the path of the Markdown file.

    The key `named` of a run contains cause, confidence and whether the cause is a fault. Files from before
    2026-11-22 lack the last value.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M}-explain.md"
    path.write_text(text + "\n")
    runs = [
        {
            **each.run.label,
            "named": [[named.cause, named.confidence, named.is_fault] for named in each.named_causes],
        }
        for scored_runs in scored_parts.values()
        for each in scored_runs
    ]
    path.with_suffix(".json").write_text(format_json_lines(runs))
    return path


def format_json_lines(runs: Sequence[Mapping[str, object]]) -> str:
    """Return a JSON array with one line per run, so that a line diff compares two results."""
    lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    main()
