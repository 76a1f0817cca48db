"""The words of certainty, and that the documentation tells the figures that the table has."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetbench.explain.confidence import confidence_levels, confidence_word, minimum_score
from vnetbench.explain.model import CONFIDENCE_WORDS

pytestmark = pytest.mark.pure

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"


def test_a_higher_score_is_never_a_weaker_word() -> None:
    words = [confidence_word(score / 100) for score in range(round(100 * minimum_score()), 101)]
    ranks = [CONFIDENCE_WORDS.index(word) for word in words]
    assert ranks == sorted(ranks, reverse=True)
    assert words[0] == "possible" and words[-1] == "very likely"


def test_each_doubt_takes_a_word_away_and_the_last_stays() -> None:
    assert [confidence_word(0.99, doubts) for doubts in range(4)] == [
        "very likely",
        "likely",
        "possible",
        "possible",
    ]


def test_no_word_stands_without_its_share() -> None:
    assert all(0 < step.correct <= step.total for step in confidence_levels())


def test_the_page_tells_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for step in confidence_levels():
        assert f"| {step.word} | {step.minimum_score:g} | {step.correct} of {step.total} |" in page
