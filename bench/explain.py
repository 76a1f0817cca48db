"""How right the explanations are on the corpus: `python -m bench.explain` reads its parts and judges."""

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

from bench.corpus.score import (
    AIMS,
    STRICTER,
    Figure,
    Judged,
    Share,
    confusion,
    is_clean,
    is_single_fault,
    judge,
    share,
)
from bench.corpus.split import PARTS
from bench.corpus.store import DISCARDED, Labelled, labelled, lines
from vnetbench.errors import BenchError

CORPUS = Path("out/corpus")
RESULTS = Path(__file__).parent / "results"
PAIRS: tuple[Figure, ...] = (
    ("either named first", lambda each: each.has(1)),
    ("both among the first two", lambda each: each.has_all(2)),
    ("both among the first three", lambda each: each.has_all(3)),
)


@click.command()
@click.argument("parts", metavar="[PART]...", nargs=-1, type=click.Choice(PARTS))
@click.option("--corpus", type=click.Path(file_okay=False, path_type=Path), default=CORPUS, show_default=True)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    help="Folder for Markdown and JSON; of all parts these go to bench/results, of one nowhere without it.",
)  # fmt: skip
def main(parts: tuple[str, ...], corpus: Path, output: Path | None) -> None:
    """Explain every run of the corpus, and say how often that is right."""
    console = Console(highlight=False)
    try:
        judged = {part: _judge_all(console, corpus / part) for part in parts or PARTS}
        discarded = lines(corpus / DISCARDED)
    except BenchError as error:
        click.echo(f"{error}", err=True)
        sys.exit(1)
    text = "\n".join(report(judged, discarded))
    console.print(text, markup=False, soft_wrap=True)
    if folder := output or (None if parts else RESULTS):
        console.print(f"\nwritten: {save(folder, text, judged)}", soft_wrap=True)


def _judge_all(console: Console, folder: Path) -> list[Judged]:
    runs = labelled(folder)
    if not runs:
        raise BenchError("there are no runs", where=str(folder), fix="make corpus makes them")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(
            track(pool.map(judge, runs, chunksize=4), folder.name, len(runs), console=console, transient=True)
        )


def report(
    judged: Mapping[str, Sequence[Judged]], discarded: Sequence[Mapping[str, object]] = ()
) -> Iterator[str]:
    """All that is told, as lines of Markdown that read on a terminal too; `discarded` has the labels of runs
    that were made and not kept."""
    yield "# Explanations of the corpus"
    for part, runs in judged.items():
        yield f"\n## {part}: {len(runs)} runs\n"
        yield from table(("figure", "aim", "reached [95 %]", "runs", "verdict"), _aims(runs))
        if clean := [each for each in runs if is_clean(each)]:
            yield f"\n{_told_further_down(clean)}"
        if gone := [each for each in discarded if each["part"] == part]:
            yield f"\n{_told_discarded(gone)}"
        if faults := [each for each in runs if is_single_fault(each)]:
            yield "\nOf these where something is wrong:\n"
            yield from _figures(faults, STRICTER)
        if pairs := [each for each in runs if len(each.run.causes) == 2]:
            yield "\nTwo causes at once:\n"
            yield from _figures(pairs, PAIRS)
        yield "\nBy cause:\n"
        yield from _by("cause", runs, lambda each: " + ".join(each.run.causes))
        yield "\nBy testbed:\n"
        yield from _by("testbed", runs, lambda each: str(each.run.label["topology"]))
        yield "\nWhat was put there (rows), and what was named first (columns):\n"
        yield from _matrix(runs)
        if wrong := [each for each in runs if not each.has(1)]:
            yield "\nNot named first:\n"
            yield from table(
                ("run", "put there", "testbed", "strength", "named"), [_miss(each) for each in wrong]
            )


def _told_further_down(clean: Sequence[Judged]) -> str:
    counts = Counter(
        f"{named.cause} ({named.certainty})" for each in clean for named in each.faults_further_down
    )
    of_each = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    found = sum(bool(each.faults_further_down) for each in clean)
    told = f"Of {len(clean)} runs where nothing is wrong {found} name a fault after the first name"
    return f"{told}: {of_each}." if of_each else f"{told}."


def _told_discarded(labels: Sequence[Mapping[str, object]]) -> str:
    counts = Counter(" + ".join(Labelled(Path(), label).causes) for label in labels)
    of_each = ", ".join(f"{cause} {count}" for cause, count in sorted(counts.items()))
    return f"Made and discarded, since what was put there did not show, or they failed: {of_each}."


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown whose columns are aligned."""
    lines = [heads, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]

    def aligned(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    yield aligned(heads)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from map(aligned, rows)


def _aims(runs: Sequence[Judged]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for aim in AIMS:
        found = aim.share(runs)
        bound = "at least" if aim.is_least else "under"
        rows.append((aim.name, f"{bound} {aim.limit:.0%}", _spell(found), f"{found.of}", aim.verdict(found)))
    return rows


def _figures(runs: Sequence[Judged], figures: Sequence[Figure]) -> Iterator[str]:
    rows = [(name, _spell(share(runs, counts)), f"{len(runs)}") for name, counts in figures]
    yield from table(("figure", "reached [95 %]", "runs"), rows)


def _by(what: str, runs: Sequence[Judged], key: Callable[[Judged], str]) -> Iterator[str]:
    groups: dict[str, list[Judged]] = {}
    for each in runs:
        groups.setdefault(key(each), []).append(each)
    rows = []
    for name, members in sorted(groups.items()):
        shares = [share(members, counts) for counts in _COLUMNS.values()]
        rows.append([name, f"{len(members)}", *map(_spell, shares)])
    yield from table((what, "runs", *_COLUMNS), rows)


_COLUMNS: dict[str, Callable[[Judged], bool]] = {
    "named first [95 %]": lambda each: each.has(1),
    "among the first two": lambda each: each.has(2),
    "by its own name among the first three": lambda each: each.has_all(3),
    "confidently wrong": lambda each: each.is_confidently_wrong,
}


def _matrix(runs: Sequence[Judged]) -> Iterator[str]:
    put, given, counts = confusion(runs)
    numbers = {name: f"{number}" for number, name in enumerate(given, start=1)}
    rows = [
        (
            f"{numbers.get(name, '')} {name}".strip(),
            *(f"{counts.get((name, other), '')}" or "." for other in given),
        )
        for name in put
    ]
    yield from table(("", *numbers.values()), rows)
    if others := [f"{numbers[name]} {name}" for name in given if name not in put]:
        yield f"\nColumns beyond the rows: {', '.join(others)}."


def _miss(each: Judged) -> tuple[str, ...]:
    label = each.run.label
    names = ", ".join(f"{named.cause} ({named.certainty})" for named in each.named[:3]) or "not explained"
    return (
        str(label["file"]),
        " + ".join(each.run.causes),
        str(label["topology"]),
        f"{label['strength']}: {label['says']}",
        names,
    )


def _spell(share: Share) -> str:
    low, high = share.interval()
    return f"{share.value:.1%} [{low:.1%} to {high:.1%}]" if share.of else "none"


def save(folder: Path, text: str, judged: Mapping[str, Sequence[Judged]]) -> Path:
    """Write what is told, and beside it a JSON of all runs: `named` has cause, certainty and whether it is a
    fault (which files of before 2026-11-22 do not have); returns the file of the text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M}-explain.md"
    path.write_text(text + "\n")
    raw = [
        {
            **each.run.label,
            "named": [[named.cause, named.certainty, named.is_fault] for named in each.named],
        }
        for runs in judged.values()
        for each in runs
    ]
    path.with_suffix(".json").write_text(a_line_each(raw))
    return path


def a_line_each(runs: Sequence[Mapping[str, object]]) -> str:
    """JSON, an array with a line for each run: so that two results can be compared line by line."""
    lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    main()
