"""Comparisons of tools: random order, best flags, and verdicts by the interval of the ratio."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping

from bench.comparison import (
    CALIBRATION_ROUNDS,
    Aim,
    ComparisonSpec,
    Competitor,
    Measure,
    RunValues,
    Verdict,
    evaluate_aims,
    run_comparison,
)
from bench.programs import RunFailed

RATE = Measure("rate", 1, aim=Aim(1.3))
ROUNDS = 7


def always(*values: float) -> Callable[[], RunValues]:
    """Return a run that provides these values in turn."""
    turn = itertools.cycle(values)
    return lambda: {RATE.name: next(turn)}


def failing() -> RunValues:
    raise RunFailed("no route to host")


def make_spec(
    competitors: Iterable[Competitor],
    measures: tuple[Measure, ...] = (RATE,),
    max_rate: float | None = None,
) -> ComparisonSpec:
    def check(values: RunValues) -> str | None:
        return "too much" if max_rate is not None and values[RATE.name] > max_rate else None

    return ComparisonSpec("name", "A title", measures, tuple(competitors), check)


def ours(run: Callable[[], RunValues]) -> Competitor:
    return Competitor("ours", {"": run}, is_ours=True)


def peer(name: str, runs: Mapping[str, Callable[[], RunValues]]) -> Competitor:
    return Competitor(name, runs)


def test_every_tool_runs_once_in_each_round_in_random_order() -> None:
    order: list[str] = []

    def record(name: str) -> Callable[[], RunValues]:
        return lambda: order.append(name) or {RATE.name: 1.0}  # type: ignore[func-returns-value]

    random.seed(3)
    run_comparison(
        make_spec([ours(record("ours")), peer("a", {"": record("a")}), peer("b", {"": record("b")})]), ROUNDS
    )
    rounds = [tuple(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert all(sorted(r) == ["a", "b", "ours"] for r in rounds)
    assert len(set(rounds)) > 1


def test_a_peer_uses_its_best_flags() -> None:
    result = run_comparison(
        make_spec([ours(always(10)), peer("a", {"-slow": always(4), "-fast": always(6)})]), ROUNDS
    )
    (peer_result,) = [each for each in result.results if not each.is_ours]
    assert (peer_result.flags, peer_result.median("rate")) == ("-fast", 6)
    assert len(result.calibration["a"]["-slow"]) == CALIBRATION_ROUNDS


def test_one_slow_calibration_run_does_not_change_the_best_flags() -> None:
    result = run_comparison(make_spec([peer("a", {"-even": always(5), "-fast": always(1, 8)})]), ROUNDS)
    assert result.results[0].flags == "-fast"


def test_excluded_flags_are_used_only_without_alternatives() -> None:
    tools = [
        peer("a", {"-wild": always(9), "-tame": always(5)}),
        peer("b", {"-wild": always(9), "-w": always(8)}),
    ]
    a, b = run_comparison(make_spec(tools, max_rate=6), ROUNDS).results
    assert (a.flags, a.exclusion) == ("-tame", None)
    assert (b.flags, b.exclusion) == ("-wild", "too much")


def test_an_aim_is_evaluated_against_the_best_peer_in_each_round() -> None:
    # Both are twice as fast in every second round: the ratio is the same in each.
    result = run_comparison(
        make_spec([ours(always(14, 28)), peer("a", {"": always(10, 20)}), peer("b", {"": always(9)})]), ROUNDS
    )
    (aim_result,) = evaluate_aims(result)
    assert aim_result.best_peer is not None and aim_result.best_peer.tool == "a"
    assert aim_result.estimate is not None and aim_result.estimate.value == 1.4
    assert aim_result.verdict is Verdict.MET


def test_an_interval_across_the_aim_is_met_or_missed_by_the_median_only() -> None:
    def verdict(*values: float) -> Verdict:
        return evaluate_aims(
            run_comparison(make_spec([ours(always(*values)), peer("a", {"": always(1)})]), ROUNDS)
        )[0].verdict

    assert verdict(1.4) is Verdict.MET
    assert verdict(1.5, 1.1, 1.4) is Verdict.MET_BY_MEDIAN
    assert verdict(1.5, 1.1, 1.2) is Verdict.MISSED_BY_MEDIAN
    assert verdict(1.2) is Verdict.MISSED


def test_lower_may_be_better_and_an_aim_may_be_absolute() -> None:
    cost = Measure("rate", 2, higher_is_better=False, aim=Aim(0.5, is_relative=False))
    assert (
        evaluate_aims(run_comparison(make_spec([ours(always(0.4))], (cost,)), ROUNDS))[0].verdict
        is Verdict.MET
    )
    assert (
        evaluate_aims(run_comparison(make_spec([ours(always(0.6))], (cost,)), ROUNDS))[0].verdict
        is Verdict.MISSED
    )


def test_a_tool_that_fails_twice_is_dropped_and_listed() -> None:
    result = run_comparison(
        make_spec([ours(always(2)), peer("a", {"-x": failing}), peer("b", {"": always(1)})]), ROUNDS
    )
    assert [each.tool for each in result.results] == ["ours", "b"]
    assert result.failures == ("a -x: no route to host",)


def test_a_single_failure_is_retried() -> None:
    tries = itertools.count()

    def flaky() -> RunValues:
        return failing() if next(tries) == 0 else {RATE.name: 1.0}

    result = run_comparison(make_spec([peer("a", {"": flaky})]), ROUNDS)
    assert len(result.results[0].values["rate"]) == ROUNDS
    assert result.failures == ()


def test_failing_flags_are_not_chosen() -> None:
    result = run_comparison(make_spec([peer("a", {"-x": failing, "-y": always(1), "-z": always(2)})]), ROUNDS)
    assert result.results[0].flags == "-z"


def test_without_a_peer_a_relative_aim_has_no_verdict() -> None:
    assert (
        evaluate_aims(run_comparison(make_spec([ours(always(1)), peer("a", {"": failing})]), ROUNDS))[
            0
        ].verdict
        is Verdict.NO_PEER
    )


def test_our_tool_misses_its_aim_if_it_is_excluded() -> None:
    (aim_result,) = evaluate_aims(
        run_comparison(make_spec([ours(always(9)), peer("a", {"": always(5)})], max_rate=6), ROUNDS)
    )
    assert aim_result.verdict is Verdict.MISSED
    assert aim_result.ours.exclusion == "too much"
