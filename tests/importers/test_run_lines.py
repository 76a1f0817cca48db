"""Pick the lines of a run from foreign ones, and validate the run."""

from __future__ import annotations

import math

import pytest

from vnetbench.importers.arithmetic import (
    choose_more_precise,
    divide_values,
    mean_value,
    scale_value,
    sum_values,
)
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.run_lines import MAX_CONSECUTIVE_FOREIGN_LINES, take_run_line
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.importers.validation import drop_invalid_levels_and_intervals
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure


def starts_run(lines: LogLines) -> bool:
    return (lines.peek_line() or "").startswith("begin")


def is_run_line(line: str) -> bool:
    return line.startswith("own")


def test_foreign_lines_within_a_run_are_dropped() -> None:
    lines = LogLines(["own 1", "", "a cron job says hello", "own 2"])

    assert [take_run_line(lines, starts_run, is_run_line) for _ in range(3)] == ["own 1", "own 2", None]


def test_no_line_is_taken_if_another_run_starts_first() -> None:
    lines = LogLines(["noise", "begin", "own"])

    assert take_run_line(lines, starts_run, is_run_line) is None
    assert (lines.peek_line(), lines.last_taken_number) == ("noise", 0)


def test_a_run_ends_at_many_foreign_lines() -> None:
    lines = LogLines([*["noise"] * (MAX_CONSECUTIVE_FOREIGN_LINES + 2), "own"])

    assert take_run_line(lines, starts_run, is_run_line) is None
    assert (lines.peek_line(), lines.last_taken_number) == ("noise", 0)


def test_rounding_propagates_through_sums_and_quotients() -> None:
    one, two = RoundedValue(10, 9, 11), RoundedValue(20, 19.5, 20.5)

    assert sum_values([one, two]) == RoundedValue(30, 28.5, 31.5)
    assert mean_value([one, two]) == RoundedValue(15, 14.25, 15.75)
    assert scale_value(one, 8) == RoundedValue(80, 72, 88)
    assert divide_values(two, one) == RoundedValue(2, 19.5 / 11, 20.5 / 9)
    assert choose_more_precise(one, two) == two


def test_invalid_levels_become_other_results() -> None:
    run = drop_invalid_levels_and_intervals(
        build_run(factors={"streams": 4, "request_size": 1, "message_size": 0})
    )

    assert run.factors == {"streams": 4}
    assert run.other_results == {
        "request_size (not a valid level)": "1",
        "message_size (not a valid level)": "0",
    }


def test_intervals_that_end_before_they_start_are_dropped() -> None:
    good, bad = ReportInterval(0, 1, {}), ReportInterval(2, 1, {})

    assert drop_invalid_levels_and_intervals(build_run(intervals=(good, bad))).intervals == (good,)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_value_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        drop_invalid_levels_and_intervals(build_run(metrics={"goodput_bps": RoundedValue.exact(value)}))


def build_run(
    factors: dict[str, Level] | None = None,
    metrics: dict[str, RoundedValue] | None = None,
    intervals: tuple[ReportInterval, ...] = (),
) -> Run:
    return Run("iperf 2", "", 1, 2, "tcp_stream", factors or {}, metrics or {}, intervals)
