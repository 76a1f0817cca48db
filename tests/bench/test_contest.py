"""How tools are compared: in turn, each at its best flags, and judged by the interval of the ratio."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping

from bench.contest import CALIBRATION_ROUNDS, Aim, Entrant, Figures, Measure, Row, Verdict, hold, judge
from bench.programs import RunFailed

RATE = Measure("rate", 1, aim=Aim(1.3))
ROUNDS = 7


def always(*values: float) -> Callable[[], Figures]:
    """A tool that gives these figures in turn, again and again."""
    turn = itertools.cycle(values)
    return lambda: {RATE.name: next(turn)}


def failing() -> Figures:
    raise RunFailed("no route to host")


def row(
    entrants: Iterable[Entrant], measures: tuple[Measure, ...] = (RATE,), most: float | None = None
) -> Row:
    def check(figures: Figures) -> str | None:
        return "too much" if most is not None and figures[RATE.name] > most else None

    return Row("row", "A row", measures, tuple(entrants), check)


def ours(run: Callable[[], Figures]) -> Entrant:
    return Entrant("ours", {"": run}, is_ours=True)


def peer(name: str, runs: Mapping[str, Callable[[], Figures]]) -> Entrant:
    return Entrant(name, runs)


def test_every_tool_runs_once_a_round_in_changing_order() -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[[], Figures]:
        return lambda: order.append(name) or {RATE.name: 1.0}  # type: ignore[func-returns-value]

    random.seed(3)
    hold(row([ours(noting("ours")), peer("a", {"": noting("a")}), peer("b", {"": noting("b")})]), ROUNDS)
    rounds = [tuple(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert all(sorted(r) == ["a", "b", "ours"] for r in rounds)
    assert len(set(rounds)) > 1


def test_a_peer_is_compared_at_its_best_flags() -> None:
    outcome = hold(row([ours(always(10)), peer("a", {"-slow": always(4), "-fast": always(6)})]), ROUNDS)
    (line,) = [line for line in outcome.lines if not line.is_ours]
    assert (line.flags, line.median("rate")) == ("-fast", 6)
    assert len(outcome.calibration["a"]["-slow"]) == CALIBRATION_ROUNDS


def test_one_slow_run_of_the_calibration_does_not_cost_a_peer_its_best_flags() -> None:
    outcome = hold(row([peer("a", {"-even": always(5), "-fast": always(1, 8)})]), ROUNDS)
    assert outcome.lines[0].flags == "-fast"


def test_flags_that_leave_the_comparison_are_taken_only_for_lack_of_others() -> None:
    tools = [
        peer("a", {"-wild": always(9), "-tame": always(5)}),
        peer("b", {"-wild": always(9), "-w": always(8)}),
    ]
    a, b = hold(row(tools, most=6), ROUNDS).lines
    assert (a.flags, a.out) == ("-tame", None)
    assert (b.flags, b.out) == ("-wild", "too much")


def test_the_aim_is_judged_against_the_best_peer_round_by_round() -> None:
    # Both are twice as fast in every second round: the ratio is the same in each.
    outcome = hold(
        row([ours(always(14, 28)), peer("a", {"": always(10, 20)}), peer("b", {"": always(9)})]), ROUNDS
    )
    (judged,) = judge(outcome)
    assert judged.best is not None and judged.best.tool == "a"
    assert judged.reached is not None and judged.reached.value == 1.4
    assert judged.verdict is Verdict.MET


def test_an_interval_on_both_sides_of_the_aim_is_told_from_one_that_is_on_one_side() -> None:
    def verdict(*values: float) -> Verdict:
        return judge(hold(row([ours(always(*values)), peer("a", {"": always(1)})]), ROUNDS))[0].verdict

    assert verdict(1.4) is Verdict.MET
    assert verdict(1.5, 1.1, 1.4) is Verdict.MET_BY_MEDIAN
    assert verdict(1.5, 1.1, 1.2) is Verdict.MISSED_BY_MEDIAN
    assert verdict(1.2) is Verdict.MISSED


def test_less_may_be_better_and_an_aim_may_be_a_figure() -> None:
    cost = Measure("rate", 2, higher_is_better=False, aim=Aim(0.5, of_best_peer=False))
    assert judge(hold(row([ours(always(0.4))], (cost,)), ROUNDS))[0].verdict is Verdict.MET
    assert judge(hold(row([ours(always(0.6))], (cost,)), ROUNDS))[0].verdict is Verdict.MISSED


def test_a_tool_that_fails_twice_is_out_and_named_and_the_others_go_on() -> None:
    outcome = hold(row([ours(always(2)), peer("a", {"-x": failing}), peer("b", {"": always(1)})]), ROUNDS)
    assert [line.tool for line in outcome.lines] == ["ours", "b"]
    assert outcome.remarks == ("a -x: no route to host",)


def test_a_single_failure_costs_nothing() -> None:
    tries = itertools.count()

    def flaky() -> Figures:
        return failing() if next(tries) == 0 else {RATE.name: 1.0}

    outcome = hold(row([peer("a", {"": flaky})]), ROUNDS)
    assert len(outcome.lines[0].figures["rate"]) == ROUNDS
    assert outcome.remarks == ()


def test_flags_that_fail_are_not_chosen() -> None:
    outcome = hold(row([peer("a", {"-x": failing, "-y": always(1), "-z": always(2)})]), ROUNDS)
    assert outcome.lines[0].flags == "-z"


def test_without_a_peer_there_is_no_verdict_on_a_ratio() -> None:
    assert judge(hold(row([ours(always(1)), peer("a", {"": failing})]), ROUNDS))[0].verdict is Verdict.NO_PEER


def test_what_leaves_the_comparison_itself_misses_its_aim() -> None:
    (judged,) = judge(hold(row([ours(always(9)), peer("a", {"": always(5)})], most=6), ROUNDS))
    assert judged.verdict is Verdict.MISSED
    assert judged.ours.out == "too much"
