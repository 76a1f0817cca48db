"""How the lines of a run are told from what stands among them, and what of it may be kept."""

from __future__ import annotations

import math

import pytest

from vnetbench.importers.arithmetic import mean, narrower, over, times, total
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.run_lines import NOISE, own_line
from vnetbench.importers.runs import Figure, Interval, Run
from vnetbench.importers.validation import credible
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure


def begins(lines: Lines) -> bool:
    return (lines.peek() or "").startswith("begin")


def is_own(line: str) -> bool:
    return line.startswith("own")


def test_noise_between_two_lines_of_a_run_is_dropped() -> None:
    lines = Lines(["own 1", "", "a cron job says hello", "own 2"])

    assert [own_line(lines, begins, is_own) for _ in range(3)] == ["own 1", "own 2", None]


def test_nothing_is_taken_where_another_run_begins_first() -> None:
    lines = Lines(["noise", "begin", "own"])

    assert own_line(lines, begins, is_own) is None
    assert (lines.peek(), lines.number) == ("noise", 0)


def test_a_run_does_not_go_on_behind_much_that_is_not_its_own() -> None:
    lines = Lines([*["noise"] * (NOISE + 2), "own"])

    assert own_line(lines, begins, is_own) is None
    assert (lines.peek(), lines.number) == ("noise", 0)


def test_rounding_goes_along_through_sums_and_quotients() -> None:
    one, two = Figure(10, 9, 11), Figure(20, 19.5, 20.5)

    assert total([one, two]) == Figure(30, 28.5, 31.5)
    assert mean([one, two]) == Figure(15, 14.25, 15.75)
    assert times(one, 8) == Figure(80, 72, 88)
    assert over(two, one) == Figure(2, 19.5 / 11, 20.5 / 9)
    assert narrower(one, two) == two


def test_levels_that_a_factor_cannot_have_are_kept_as_they_were_told() -> None:
    run = credible(a_run(factors={"streams": 4, "request_size": 1, "message_size": 0}))

    assert run.factors == {"streams": 4}
    assert run.also == {"request_size, no level": "1", "message_size, no level": "0"}


def test_intervals_that_end_before_they_begin_are_left_out() -> None:
    good, bad = Interval(0, 1, {}), Interval(2, 1, {})

    assert credible(a_run(intervals=(good, bad))).intervals == (good,)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_figure_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no finite number"):
        credible(a_run(figures={"goodput_bps": Figure.exact(value)}))


def a_run(
    factors: dict[str, Level] | None = None,
    figures: dict[str, Figure] | None = None,
    intervals: tuple[Interval, ...] = (),
) -> Run:
    return Run("iperf 2", "", 1, 2, "tcp_stream", factors or {}, figures or {}, intervals)
