"""Figures of published measurements, in the words of a study, so that a campaign can be held against them."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from vnetbench.study.factors import parse_level
from vnetbench.study.model import Level

NAMES = ("packet-forwarding-2011", "ntttcp-vmxnet3-2011")
"""What a study may name: a table `NAME.csv` as it was published each, explained by `NAME.toml`."""


@dataclass(frozen=True)
class Spread:
    """Mean, least and most of several trials, in the unit of the metric; or one value that stands alone."""

    mean: float
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Figure:
    """One row of a published table."""

    levels: Mapping[str, Level]
    """The level of each factor that was told; one without (a blank cell) is absent."""
    setting: str
    """The cells of the columns that are `closer` and have a title, as they were published."""
    values: Mapping[str, Spread]
    """By the name of the metric."""


@dataclass(frozen=True)
class Published:
    """A published table: what was measured how, and its figures in its own order."""

    name: str
    title: str
    source: str
    conditions: str
    each: str
    """What a figure is, in words: the best of several runs, a mean with its least and most."""
    workload: str
    metric: str
    alike: tuple[str, ...]
    """The factors whose levels a treatment must share with a figure to be shown beside it."""
    closer: tuple[str, ...]
    """Factors that choose among these figures, where there is one of the same level."""
    setting: str
    """What their columns are called."""
    figures: tuple[Figure, ...]


@lru_cache
def published(name: str) -> Published:
    """The published table of that name, one of NAMES."""
    told = tomllib.loads(shipped(f"{name}.toml").read_text(encoding="utf-8"))
    alike, closer = told["alike"], told["closer"]
    rows = csv.DictReader(shipped(f"{name}.csv").read_text(encoding="utf-8").splitlines())
    return Published(
        name=name,
        title=told["title"],
        source=told["source"],
        conditions=told["conditions"],
        each=told["each"],
        workload=told["workload"],
        metric=told["metric"],
        alike=tuple(column["factor"] for column in alike.values()),
        closer=tuple(column["factor"] for column in closer.values()),
        setting=", ".join(column["title"] for column in closer.values() if "title" in column),
        figures=tuple(_figure(row, told) for row in rows),
    )


def shipped(name: str) -> Traversable:
    """A file of this folder."""
    return resources.files("vnetbench.published").joinpath(name)


def _figure(row: Mapping[str, str], told: Mapping[str, Any]) -> Figure:
    columns = {**told["alike"], **told["closer"]}
    levels = {
        columns[name]["factor"]: _level(columns[name], cell)
        for name, cell in row.items()
        if name in columns and cell
    }
    titled = [name for name, column in told["closer"].items() if "title" in column]
    return Figure(
        levels={**told.get("constant", {}), **levels},
        setting=", ".join(row[name] for name in titled if row[name]),
        values={metric: _spread(row, column) for metric, column in told["figures"].items()},
    )


def _level(column: Mapping[str, Any], cell: str) -> Level:
    """The level that a cell stands for: as its column lists it, or as a study reads it."""
    if "levels" in column:
        level: Level = column["levels"][cell]
        return level
    return parse_level(column["factor"], f"{cell} {column.get('unit', '')}".rstrip())


def _spread(row: Mapping[str, str], column: Mapping[str, Any]) -> Spread:
    unit = float(column.get("unit", 1))
    return Spread(*(float(row[column[part]]) * unit for part in ("mean", "least", "most") if part in column))
