"""Scores of causes: with simple test rules, and properties of all rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vnetbench.explain.confidence import min_candidate_score
from vnetbench.explain.rules import EvidencePattern, load_rules, parse_rules
from vnetbench.explain.scoring import CauseRanking, rank_causes, score_cause, score_pattern

pytestmark = pytest.mark.pure

_ABOUT = 'description = "it is so"\nadvice = "Change it."\nsource = "made up"\n'

TEST_RULES = parse_rules(
    {
        "cpu.toml": f"""
[full]
{_ABOUT}
requires = [{{ metric = "load", from = 50, to = 100 }}]

[throttled]
{_ABOUT}
requires = [{{ metric = "load", from = 40, to = 60 }}]
any_of = [
    {{ metric = "stopped", from = 0, to = 10 }},
    {{ metric = "held", from = 0, to = 10, weight = 0.5 }},
]
contradicts = [{{ metric = "idle", from = 20, to = 60 }}]
explains = ["full"]

[unlike]
{_ABOUT}
workloads = ["tcp_rr"]
requires = [{{ metric = "load", from = 0, to = 1 }}]
"""
    }
)


def rank(*trials: Mapping[str, float], workload: str = "tcp_stream") -> CauseRanking:
    return rank_causes(trials, TEST_RULES, workload)


def names(ranking: CauseRanking) -> list[str]:
    return [candidate.cause.name for candidate in ranking.candidates]


def test_matching_evidence_names_the_cause_with_its_metrics() -> None:
    result = rank(*({"load": value} for value in (98.0, 99.0, 97.0)))
    (candidate,) = result.candidates
    assert candidate.cause.name == "full" and candidate.confidence == "very likely"
    (item,) = candidate.evidence
    assert (item.metric, item.value, item.low, item.high) == ("load", 98.0, 97.0, 99.0)
    assert item.threshold == 50 and item.role == "supports"


def test_evidence_without_a_match_names_no_cause() -> None:
    result = rank({"load": 55.0, "stopped": 0.0, "idle": 0.0})
    assert result.candidates == ()
    assert (
        result.best_cause_and_score is not None
        and result.best_cause_and_score[0] == "full"
        and result.best_cause_and_score[1] < min_candidate_score()
    )


def test_a_specific_cause_ranks_before_the_cause_that_it_explains() -> None:
    assert names(rank({"load": 99.0, "stopped": 9.0, "idle": 0.0})) == ["throttled", "full"]


def test_a_specific_cause_with_a_low_score_explains_nothing() -> None:
    assert names(rank({"load": 99.0, "stopped": 1.5, "idle": 0.0})) == ["full", "throttled"]


def test_one_odd_trial_neither_adds_nor_hides_a_cause() -> None:
    assert names(rank({"load": 99.0}, {"load": 10.0}, {"load": 98.0})) == ["full"]
    assert names(rank({"load": 10.0}, {"load": 99.0}, {"load": 20.0})) == []


def test_disagreement_between_trials_lowers_the_confidence() -> None:
    certain = rank(*[{"load": 99.0}] * 5)
    torn = rank(*[{"load": 99.0}] * 3, *[{"load": 10.0}] * 2)
    assert [each.candidates[0].confidence for each in (certain, torn)] == ["very likely", "likely"]


def test_a_tied_cause_lowers_the_confidence() -> None:
    rivals = parse_rules({"cpu.toml": "\n".join(
        f'[{name}]\n{_ABOUT}requires = [{{ metric = "load", from = 0, to = 1 }}]' for name in ("one", "other")
    )})  # fmt: skip
    assert {s.confidence for s in rank_causes([{"load": 1.0}], rivals, "tcp_stream").candidates} == {"likely"}


def test_no_candidate_has_more_confidence_than_those_before_it() -> None:
    needs = 'requires = [{ metric = "load", from = 0, to = 100 }]'
    table = "\n".join(f"[{name}]\n{_ABOUT}{needs}\n" for name in ("small", "waits", "full"))
    both = parse_rules({"cpu.toml": table.replace(needs, f'{needs}\nexplains = ["full"]', 2)})
    result = rank_causes([{"load": 100.0}], both, "tcp_stream").candidates
    # The first two are rivals. The third one, which both explain, has no rival.
    assert [(each.cause.name, each.confidence) for each in result] == [
        ("small", "likely"), ("waits", "likely"), ("full", "likely"),
    ]  # fmt: skip


def test_of_two_causes_with_equal_confidence_the_fault_stands_before_the_natural_limit() -> None:
    table = "".join(
        f'[{name}]\n{_ABOUT}is_fault = {is_fault}\nrequires = [{{ metric = "{name}", from = 0, to = 100 }}]\n'
        for name, is_fault in (("full", "false"), ("others", "true"))
    )
    both = parse_rules({"cpu.toml": table})

    def ranked(full: float, others: float) -> list[tuple[str, str]]:
        found = rank_causes([{"full": full, "others": others}], both, "tcp_stream").candidates
        return [(each.cause.name, each.confidence) for each in found]

    assert ranked(50, 45) == [("others", "possible"), ("full", "possible")]
    assert ranked(95, 40) == [("full", "likely"), ("others", "possible")]


def test_a_fault_stands_before_a_natural_limit_that_an_anomaly_lowers() -> None:
    table = "".join(
        f'[{name}]\n{_ABOUT}is_fault = {is_fault}\nrequires = [{{ metric = "{name}", from = 0, to = 100 }}]\n'
        for name, is_fault in (("full", "false"), ("others", "true"))
    )
    evidence = {"full": 100.0, "others": 86.0, "programs_time_percent": 40.0}
    found = rank_causes([evidence], parse_rules({"cpu.toml": table}), "tcp_stream").candidates
    assert [(each.cause.name, each.confidence) for each in found] == [
        ("others", "likely"), ("full", "likely"),
    ]  # fmt: skip


def test_unscored_causes_are_listed_with_missing_metrics() -> None:
    result = rank({"load": 99.0})
    assert result.missing_metrics_by_cause == {"throttled": ("held", "stopped")}
    assert names(result) == ["full"]


def test_one_known_alternative_is_enough_for_a_score() -> None:
    assert "throttled" in names(rank({"load": 99.0, "stopped": 9.0, "idle": 0.0}))


def test_a_metric_that_most_trials_lack_leaves_a_cause_unscored() -> None:
    assert rank({"load": 99.0}, {}, {}).missing_metrics_by_cause["full"] == ("load",)


def test_without_evidence_there_are_no_candidates() -> None:
    assert rank({}, {}) == CauseRanking(
        (), {"full": ("load",), "throttled": ("held", "load", "stopped")}, None
    )


def test_a_cause_of_another_workload_is_ignored() -> None:
    assert (
        "unlike" not in rank({}).missing_metrics_by_cause
        and "unlike" in rank({}, workload="tcp_rr").missing_metrics_by_cause
    )


def test_contradicting_evidence_counts_and_is_listed() -> None:
    throttled = next(
        each
        for each in rank({"load": 60.0, "stopped": 10.0, "idle": 30.0}).candidates
        if each.cause.name == "throttled"
    )
    assert [(each.metric, each.role) for each in throttled.evidence] == [
        ("load", "supports"), ("stopped", "supports"), ("idle", "contradicts"),
    ]  # fmt: skip
    assert throttled.score == pytest.approx(0.75)


def test_the_best_pattern_counts_and_provides_the_evidence() -> None:
    two = parse_rules(
        {
            "cpu.toml": f"""
[stopped]
{_ABOUT}
[[stopped.patterns]]
requires = [{{ metric = "reported", from = 0, to = 10 }}]

[[stopped.patterns]]
requires = [{{ metric = "waits", from = 0, to = 50 }}]
contradicts = [{{ metric = "no", from = 0, to = 9 }}]
"""
        }
    )
    (by_figure,) = rank_causes([{"reported": 9, "waits": 0, "no": 0}], two, "tcp_stream").candidates
    (by_other,) = rank_causes([{"reported": 0, "waits": 40, "no": 0}], two, "tcp_stream").candidates
    (alone,) = rank_causes([{"waits": 40, "no": 0}], two, "tcp_stream").candidates
    assert [each.evidence[0].metric for each in (by_figure, by_other, alone)] == [
        "reported",
        "waits",
        "waits",
    ]
    assert [each.score for each in (by_figure, by_other, alone)] == pytest.approx([0.9, 0.8, 0.8])


def test_a_missing_contradicting_metric_costs_a_little() -> None:
    rule = TEST_RULES["throttled"]
    known, missing = (score_cause(rule, {"load": 99, "stopped": 10, **more}) for more in ({"idle": 0}, {}))
    assert known == 1 and missing == pytest.approx(0.97)


def test_a_requirement_with_less_weight_counts_less() -> None:
    rule = parse_rules(
        {
            "cpu.toml": f"""
[full]
{_ABOUT}
requires = [
    {{ metric = "load", from = 0, to = 100 }},
    {{ metric = "heat", from = 0, to = 100, weight = 0.5 }},
]
"""
        }
    )["full"]
    assert score_cause(rule, {"load": 50, "heat": 100}) == pytest.approx(0.5 ** (2 / 3))
    assert score_cause(rule, {"load": 100, "heat": 50}) == pytest.approx(0.5 ** (1 / 3))


def test_an_alternative_contributes_at_most_its_weight() -> None:
    score = score_cause(TEST_RULES["throttled"], {"load": 60, "held": 10, "idle": 0})
    assert score == pytest.approx(0.5**0.5)


def test_a_cause_and_the_cause_that_it_explains_are_not_rivals() -> None:
    specific, general = rank({"load": 99.0, "stopped": 8.0, "idle": 0.0}).candidates
    assert general.score > specific.score - 0.1
    assert (specific.confidence, general.confidence) == ("very likely", "likely")


def test_at_most_three_candidates_are_named() -> None:
    many = parse_rules({"cpu.toml": "\n".join(
        f'[{name}]\n{_ABOUT}requires = [{{ metric = "load", from = 0, to = 1 }}]' for name in "abcd"
    )})  # fmt: skip
    assert names(rank_causes([{"load": 1.0}], many, "tcp_stream")) == ["a", "b", "c"]


def test_evidence_that_supports_when_low_is_marked() -> None:
    low = parse_rules({"cpu.toml": f'[full]\n{_ABOUT}requires = [{{ metric = "idle", from = 50, to = 0 }}]'})
    (item,) = rank_causes([{"idle": 1.0}], low, "tcp_stream").candidates[0].evidence
    (rising,) = rank({"load": 99.0}).candidates[0].evidence
    assert item.applies_below_threshold and not rising.applies_below_threshold


FIELDS = ("requires", "alternatives", "contradicts")
PATTERNS = [(name, index) for name, rule in load_rules().items() for index in range(len(rule.patterns))]
CONDITIONS = [
    (name, pattern_index, field, condition_index)
    for name, pattern_index in PATTERNS
    for field in FIELDS
    for condition_index in range(len(getattr(load_rules()[name].patterns[pattern_index], field)))
]
MAX_CONDITIONS = max(len(load_rules()[name].patterns[index].conditions) for name, index in PATTERNS)
DEGREES = st.lists(st.floats(0, 1), min_size=MAX_CONDITIONS, max_size=MAX_CONDITIONS)


def degrees_by_metric(pattern: EvidencePattern, degrees: Sequence[float]) -> dict[str, float]:
    return {c.metric: degree for c, degree in zip(pattern.conditions, degrees, strict=False)}


def evidence_at(pattern: EvidencePattern, degrees: Mapping[str, float]) -> dict[str, float]:
    """Return evidence with each condition's metric at this position of its ramp, 0 to 1."""
    return {
        condition.metric: condition.value_of_degree_0
        + degrees[condition.metric] * (condition.value_of_degree_1 - condition.value_of_degree_0)
        for condition in pattern.conditions
    }


@pytest.mark.parametrize(("name", "pattern_index", "field", "condition_index"), CONDITIONS)
@settings(max_examples=15)
@given(degrees=DEGREES, less=st.floats(0, 1), more=st.floats(0, 1))
def test_the_score_is_monotonic_in_each_condition(
    name: str,
    pattern_index: int,
    field: str,
    condition_index: int,
    degrees: list[float],
    less: float,
    more: float,
) -> None:
    pattern = load_rules()[name].patterns[pattern_index]
    metric = getattr(pattern, field)[condition_index].metric
    low, high = (
        score_pattern(pattern, evidence_at(pattern, {**degrees_by_metric(pattern, degrees), metric: each}))
        for each in sorted((less, more))
    )
    assert low is not None and high is not None
    assert (high <= low + 1e-12) if field == "contradicts" else (high >= low - 1e-12)


@pytest.mark.parametrize(("name", "pattern_index", "field", "condition_index"), CONDITIONS)
@settings(max_examples=15)
@given(degrees=DEGREES)
def test_a_missing_metric_never_scores_above_its_best_value(
    name: str, pattern_index: int, field: str, condition_index: int, degrees: list[float]
) -> None:
    pattern = load_rules()[name].patterns[pattern_index]
    metric = getattr(pattern, field)[condition_index].metric
    drawn = degrees_by_metric(pattern, degrees)
    favourable = {**drawn, metric: 0.0 if field == "contradicts" else 1.0}
    best = score_pattern(pattern, evidence_at(pattern, favourable))
    known = {each: value for each, value in evidence_at(pattern, drawn).items() if each != metric}
    without = score_pattern(pattern, known)
    assert best is not None
    assert without is None or without <= best + 1e-12


@pytest.mark.parametrize(("name", "index"), PATTERNS)
def test_each_pattern_scores_fully_at_the_ends_of_its_ramps_and_0_at_their_starts(
    name: str, index: int
) -> None:
    pattern = load_rules()[name].patterns[index]
    met = dict.fromkeys((c.metric for c in pattern.contradicts), 0.0) | dict.fromkeys(
        (c.metric for c in (*pattern.requires, *pattern.alternatives)), 1.0
    )
    assert score_pattern(pattern, evidence_at(pattern, met)) == pytest.approx(
        max((c.weight for c in pattern.alternatives), default=1.0), abs=0.2
    )
    for required in pattern.requires:
        assert score_pattern(pattern, evidence_at(pattern, {**met, required.metric: 0.0})) == 0
    if pattern.alternatives:
        none = dict.fromkeys((c.metric for c in pattern.alternatives), 0.0)
        assert score_pattern(pattern, evidence_at(pattern, {**met, **none})) == 0
    for condition in pattern.contradicts:
        contradicted = score_pattern(pattern, evidence_at(pattern, {**met, condition.metric: 1.0}))
        whole = score_pattern(pattern, evidence_at(pattern, met))
        assert whole is not None and contradicted == pytest.approx((1 - condition.weight) * whole)
