"""How sure a suspicion is, in words: the table in `certainty.toml`, and what takes a word away."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True)
class Step:
    """From `score` on `word` holds, and how often it was right."""

    word: str
    score: float
    right: int
    """Of the runs of the developing part whose first suspect had the word, how many had it rightly."""
    of: int


@lru_cache
def steps() -> tuple[Step, ...]:
    """The table, surest first."""
    table = tomllib.loads(files(__package__).joinpath("certainty.toml").read_text(encoding="utf-8"))
    return tuple(sorted((Step(**each) for each in table["steps"]), key=lambda step: -step.score))


def least_score() -> float:
    """Below it nothing is suspected: no name is better than a wrong one."""
    return steps()[-1].score


def word_for(score: float, doubts: int = 0) -> str:
    """The word for a score of `least_score` at least, as many steps lower as there are `doubts`."""
    words = [step.word for step in steps()]
    at = next(place for place, step in enumerate(steps()) if score >= step.score)
    return words[min(at + doubts, len(words) - 1)]


def less_sure(one: str, other: str) -> str:
    """The less sure of two words of the table."""
    words = [step.word for step in steps()]
    return max(one, other, key=words.index)
