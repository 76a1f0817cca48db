"""A change of the rules on runs with known causes, a few of each: what is named first stays right.

All of the corpus is judged by `make bench-explain`; these are the runs that `bench.corpus.test_data` took of it.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bench.corpus.scoring import score_run
from bench.corpus.store import LabelledRun, read_labelled_runs
from bench.corpus.test_data import PACKED_SUFFIX, TEST_CORPUS

pytestmark = pytest.mark.pure


def named_first(run: LabelledRun, folder: Path) -> str:
    unpacked = folder / run.path.name
    unpacked.write_bytes(gzip.decompress(run.path.with_name(run.path.name + PACKED_SUFFIX).read_bytes()))
    return score_run(LabelledRun(unpacked, run.label)).first_cause.cause


def words(run: LabelledRun) -> str:
    return f"{'+'.join(run.causes)} {run.label['topology']} {run.label['strength']}"


@pytest.mark.parametrize("run", read_labelled_runs(TEST_CORPUS), ids=words)
def test_the_injected_cause_is_the_first_candidate(run: LabelledRun, tmp_path: Path) -> None:
    assert named_first(run, tmp_path) in run.accepted_causes


def test_the_small_corpus_covers_most_causes() -> None:
    assert len({cause for run in read_labelled_runs(TEST_CORPUS) for cause in run.causes}) >= 25
