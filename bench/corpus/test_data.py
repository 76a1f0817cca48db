"""The small corpus of the tests: `python -m bench.corpus.test_data` copies two runs of each cause.

The runs belong to the development part, so that fixing a test does not fit the rules to held-out runs. Their
explanations are correct, so that a failing test shows a change of the rules. The command reports each cause
without such a run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from bench.corpus.scoring import ScoredRun, score_run
from bench.corpus.split import DEVELOPING
from bench.corpus.store import MANIFEST, LabelledRun, read_labelled_runs
from bench.explain import CORPUS

TEST_CORPUS = Path(__file__).parents[2] / "tests" / "data" / "results" / "corpus"
PACKED_SUFFIX = ".gz"
MAX_TEST_CORPUS_BYTES = 6_000_000
RUNS_PER_CAUSE = 2


@click.command()
@click.option("--corpus", type=click.Path(file_okay=False, path_type=Path), default=CORPUS, show_default=True)
def main(corpus: Path) -> None:
    """Replace the small corpus in the tests' data."""
    size = 0
    TEST_CORPUS.mkdir(parents=True, exist_ok=True)
    for old in TEST_CORPUS.iterdir():
        old.unlink()
    runs = list(_select_runs([score_run(run) for run in read_labelled_runs(corpus / DEVELOPING)]))
    for run in runs:
        packed = gzip.compress(run.path.read_bytes(), 9, mtime=0)
        (TEST_CORPUS / f"{run.path.name}{PACKED_SUFFIX}").write_bytes(packed)
        size += len(packed)
    (TEST_CORPUS / MANIFEST).write_text("".join(json.dumps(run.label) + "\n" for run in runs))
    click.echo(f"{size / 1e6:.1f} MB in {TEST_CORPUS}")
    if size > MAX_TEST_CORPUS_BYTES:
        raise SystemExit(
            f"The small corpus exceeds {MAX_TEST_CORPUS_BYTES / 1e6:g} MB. Reduce RUNS_PER_CAUSE."
        )


def _select_runs(scored_runs: Sequence[ScoredRun]) -> Iterator[LabelledRun]:
    """Return the smallest files with a correct explanation, for each cause or pair of causes."""
    correct = sorted(
        (each for each in scored_runs if each.names_accepted_cause(1)),
        key=lambda each: each.run.path.stat().st_size,
    )
    for causes in sorted({each.run.causes for each in scored_runs}):
        runs = [each.run for each in correct if each.run.causes == causes][:RUNS_PER_CAUSE]
        if not runs:
            click.echo(f"No run of {' + '.join(causes)} has a correct explanation.")
        yield from runs


if __name__ == "__main__":
    main()
