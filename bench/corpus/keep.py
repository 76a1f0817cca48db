"""The small corpus of the tests: `python -m bench.corpus.keep` takes two runs of each cause.

They are of the part for developing: who mends a test would otherwise fit the rules to what is held out. Only
runs that are explained rightly are taken, so that a test which fails tells of a change of the rules. A cause
of which there is no such run is told.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from bench.corpus.score import Judged, judge
from bench.corpus.split import DEVELOPING
from bench.corpus.store import MANIFEST, Labelled, labelled
from bench.explain import CORPUS

KEPT = Path(__file__).parents[2] / "tests" / "data" / "results" / "corpus"
PACKED = ".gz"
MOST_BYTES = 6_000_000
RUNS_OF_A_CAUSE = 2


@click.command()
@click.option("--corpus", type=click.Path(file_okay=False, path_type=Path), default=CORPUS, show_default=True)
def main(corpus: Path) -> None:
    """Put a small corpus into the tests' data, in place of what is there."""
    size = 0
    KEPT.mkdir(parents=True, exist_ok=True)
    for old in KEPT.iterdir():
        old.unlink()
    runs = list(_chosen([judge(run) for run in labelled(corpus / DEVELOPING)]))
    for run in runs:
        packed = gzip.compress(run.path.read_bytes(), 9, mtime=0)
        (KEPT / f"{run.path.name}{PACKED}").write_bytes(packed)
        size += len(packed)
    (KEPT / MANIFEST).write_text("".join(json.dumps(run.label) + "\n" for run in runs))
    click.echo(f"{size / 1e6:.1f} MB in {KEPT}")
    if size > MOST_BYTES:
        raise SystemExit(f"that is more than {MOST_BYTES / 1e6:g} MB: keep fewer")


def _chosen(judged: Sequence[Judged]) -> Iterator[Labelled]:
    """Of each cause, or pair of them, the smallest files that are explained rightly."""
    right = sorted((each for each in judged if each.has(1)), key=lambda each: each.run.path.stat().st_size)
    for causes in sorted({each.run.causes for each in judged}):
        runs = [each.run for each in right if each.run.causes == causes][:RUNS_OF_A_CAUSE]
        if not runs:
            click.echo(f"no run of {' + '.join(causes)} is explained rightly")
        yield from runs


if __name__ == "__main__":
    main()
