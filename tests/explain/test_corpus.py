"""A change of the rules on runs with known causes, a few of each: what is named first stays right.

All of the corpus is judged by `make bench-explain`; these are the runs that `bench.corpus.keep` took of it.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bench.corpus.keep import KEPT, PACKED
from bench.corpus.score import judge
from bench.corpus.store import Labelled, labelled

pytestmark = pytest.mark.pure


def named_first(run: Labelled, folder: Path) -> str:
    unpacked = folder / run.path.name
    unpacked.write_bytes(gzip.decompress(run.path.with_name(run.path.name + PACKED).read_bytes()))
    return judge(Labelled(unpacked, run.label)).first.cause


def words(run: Labelled) -> str:
    return f"{'+'.join(run.causes)} {run.label['topology']} {run.label['strength']}"


@pytest.mark.parametrize("run", labelled(KEPT), ids=words)
def test_the_injected_cause_is_the_first_candidate(run: Labelled, tmp_path: Path) -> None:
    assert named_first(run, tmp_path) in run.accepted


def test_the_small_corpus_covers_most_causes() -> None:
    assert len({cause for run in labelled(KEPT) for cause in run.causes}) >= 25
