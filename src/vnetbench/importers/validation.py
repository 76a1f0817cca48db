"""What of a run may stand in a results file: levels that our factors have, numbers that are some."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from vnetbench.errors import BenchError
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.runs import Figure, Run
from vnetbench.study.factors.registry import check_workload, format_level, parse_level
from vnetbench.study.model import Level

Begins = Callable[[Lines], bool]


def credibly(read: Callable[[Lines, Begins], list[Run]]) -> Callable[[Lines, Begins], list[Run]]:
    """A reader whose runs are credible."""
    return lambda lines, begins: [credible(run) for run in read(lines, begins)]


def credible(run: Run) -> Run:
    """The run without levels that its factors cannot have, which are kept in `also` as they were told.

    Intervals that end before they begin are left out. Raises ValueError where a figure is no finite number.
    """
    levels = {name: level for name, level in run.factors.items() if _is_level(name, level, run.workload)}
    others = {f"{name}, no level": str(run.factors[name])[:40] for name in run.factors if name not in levels}
    for figure in _numbers(run):
        if not -math.inf < figure.low <= figure.value <= figure.high < math.inf:
            raise ValueError("a figure is no finite number")
    intervals = tuple(each for each in run.intervals if 0 <= each.start_s <= each.end_s < math.inf)
    duration = run.duration_s if run.duration_s is None or 0 <= run.duration_s < math.inf else None
    return replace(run, factors=levels, also={**run.also, **others}, intervals=intervals, duration_s=duration)


def _numbers(run: Run) -> Iterator[Figure]:
    yield from run.figures.values()
    yield Figure.exact(run.omitted_s)
    for interval in run.intervals:
        yield from interval.values.values()


def _is_level(name: str, level: Level, workload: str) -> bool:
    try:
        check_workload(name, workload)
        return parse_level(name, format_level(name, level)) == level
    except (BenchError, ValueError, ArithmeticError):
        return False
