"""Waiting that a cause leaves unexplained: the table in `waits.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from statistics import median


@dataclass(frozen=True)
class WaitTable:
    """The waits of streams and requests, as evidence metrics."""

    workloads: tuple[str, ...]
    """Workloads that wait for what they sent."""
    wait_metrics: tuple[str, ...]
    """All waits."""
    time_metrics_lengthened_by_cause: Mapping[str, tuple[str, ...]]
    """Cause to the uses of time that it lengthens."""


@lru_cache
def load_waits() -> WaitTable:
    """Return the table."""
    table = tomllib.loads(files(__package__).joinpath("waits.toml").read_text(encoding="utf-8"))
    own = {cause: _share_metric_names(uses) for cause, uses in table["causes"].items()}
    return WaitTable(tuple(table["workloads"]), _share_metric_names(table["waits"]), own)


def leaves_most_waiting_unexplained(cause: str, trials: Sequence[Mapping[str, float]], workload: str) -> bool:
    """Return whether streams wait longer for other things than the time that a cause lengthens.

    Then the cause may exist, but something else holds the streams up. Without a time accounting, or for a
    cause that no use of time shows, nothing is known.

    Args:
        cause: Name of the cause.
        trials: The evidence of the treatment's trials.
        workload: Name of the workload.
    """
    table = load_waits()
    own = table.time_metrics_lengthened_by_cause.get(cause)
    if own is None or workload not in table.workloads:
        return False
    return _sum_of_medians_percent(table.wait_metrics, own, trials) > _sum_of_medians_percent(own, (), trials)


def _sum_of_medians_percent(
    metrics: Iterable[str], without: Sequence[str], trials: Sequence[Mapping[str, float]]
) -> float:
    """Return the sum of the metrics' medians over the trials, in percent of the time."""
    values = [
        [evidence[metric] for evidence in trials if metric in evidence]
        for metric in metrics
        if metric not in without
    ]
    return sum(median(each) for each in values if each)


def _share_metric_names(uses: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{use}_percent" for use in uses)
