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

from vnetbench.explain.confidence import minimum_score, lower_confidence, confidence_word
from vnetbench.explain.model import EvidenceItem, CandidateCause
from vnetbench.explain.rules import Condition, Rule, Pattern

TrialEvidence = Mapping[str, float]
"""Of one trial: figure to value; a figure that is not known is absent."""

EXPLAINS_THRESHOLD = 0.5
"""A cause that scores so much accounts for what it explains."""
_EXPLAINED_SHARE = 0.9
"""A cause that is accounted for scores at most this share of the one that accounts for it."""
_MISSING_COUNTER_DEGREE = 0.03
"""A denial that cannot be looked at costs this share of what it would cost if it held."""
_AGREEMENT_SHARE = 0.7
"""Of the trials: where fewer score half of the median, they disagree."""
_TIE_MARGIN = 0.1
"""Two scores that differ by less are not told apart."""
_MAX_CANDIDATES = 3
"""So many suspects are named."""


@dataclass(frozen=True)
class CauseRanking:
    """What the rules say of one treatment."""

    candidates: tuple[CandidateCause, ...]
    """The likeliest first; none where no score is good enough."""
    unscored: Mapping[str, tuple[str, ...]]
    """Causes that could not be judged, and the figures that lack for it."""
    top_score: tuple[str, float] | None = None
    """The cause with the highest score and that score, good enough or not; None where none was judged."""


def rank_causes(trials: Sequence[TrialEvidence], rules: Mapping[str, Rule], workload: str) -> CauseRanking:
    """Suspects of a treatment from its trials' evidence, with certainty and exhibits, without commands."""
    asked = {name: rule for name, rule in rules.items() if rule.has_patterns and workload in rule.workloads}
    known = {name: score_trials(rule, trials) for name, rule in asked.items()}
    judged = {name: scores for name, scores in known.items() if 2 * len(scores) > len(trials)}
    unjudged = {name: _missing_metrics(asked[name], trials) for name in asked if name not in judged}
    scores = _apply_explanations({name: median(scores) for name, scores in judged.items()}, asked)
    ranked = sorted(scores, key=lambda name: -scores[name])
    suspected = [name for name in ranked if scores[name] >= minimum_score()][:_MAX_CANDIDATES]
    words = [confidence_word(scores[name], _count_demotions(name, ranked, scores, judged[name], asked)) for name in suspected]
    # What follows from two rivals has lost no step to a rival, and would be told as surer than they are.
    certainties = accumulate(words, lower_confidence)
    suspects = [
        CandidateCause(
            cause=asked[name].cause,
            score=scores[name],
            confidence=certainty,
            evidence=tuple(_evidence_items(asked[name], trials)),
        )
        for name, certainty in zip(suspected, certainties, strict=True)
    ]
    return CauseRanking(tuple(suspects), unjudged, (ranked[0], scores[ranked[0]]) if ranked else None)


def score_cause(rule: Rule, evidence: TrialEvidence) -> float | None:
    """How well one trial's evidence fits a cause, 0 to 1, by the sign that fits best; None where none of them
    can be judged."""
    known = [score for sign in rule.patterns if (score := score_pattern(sign, evidence)) is not None]
    return max(known, default=None)


def score_pattern(sign: Pattern, evidence: TrialEvidence) -> float | None:
    """The same of one sign; None where a figure that it needs is unknown.

    The weighted geometric mean of what the needs, and the strongest alternative, reach, so that one that does
    not hold at all acquits; less what each denial takes away.
    """
    parts = []
    for condition in sign.requires:
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
    for condition in sign.contradicts:
        degree = _degree(condition, evidence)
        score *= 1 - condition.weight * (_MISSING_COUNTER_DEGREE if degree is None else degree)
    return score


def score_trials(rule: Rule, trials: Sequence[TrialEvidence]) -> list[float]:
    """The scores of the trials in which the cause can be judged."""
    return [score for evidence in trials if (score := score_cause(rule, evidence)) is not None]


def _degree(condition: Condition, evidence: TrialEvidence) -> float | None:
    value = evidence.get(condition.metric)
    return None if value is None else condition.degree(value)


def _apply_explanations(scores: Mapping[str, float], rules: Mapping[str, Rule]) -> dict[str, float]:
    """The scores once each cause that accounts for others has put them behind itself."""
    found = dict(scores)
    by_what: dict[str, list[str]] = {name: [] for name in scores}
    for name in scores:
        for other in rules[name].explains:
            if other in by_what:
                by_what[other].append(name)
    for name in TopologicalSorter(by_what).static_order():
        for specific in by_what[name]:
            if found[specific] >= EXPLAINS_THRESHOLD:
                found[name] = min(found[name], _EXPLAINED_SHARE * found[specific])
    return found


def _count_demotions(
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
        and scores[other] > scores[name] - _TIE_MARGIN
        and other not in rules[name].explains
        and name not in rules[other].explains
    ]
    return int(agreeing < _AGREEMENT_SHARE) + int(bool(rivals))


def _evidence_items(rule: Rule, trials: Sequence[TrialEvidence]) -> Iterator[EvidenceItem]:
    """The figures that decided: of the sign that fits best all needs, the strongest alternative, and denials
    that hold somewhat."""
    sign = max(rule.patterns, key=lambda each: _median_pattern_score(each, trials))
    for condition in sign.requires:
        yield _evidence_item(condition, trials, "supports")
    alternatives = [
        (condition.weight * condition.degree(value), condition)
        for condition in sign.alternatives
        if (value := _median_value(condition.metric, trials)) is not None
    ]
    if alternatives:
        strongest = max(alternatives, key=lambda each: each[0])
        yield _evidence_item(strongest[1], trials, "supports")
    for condition in sign.contradicts:
        value = _median_value(condition.metric, trials)
        if value is not None and condition.degree(value) > 0:
            yield _evidence_item(condition, trials, "contradicts")


def _median_pattern_score(sign: Pattern, trials: Sequence[TrialEvidence]) -> float:
    """The median of its scores; -1 where it cannot be judged."""
    known = [score for each in trials if (score := score_pattern(sign, each)) is not None]
    return median(known) if known else -1.0


def _evidence_item(condition: Condition, trials: Sequence[TrialEvidence], speaks: str) -> EvidenceItem:
    values = [evidence[condition.metric] for evidence in trials if condition.metric in evidence]
    low, high, is_low = min(values), max(values), condition.full_at < condition.zero_at
    return EvidenceItem(condition.metric, median(values), low, high, condition.zero_at, speaks, is_low)


def _median_value(figure: str, trials: Sequence[TrialEvidence]) -> float | None:
    values = [evidence[figure] for evidence in trials if figure in evidence]
    return median(values) if values else None


def _missing_metrics(rule: Rule, trials: Sequence[TrialEvidence]) -> tuple[str, ...]:
    """The figures without which the cause cannot be judged, that most trials do not have."""
    most = {
        condition.metric
        for sign in rule.patterns
        for condition in (*sign.requires, *sign.alternatives)
        if 2 * sum(condition.metric in evidence for evidence in trials) <= len(trials)
    }
    return tuple(sorted(most))
