"""Confidence in a candidate cause, in words: the table in `confidence.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True)
class ConfidenceLevel:
    """A word for confidence, and how often candidates with this word were right."""

    word: str
    min_score: float
    correct_corpus_run_count: int
    """Runs of the development corpus whose first candidate had this word and was right."""
    corpus_run_count: int
    """Runs of the development corpus whose first candidate had this word."""


@lru_cache
def load_confidence_levels() -> tuple[ConfidenceLevel, ...]:
    """Return the table, highest confidence first."""
    table = tomllib.loads(files(__package__).joinpath("confidence.toml").read_text(encoding="utf-8"))
    levels = (
        ConfidenceLevel(each["word"], each["minimum_score"], each["correct"], each["total"])
        for each in table["levels"]
    )
    return tuple(sorted(levels, key=lambda level: -level.min_score))


def min_candidate_score() -> float:
    """Return the score below which no cause is named: no name is better than a wrong one."""
    return load_confidence_levels()[-1].min_score


def confidence_word(score: float, demotions: int = 0) -> str:
    """Return the word for a score, lowered by one level per demotion.

    Args:
        score: at least `min_candidate_score()`.
        demotions: number of levels to go down; the lowest level is the limit.
    """
    words = [level.word for level in load_confidence_levels()]
    index = next(i for i, level in enumerate(load_confidence_levels()) if score >= level.min_score)
    return words[min(index + demotions, len(words) - 1)]


def steps_below_highest_confidence(word: str) -> int:
    """Return the position of a word, 0 for the highest confidence."""
    return [level.word for level in load_confidence_levels()].index(word)


def lower_of_confidence_words(one: str, other: str) -> str:
    """Return the word of lower confidence."""
    return max(one, other, key=steps_below_highest_confidence)
