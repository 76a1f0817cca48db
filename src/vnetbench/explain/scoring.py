"""Score and rank the causes of a treatment by the rules in `causes/`.

Each trial gives a cause a score. The treatment's score is the median, so that one odd trial neither adds a
cause nor hides one. See docs/explain.md, "How causes are scored".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from statistics import median

from vnetbench.explain.anomalies import (
    find_abnormal_medians,
    select_unaccounted_anomalies,
    select_unexpected_anomalies,
)
from vnetbench.explain.confidence import (
    confidence_word,
    lower_of_confidence_words,
    min_candidate_score,
    steps_below_highest_confidence,
)
from vnetbench.explain.model import CandidateCause, Cause, EvidenceItem
from vnetbench.explain.rules import CauseRule, EvidenceCondition, EvidencePattern
from vnetbench.explain.waits import leaves_most_waiting_unexplained, load_waits

TrialEvidence = Mapping[str, float]
"""Evidence of one trial: metric to value. Unknown metrics are absent."""

MIN_SCORE_TO_EXPLAIN_OTHER_CAUSES = 0.5
"""Score from which a cause explains the less specific causes that its rule lists."""
_MAX_EXPLAINED_CAUSE_SCORE_SHARE = 0.9
"""An explained cause scores at most this share of the cause that explains it."""
_PENALTY_SHARE_WITHOUT_CONTRADICTING_COUNTER = 0.03
"""Share of the penalty that applies when a contradicting counter is missing."""
_MIN_SHARE_OF_AGREEING_TRIALS = 0.7
"""Trials agree if at least this share of them scores half of the median or more."""
_SCORE_TIE_MARGIN = 0.1
"""Two scores with a smaller difference are tied."""
_MAX_CANDIDATES = 3


@dataclass(frozen=True)
class CauseRanking:
    """The scores that the rules give for one treatment."""

    candidates: tuple[CandidateCause, ...]
    """Candidates above the minimum score, most likely first."""
    missing_metrics_by_cause: Mapping[str, tuple[str, ...]]
    """Causes without a score, and the metrics that they lack."""
    best_cause_and_score: tuple[str, float] | None = None
    """The cause with the highest score, even below the minimum, and its score; None if no cause has one."""


def rank_causes(
    trials: Sequence[TrialEvidence],
    rules: Mapping[str, CauseRule],
    workload: str,
    factors_set_by_study: Collection[str] = (),
) -> CauseRanking:
    """Rank the causes of a treatment from its trials' evidence; candidates have no commands yet."""
    # A rule's file lists its workloads by name, so that a cause needs no property of a workload.
    applicable = {
        name: rule
        for name, rule in rules.items()
        if rule.has_patterns
        and workload in rule.workloads
        and (
            not rule.applies_if_any_factor_set
            or set(rule.applies_if_any_factor_set) & set(factors_set_by_study)
        )
    }
    trial_scores = {name: score_cause_in_trials_with_data(rule, trials) for name, rule in applicable.items()}
    scored = {name: scores for name, scores in trial_scores.items() if 2 * len(scores) > len(trials)}
    unscored = {
        name: _mostly_missing_metrics(rule, trials) for name, rule in applicable.items() if name not in scored
    }
    scores = _reduce_explained_scores({name: median(each) for name, each in scored.items()}, applicable)
    ranked = sorted(scores, key=lambda name: -scores[name])
    names = [name for name in ranked if scores[name] >= min_candidate_score()][:_MAX_CANDIDATES]
    words = _confidence_words(
        names, ranked, scores, scored, trials, applicable, workload, factors_set_by_study
    )
    named = sorted(
        zip(names, words, strict=True),
        key=lambda each: _candidate_sort_key(each[0], each[1], applicable, workload),
    )
    candidates = [
        CandidateCause(
            cause=_cause_with_applicable_setting(applicable[name], trials),
            score=scores[name],
            confidence=confidence,
            evidence=tuple(_decisive_evidence_items(applicable[name], trials)),
        )
        for name, confidence in named
    ]
    return CauseRanking(tuple(candidates), unscored, (ranked[0], scores[ranked[0]]) if ranked else None)


def _confidence_words(
    names: Sequence[str],
    ranked: Sequence[str],
    scores: Mapping[str, float],
    trial_scores: Mapping[str, Sequence[float]],
    trials: Sequence[TrialEvidence],
    rules: Mapping[str, CauseRule],
    workload: str,
    factors_set_by_study: Collection[str],
) -> list[str]:
    """Return the confidence in each named cause: its score, less one step for each open alternative.

    A cause below two rivals is demoted by neither, and must not get more confidence than they have.
    """
    anomalies = find_abnormal_medians(trials, factors_set_by_study)
    # Lost datagrams and frames often follow from the limit, so there a fault is no open alternative.
    can_have_open_fault = workload in load_waits().workloads
    words: list[str] = []
    lowest = lowest_of_faults = confidence_word(1.0)
    for name in names:
        is_fault = rules[name].cause.is_fault
        # A fault that this cause explains is no alternative to it.
        has_fault = can_have_open_fault and any(
            rules[other].cause.is_fault and other not in rules[name].less_specific_causes for other in names
        )
        demotions = (
            _count_lost_confidence_steps(name, ranked, scores, trial_scores[name], rules)
            + leaves_most_waiting_unexplained(name, trials, workload)
            # Something unusual that a natural limit leaves unexplained may be the real cause, as may a fault.
            + (not is_fault and (has_fault or bool(select_unexpected_anomalies(anomalies, name))))
        )
        word = confidence_word(scores[name], demotions)
        if is_fault and select_unaccounted_anomalies(anomalies, name, rules[name].supporting_metrics):
            word = lower_of_confidence_words(word, confidence_word(1.0, demotions=1))
        word = lower_of_confidence_words(word, lowest_of_faults if is_fault else lowest)
        for other, word_of_other in zip(names, words, strict=False):
            if is_fault and not rules[other].cause.is_fault and name in rules[other].less_specific_causes:
                # The natural limit says more, so it stands before the fault that it explains.
                steps = steps_below_highest_confidence(word_of_other) + 1
                word = lower_of_confidence_words(word, confidence_word(1.0, demotions=steps))
        lowest = lower_of_confidence_words(lowest, word)
        lowest_of_faults = word if is_fault else lowest_of_faults
        words.append(word)
    return words


def _candidate_sort_key(
    name: str, confidence: str, rules: Mapping[str, CauseRule], workload: str
) -> tuple[int, bool]:
    """Return the sorting key: of two equally likely causes, a fault stands before a natural limit.

    Datagrams and frames wait for nothing. There the loss that is a fault often follows from the limit.
    """
    is_natural_limit = not rules[name].cause.is_fault
    return steps_below_highest_confidence(confidence), is_natural_limit and workload in load_waits().workloads


def score_cause(rule: CauseRule, evidence: TrialEvidence) -> float | None:
    """Return a cause's score in one trial, 0 to 1, by its best pattern; None if no pattern has a score."""
    scores = [score for pattern in rule.patterns if (score := score_pattern(pattern, evidence)) is not None]
    return max(scores, default=None)


def score_pattern(pattern: EvidencePattern, evidence: TrialEvidence) -> float | None:
    """Return a pattern's score in one trial, 0 to 1; None if a required metric is missing.

    The score is the weighted geometric mean of all requirements and the strongest alternative, reduced by
    each contradicting condition. A required condition that scores 0 rules the pattern out.
    """
    weighted_degrees = []
    for condition in pattern.requires:
        degree = _condition_degree(condition, evidence)
        if degree is None:
            return None
        weighted_degrees.append((condition.weight, degree))
    alternatives = [
        condition.weight * degree
        for condition in pattern.alternatives
        if (degree := _condition_degree(condition, evidence)) is not None
    ]
    if alternatives:
        weighted_degrees.append((1.0, max(alternatives)))
    elif pattern.alternatives:
        return None
    if not all(degree for _, degree in weighted_degrees):
        return 0.0
    total_weight = sum(weight for weight, _ in weighted_degrees)
    score = 1.0
    for weight, degree in weighted_degrees:
        score *= degree ** (weight / total_weight)
    for condition in pattern.contradicts:
        degree = _condition_degree(condition, evidence)
        score *= 1 - condition.weight * (
            _PENALTY_SHARE_WITHOUT_CONTRADICTING_COUNTER if degree is None else degree
        )
    return score


def score_cause_in_trials_with_data(rule: CauseRule, trials: Sequence[TrialEvidence]) -> list[float]:
    """Return the cause's score in each trial that has one."""
    return [score for evidence in trials if (score := score_cause(rule, evidence)) is not None]


def _condition_degree(condition: EvidenceCondition, evidence: TrialEvidence) -> float | None:
    value = evidence.get(condition.metric)
    return None if value is None else condition.fulfilment_degree(value)


def _reduce_explained_scores(scores: Mapping[str, float], rules: Mapping[str, CauseRule]) -> dict[str, float]:
    """Lower the score of each cause that a more specific cause explains."""
    lowered = dict(scores)
    explained_by: dict[str, list[str]] = {name: [] for name in scores}
    for name in scores:
        for other in rules[name].less_specific_causes:
            if other in explained_by:
                explained_by[other].append(name)
    for name in TopologicalSorter(explained_by).static_order():
        for specific in explained_by[name]:
            if lowered[specific] >= MIN_SCORE_TO_EXPLAIN_OTHER_CAUSES:
                lowered[name] = min(lowered[name], _MAX_EXPLAINED_CAUSE_SCORE_SHARE * lowered[specific])
    return lowered


def _count_lost_confidence_steps(
    name: str,
    ranked: Sequence[str],
    scores: Mapping[str, float],
    trial_scores: Sequence[float],
    rules: Mapping[str, CauseRule],
) -> int:
    """Return the confidence steps that a cause loses: one if trials disagree, one if another cause ties."""
    agreement = sum(score >= scores[name] / 2 for score in trial_scores) / len(trial_scores)
    rivals = [
        other
        for other in ranked
        if other != name
        and scores[other] > scores[name] - _SCORE_TIE_MARGIN
        and other not in rules[name].less_specific_causes
        and name not in rules[other].less_specific_causes
    ]
    return int(agreement < _MIN_SHARE_OF_AGREEING_TRIALS) + int(bool(rivals))


def _decisive_evidence_items(rule: CauseRule, trials: Sequence[TrialEvidence]) -> Iterator[EvidenceItem]:
    """Yield the decisive metrics of the best pattern.

    These are all requirements, the strongest alternative, and each contradicting condition that holds in
    part.
    """
    pattern = _best_pattern(rule, trials)
    for condition in pattern.requires:
        yield _evidence_item(condition, trials, "supports")
    alternatives = [
        (condition.weight * condition.fulfilment_degree(value), condition)
        for condition in pattern.alternatives
        if (value := _median_value(condition.metric, trials)) is not None
    ]
    if alternatives:
        _, strongest = max(alternatives, key=lambda each: each[0])
        yield _evidence_item(strongest, trials, "supports")
    for condition in pattern.contradicts:
        value = _median_value(condition.metric, trials)
        if value is not None and condition.fulfilment_degree(value) > 0:
            yield _evidence_item(condition, trials, "contradicts")


def _cause_with_applicable_setting(rule: CauseRule, trials: Sequence[TrialEvidence]) -> Cause:
    """Return the rule's cause, without its setting if that cannot remove what the best pattern shows."""
    if _best_pattern(rule, trials).setting_applies:
        return rule.cause
    return replace(rule.cause, experiment_levels={})


def _best_pattern(rule: CauseRule, trials: Sequence[TrialEvidence]) -> EvidencePattern:
    return max(rule.patterns, key=lambda each: _median_pattern_score_or_negative(each, trials))


def _median_pattern_score_or_negative(pattern: EvidencePattern, trials: Sequence[TrialEvidence]) -> float:
    """Return the median of the pattern's scores; -1 if it has none."""
    scores = [score for each in trials if (score := score_pattern(pattern, each)) is not None]
    return median(scores) if scores else -1.0


def _evidence_item(condition: EvidenceCondition, trials: Sequence[TrialEvidence], role: str) -> EvidenceItem:
    values = [evidence[condition.metric] for evidence in trials if condition.metric in evidence]
    return EvidenceItem(
        metric=condition.metric,
        value=median(values),
        low=min(values),
        high=max(values),
        threshold=condition.value_of_degree_0,
        role=role,
        applies_below_threshold=condition.value_of_degree_1 < condition.value_of_degree_0,
    )


def _median_value(metric: str, trials: Sequence[TrialEvidence]) -> float | None:
    values = [evidence[metric] for evidence in trials if metric in evidence]
    return median(values) if values else None


def _mostly_missing_metrics(rule: CauseRule, trials: Sequence[TrialEvidence]) -> tuple[str, ...]:
    """Return the rule's metrics that half of the trials or more lack."""
    missing = {
        condition.metric
        for pattern in rule.patterns
        for condition in (*pattern.requires, *pattern.alternatives)
        if 2 * sum(condition.metric in evidence for evidence in trials) <= len(trials)
    }
    return tuple(sorted(missing))
