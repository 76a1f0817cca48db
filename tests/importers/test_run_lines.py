"""How the lines of a run are told from what stands among them, and what of it may be kept."""

from __future__ import annotations

import math

import pytest

from vnetbench.importers.arithmetic import mean_value, more_precise, divide, scale, sum_values
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.run_lines import MAX_FOREIGN_LINES, take_run_line
from vnetbench.importers.runs import ReportedValue, ReportInterval, Run
from vnetbench.importers.validation import validate_run
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure


def begins(lines: LogLines) -> bool:
    return (lines.peek() or "").startswith("begin")


def is_own(line: str) -> bool:
    return line.startswith("own")


def test_noise_between_two_lines_of_a_run_is_dropped() -> None:
    lines = LogLines(["own 1", "", "a cron job says hello", "own 2"])

    assert [take_run_line(lines, begins, is_own) for _ in range(3)] == ["own 1", "own 2", None]


def test_nothing_is_taken_where_another_run_begins_first() -> None:
    lines = LogLines(["noise", "begin", "own"])

    assert take_run_line(lines, begins, is_own) is None
    assert (lines.peek(), lines.number) == ("noise", 0)


def test_a_run_does_not_go_on_behind_much_that_is_not_its_own() -> None:
    lines = LogLines([*["noise"] * (MAX_FOREIGN_LINES + 2), "own"])

    assert take_run_line(lines, begins, is_own) is None
    assert (lines.peek(), lines.number) == ("noise", 0)


def test_rounding_goes_along_through_sums_and_quotients() -> None:
    one, two = ReportedValue(10, 9, 11), ReportedValue(20, 19.5, 20.5)

    assert sum_values([one, two]) == ReportedValue(30, 28.5, 31.5)
    assert mean_value([one, two]) == ReportedValue(15, 14.25, 15.75)
    assert scale(one, 8) == ReportedValue(80, 72, 88)
    assert divide(two, one) == ReportedValue(2, 19.5 / 11, 20.5 / 9)
    assert more_precise(one, two) == two


def test_levels_that_a_factor_cannot_have_are_kept_as_they_were_told() -> None:
    run = validate_run(a_run(factors={"streams": 4, "request_size": 1, "message_size": 0}))

    assert run.factors == {"streams": 4}
    assert run.other_results == {"request_size, no level": "1", "message_size, no level": "0"}


def test_intervals_that_end_before_they_begin_are_left_out() -> None:
    good, bad = ReportInterval(0, 1, {}), ReportInterval(2, 1, {})

    assert validate_run(a_run(intervals=(good, bad))).intervals == (good,)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_figure_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no finite number"):
        validate_run(a_run(figures={"goodput_bps": ReportedValue.exact(value)}))


def a_run(
    factors: dict[str, Level] | None = None,
    figures: dict[str, ReportedValue] | None = None,
    intervals: tuple[ReportInterval, ...] = (),
) -> Run:
    return Run("iperf 2", "", 1, 2, "tcp_stream", factors or {}, figures or {}, intervals)
