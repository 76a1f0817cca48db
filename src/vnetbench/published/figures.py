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

from vnetbench.study.model import Level

NAMES = ("packet-forwarding-2011",)
"""What a study may name: a table `NAME.csv` as it was published each, explained by `NAME.toml`."""
_VALUES = ("mean_fps", "min_fps", "max_fps")


@dataclass(frozen=True)
class Spread:
    """Mean, least and most of several trials, in the unit of the metric."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True)
class Figure:
    """One published figure."""

    levels: Mapping[str, Level]
    """The level of each factor that was told; one without (a blank cell) is absent."""
    setting: str
    """The cells of the columns that are `closer`, as they were published."""
    spread: Spread


@dataclass(frozen=True)
class Published:
    """A published table: what was measured how, and its figures in its own order."""

    title: str
    conditions: str
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
    told = tomllib.loads(_file(f"{name}.toml").read_text(encoding="utf-8"))
    alike, closer = told["alike"], told["closer"]
    rows = csv.DictReader(_file(f"{name}.csv").read_text(encoding="utf-8").splitlines())
    return Published(
        title=told["title"],
        conditions=told["conditions"],
        workload=told["workload"],
        metric=told["metric"],
        alike=tuple(column["factor"] for column in alike.values()),
        closer=tuple(column["factor"] for column in closer.values()),
        setting=", ".join(column["title"] for column in closer.values()),
        figures=tuple(_figure(row, alike, closer) for row in rows),
    )


def _figure(row: Mapping[str, str], alike: Mapping[str, Any], closer: Mapping[str, Any]) -> Figure:
    told = {**alike, **closer}
    levels = {column["factor"]: column["levels"][row[name]] for name, column in told.items() if row[name]}
    setting = ", ".join(row[name] for name in closer if row[name])
    return Figure(levels, setting, Spread(*(float(row[value]) for value in _VALUES)))


def _file(name: str) -> Traversable:
    return resources.files("vnetbench.published").joinpath(name)
