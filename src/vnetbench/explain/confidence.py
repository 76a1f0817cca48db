"""How sure a suspicion is, in words: the table in `certainty.toml`, and what takes a word away."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True)
class ConfidenceLevel:
    """From `score` on `word` holds, and how often it was right."""

    word: str
    minimum_score: float
    correct: int
    """Of the runs of the developing part whose first suspect had the word, how many had it rightly."""
    total: int


@lru_cache
def confidence_levels() -> tuple[ConfidenceLevel, ...]:
    """The table, surest first."""
    table = tomllib.loads(files(__package__).joinpath("certainty.toml").read_text(encoding="utf-8"))
    return tuple(sorted((ConfidenceLevel(**each) for each in table["steps"]), key=lambda step: -step.minimum_score))


def minimum_score() -> float:
    """Below it nothing is suspected: no name is better than a wrong one."""
    return confidence_levels()[-1].minimum_score


def confidence_word(score: float, demotions: int = 0) -> str:
    """The word for a score of `least_score` at least, as many steps lower as there are `doubts`."""
    words = [step.word for step in confidence_levels()]
    at = next(place for place, step in enumerate(confidence_levels()) if score >= step.minimum_score)
    return words[min(at + demotions, len(words) - 1)]


def lower_confidence(one: str, other: str) -> str:
    """The less sure of two words of the table."""
    words = [step.word for step in confidence_levels()]
    return max(one, other, key=words.index)
