"""Check that a run can stand in a results file: its levels are valid and its numbers are finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from vnetbench.errors import BenchError
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.study.factors.registry import check_factor_workload, format_level, parse_level
from vnetbench.study.model import Level


def drop_invalid_levels_and_intervals(run: Run) -> Run:
    """Return the run without invalid levels and intervals.

    Levels that their factors do not allow move to `other_results`. Intervals that end before they start are
    dropped.

    Raises:
        ValueError: A value is not a finite number.
    """
    levels = {
        name: level for name, level in run.factors.items() if _is_valid_level(name, level, run.workload)
    }
    invalid = {
        f"{name} (not a valid level)": str(level)[:40]
        for name, level in run.factors.items()
        if name not in levels
    }
    for value in _iterate_rounded_values(run):
        if not -math.inf < value.low <= value.value <= value.high < math.inf:
            raise ValueError("a value is not a finite number")
    duration = (
        run.measured_duration_s
        if run.measured_duration_s is None or 0 <= run.measured_duration_s < math.inf
        else None
    )
    return replace(
        run,
        factors=levels,
        other_results={**run.other_results, **invalid},
        intervals=_drop_invalid_intervals(run.intervals),
        measured_duration_s=duration,
    )


def _iterate_rounded_values(run: Run) -> Iterator[RoundedValue]:
    yield from run.metrics.values()
    yield RoundedValue.exact(run.omitted_s)
    for interval in run.intervals if not isinstance(run.intervals, PackedIntervals) else ():
        yield from interval.values.values()


def _drop_invalid_intervals(intervals: Sequence[ReportInterval]) -> Sequence[ReportInterval]:
    if isinstance(intervals, PackedIntervals):
        return intervals.drop_invalid()
    return tuple(each for each in intervals if 0 <= each.start_s <= each.end_s < math.inf)


def _is_valid_level(name: str, level: Level, workload: str) -> bool:
    try:
        check_factor_workload(name, workload)
        return parse_level(name, format_level(name, level)) == level
    except (BenchError, ValueError, ArithmeticError):
        return False
