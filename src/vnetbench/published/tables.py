"""Figures of published measurements, in the words of a study, so that a campaign can be held against them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vnetbench.importers.runs import Run
from vnetbench.importers.table import read_mapping, runs_of
from vnetbench.published.catalog import data_file
from vnetbench.study.model import Level


@dataclass(frozen=True)
class ValueRange:
    """Mean, least and most of several trials, in the unit of the metric; or one value that stands alone."""

    mean: float
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published table."""

    levels: Mapping[str, Level]
    """The level of each factor that was told; one without (a blank cell) is absent."""
    setting: str
    """The cells that tell figures apart which are alike, as they were published."""
    values: Mapping[str, ValueRange]
    """By the name of the metric."""


@dataclass(frozen=True)
class PublishedTable:
    """A published table: what was measured how, and its figures in its own order."""

    name: str
    title: str
    source: str
    conditions: str
    value_description: str
    """What a figure is, in words: the best of several runs, a mean with its least and most."""
    workload: str
    metric: str
    required_factors: tuple[str, ...]
    """The factors whose levels a treatment must share with a figure to be shown beside it."""
    preferred_factors: tuple[str, ...]
    """Factors that choose among these figures, where there is one of the same level."""
    setting: str
    """What the columns of `Figure.setting` are called."""
    rows: tuple[PublishedRow, ...]


@lru_cache
def load_table(name: str) -> PublishedTable:
    """The published table of that name, one of `names.NAMES`: read as an import of the same table is."""
    told = tomllib.loads(data_file(f"{name}.toml").read_text(encoding="utf-8"))
    mapping_name = f"{name}.mapping.toml"
    mapping = read_mapping(data_file(mapping_name).read_text(encoding="utf-8"), mapping_name)
    with data_file(f"{name}.csv").open("rb") as table:
        runs = list(runs_of(table, f"{name}.csv", mapping))
    scales = {column.name: column.scale for column in mapping.metrics}
    return PublishedTable(
        name=name,
        title=told["title"],
        source=told["source"],
        conditions=told["conditions"],
        value_description=told["each"],
        workload=mapping.workload,
        metric=told["metric"],
        required_factors=tuple(told["alike"]),
        preferred_factors=tuple(told["closer"]),
        setting=", ".join(told["setting"].values()),
        rows=tuple(_figure(run, told, scales) for run in runs),
    )


def _figure(run: Run, told: Mapping[str, Any], scales: Mapping[str, float]) -> PublishedRow:
    ends = told.get("spread", {})
    return PublishedRow(
        levels=run.factors,
        setting=", ".join(run.other_results[column] for column in told["setting"] if column in run.other_results),
        values={
            metric: ValueRange(
                figure.value, *(float(run.other_results[column]) * scales[metric] for column in ends.get(metric, ()))
            )
            for metric, figure in run.metrics.items()
        },
    )
