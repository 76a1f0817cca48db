"""Explanations of a few runs of each known cause name a correct cause first.

`make bench-explain` scores the whole corpus. `bench.corpus.test_data` selected these runs from it.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bench.corpus.scoring import score_run
from bench.corpus.store import LabelledRun, read_labelled_runs
from bench.corpus.test_data import PACKED_SUFFIX, TEST_CORPUS

pytestmark = pytest.mark.pure


def first_named_cause(run: LabelledRun, folder: Path) -> str:
    unpacked = folder / run.path.name
    unpacked.write_bytes(gzip.decompress(run.path.with_name(run.path.name + PACKED_SUFFIX).read_bytes()))
    return score_run(LabelledRun(unpacked, run.label)).first_cause.cause


def run_label(run: LabelledRun) -> str:
    return f"{'+'.join(run.causes)} {run.label['topology']} {run.label['strength']}"


@pytest.mark.parametrize("run", read_labelled_runs(TEST_CORPUS), ids=run_label)
def test_the_injected_cause_is_the_first_candidate(run: LabelledRun, tmp_path: Path) -> None:
    assert first_named_cause(run, tmp_path) in run.accepted_causes


def test_the_small_corpus_covers_most_causes() -> None:
    assert len({cause for run in read_labelled_runs(TEST_CORPUS) for cause in run.causes}) >= 25
