"""Confidence words, and their table in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetbench.explain.confidence import confidence_word, load_confidence_levels, min_candidate_score
from vnetbench.explain.model import CONFIDENCE_WORDS

pytestmark = pytest.mark.pure

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"


def test_a_higher_score_never_gives_lower_confidence() -> None:
    words = [confidence_word(score / 100) for score in range(round(100 * min_candidate_score()), 101)]
    ranks = [CONFIDENCE_WORDS.index(word) for word in words]
    assert ranks == sorted(ranks, reverse=True)
    assert words[0] == "possible" and words[-1] == "very likely"


def test_each_demotion_lowers_the_confidence_down_to_the_last_word() -> None:
    assert [confidence_word(0.99, doubts) for doubts in range(4)] == [
        "very likely",
        "likely",
        "possible",
        "possible",
    ]


def test_every_confidence_word_has_an_accuracy() -> None:
    assert all(
        0 < step.correct_corpus_run_count <= step.corpus_run_count for step in load_confidence_levels()
    )


def test_the_documentation_has_the_confidence_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for step in load_confidence_levels():
        runs = f"{step.correct_corpus_run_count} of {step.corpus_run_count}"
        assert f"| {step.word} | {step.min_score:g} | {runs} |" in page
