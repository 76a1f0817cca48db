"""From the evidence of a treatment's trials to its suspects, ranked, by the rules in `causes/`.

A cause has a score in each trial, and the treatment's is their median: a trial that is unlike the others does
not name a cause, nor hide one. What the score is made of stands in docs/explain.md, "How causes are scored".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import accumulate
from statistics import median

from vnetbench.explain.certainty import least_score, less_sure, word_for
from vnetbench.explain.model import Exhibit, Suspect
from vnetbench.explain.rules import Condition, Rule, Sign

Evidence = Mapping[str, float]
"""Of one trial: figure to value; a figure that is not known is absent."""

EXPLAINS_FROM = 0.5
"""A cause that scores so much accounts for what it explains."""
_BEHIND = 0.9
"""A cause that is accounted for scores at most this share of the one that accounts for it."""
_UNKNOWN = 0.03
"""A denial that cannot be looked at costs this share of what it would cost if it held."""
_AGREEING = 0.7
"""Of the trials: where fewer score half of the median, they disagree."""
_CLOSE = 0.1
"""Two scores that differ by less are not told apart."""
_MOST = 3
"""So many suspects are named."""


@dataclass(frozen=True)
class Judgement:
    """What the rules say of one treatment."""

    suspects: tuple[Suspect, ...]
    """The likeliest first; none where no score is good enough."""
    unjudged: Mapping[str, tuple[str, ...]]
    """Causes that could not be judged, and the figures that lack for it."""
    best: tuple[str, float] | None = None
    """The cause with the highest score and that score, good enough or not; None where none was judged."""


def judge(trials: Sequence[Evidence], rules: Mapping[str, Rule], workload: str) -> Judgement:
    """Suspects of a treatment from its trials' evidence, with certainty and exhibits, without commands."""
    asked = {name: rule for name, rule in rules.items() if rule.is_judged and workload in rule.workloads}
    known = {name: scores_of(rule, trials) for name, rule in asked.items()}
    judged = {name: scores for name, scores in known.items() if 2 * len(scores) > len(trials)}
    unjudged = {name: _lacking(asked[name], trials) for name in asked if name not in judged}
    scores = _explained_away({name: median(scores) for name, scores in judged.items()}, asked)
    ranked = sorted(scores, key=lambda name: -scores[name])
    suspected = [name for name in ranked if scores[name] >= least_score()][:_MOST]
    words = [word_for(scores[name], _doubts(name, ranked, scores, judged[name], asked)) for name in suspected]
    # What follows from two rivals has lost no step to a rival, and would be told as surer than they are.
    certainties = accumulate(words, less_sure)
    suspects = [
        Suspect(
            cause=asked[name].cause,
            score=scores[name],
            certainty=certainty,
            exhibits=tuple(_exhibits(asked[name], trials)),
        )
        for name, certainty in zip(suspected, certainties, strict=True)
    ]
    return Judgement(tuple(suspects), unjudged, (ranked[0], scores[ranked[0]]) if ranked else None)


def score_of(rule: Rule, evidence: Evidence) -> float | None:
    """How well one trial's evidence fits a cause, 0 to 1, by the sign that fits best; None where none of them
    can be judged."""
    known = [score for sign in rule.signs if (score := score_of_sign(sign, evidence)) is not None]
    return max(known, default=None)


def score_of_sign(sign: Sign, evidence: Evidence) -> float | None:
    """The same of one sign; None where a figure that it needs is unknown.

    The weighted geometric mean of what the needs, and the strongest alternative, reach, so that one that does
    not hold at all acquits; less what each denial takes away.
    """
    parts = []
    for condition in sign.needs:
        degree = _degree(condition, evidence)
        if degree is None:
            return None
        parts.append((condition.weight, degree))
    others = [
        condition.weight * degree
        for condition in sign.alternatives
        if (degree := _degree(condition, evidence)) is not None
    ]
    if others:
        parts.append((1.0, max(others)))
    elif sign.alternatives:
        return None
    if not all(degree for _, degree in parts):
        return 0.0
    total = sum(weight for weight, _ in parts)
    score = 1.0
    for weight, degree in parts:
        score *= degree ** (weight / total)
    for condition in sign.denies:
        degree = _degree(condition, evidence)
        score *= 1 - condition.weight * (_UNKNOWN if degree is None else degree)
    return score


def scores_of(rule: Rule, trials: Sequence[Evidence]) -> list[float]:
    """The scores of the trials in which the cause can be judged."""
    return [score for evidence in trials if (score := score_of(rule, evidence)) is not None]


def _degree(condition: Condition, evidence: Evidence) -> float | None:
    value = evidence.get(condition.figure)
    return None if value is None else condition.degree(value)


def _explained_away(scores: Mapping[str, float], rules: Mapping[str, Rule]) -> dict[str, float]:
    """The scores once each cause that accounts for others has put them behind itself."""
    found = dict(scores)
    by_what: dict[str, list[str]] = {name: [] for name in scores}
    for name in scores:
        for other in rules[name].explains:
            if other in by_what:
                by_what[other].append(name)
    for name in TopologicalSorter(by_what).static_order():
        for specific in by_what[name]:
            if found[specific] >= EXPLAINS_FROM:
                found[name] = min(found[name], _BEHIND * found[specific])
    return found


def _doubts(
    name: str,
    ranked: Sequence[str],
    scores: Mapping[str, float],
    of_trials: Sequence[float],
    rules: Mapping[str, Rule],
) -> int:
    """How many steps of certainty are lost: by trials that disagree, by another cause that fits as well."""
    agreeing = sum(score >= scores[name] / 2 for score in of_trials) / len(of_trials)
    rivals = [
        other
        for other in ranked
        if other != name
        and scores[other] > scores[name] - _CLOSE
        and other not in rules[name].explains
        and name not in rules[other].explains
    ]
    return int(agreeing < _AGREEING) + int(bool(rivals))


def _exhibits(rule: Rule, trials: Sequence[Evidence]) -> Iterator[Exhibit]:
    """The figures that decided: of the sign that fits best all needs, the strongest alternative, and denials
    that hold somewhat."""
    sign = max(rule.signs, key=lambda each: _fit(each, trials))
    for condition in sign.needs:
        yield _exhibit(condition, trials, "for")
    alternatives = [
        (condition.weight * condition.degree(value), condition)
        for condition in sign.alternatives
        if (value := _median(condition.figure, trials)) is not None
    ]
    if alternatives:
        strongest = max(alternatives, key=lambda each: each[0])
        yield _exhibit(strongest[1], trials, "for")
    for condition in sign.denies:
        value = _median(condition.figure, trials)
        if value is not None and condition.degree(value) > 0:
            yield _exhibit(condition, trials, "against")


def _fit(sign: Sign, trials: Sequence[Evidence]) -> float:
    """The median of its scores; -1 where it cannot be judged."""
    known = [score for each in trials if (score := score_of_sign(sign, each)) is not None]
    return median(known) if known else -1.0


def _exhibit(condition: Condition, trials: Sequence[Evidence], speaks: str) -> Exhibit:
    values = [evidence[condition.figure] for evidence in trials if condition.figure in evidence]
    low, high, is_low = min(values), max(values), condition.full < condition.start
    return Exhibit(condition.figure, median(values), low, high, condition.start, speaks, is_low)


def _median(figure: str, trials: Sequence[Evidence]) -> float | None:
    values = [evidence[figure] for evidence in trials if figure in evidence]
    return median(values) if values else None


def _lacking(rule: Rule, trials: Sequence[Evidence]) -> tuple[str, ...]:
    """The figures without which the cause cannot be judged, that most trials do not have."""
    most = {
        condition.figure
        for sign in rule.signs
        for condition in (*sign.needs, *sign.alternatives)
        if 2 * sum(condition.figure in evidence for evidence in trials) <= len(trials)
    }
    return tuple(sorted(most))
