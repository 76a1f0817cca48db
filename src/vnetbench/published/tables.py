"""Tables of published measurements, in the factors and metrics of a study, for comparison with a campaign."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vnetbench.importers.runs import Run
from vnetbench.importers.table import read_table_mapping, read_table_runs
from vnetbench.published.catalog import find_table_file
from vnetbench.study.model import Level


@dataclass(frozen=True)
class ValueWithRange:
    """A published value with the range of its trials, if published, in the metric's unit."""

    value: float
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published table."""

    levels: Mapping[str, Level]
    """Level of each factor. Factors with a blank cell are absent."""
    non_factor_cells: str
    """Published cells of columns that are not factors."""
    values: Mapping[str, ValueWithRange]
    """Metric to its value."""


@dataclass(frozen=True)
class PublishedTable:
    """A published table: what was measured and how, and its rows in their original order."""

    name: str
    title: str
    source: str
    conditions: str
    value_description: str
    """Meaning of a value, such as the best of several runs or a mean with its range."""
    workload: str
    metric: str
    required_factors: tuple[str, ...]
    """Factors whose levels must be equal for a comparison with a treatment."""
    preferred_factors: tuple[str, ...]
    """Factors that select among comparable rows, if one has the treatment's level."""
    non_factor_column_titles: str
    """Titles of the columns in `PublishedRow.setting`."""
    rows: tuple[PublishedRow, ...]


@lru_cache
def load_table(name: str) -> PublishedTable:
    """Load a published table, one of `catalog.TABLE_NAMES`, like an import of the same table."""
    description = tomllib.loads(find_table_file(f"{name}.toml").read_text(encoding="utf-8"))
    mapping_name = f"{name}.mapping.toml"
    mapping = read_table_mapping(find_table_file(mapping_name).read_text(encoding="utf-8"), mapping_name)
    with find_table_file(f"{name}.csv").open("rb") as table:
        runs = list(read_table_runs(table, f"{name}.csv", mapping))
    scales = {column.metric: column.scale_factor for column in mapping.metrics}
    return PublishedTable(
        name=name,
        title=description["title"],
        source=description["source"],
        conditions=description["conditions"],
        value_description=description["value_description"],
        workload=mapping.workload,
        metric=description["metric"],
        required_factors=tuple(description["required_factors"]),
        preferred_factors=tuple(description["preferred_factors"]),
        non_factor_column_titles=", ".join(description["setting_columns"].values()),
        rows=tuple(_build_row(run, description, scales) for run in runs),
    )


def _build_row(run: Run, description: Mapping[str, Any], scales: Mapping[str, float]) -> PublishedRow:
    range_columns = description.get("range_columns", {})
    return PublishedRow(
        levels=run.factors,
        non_factor_cells=", ".join(
            run.other_results[column]
            for column in description["setting_columns"]
            if column in run.other_results
        ),
        values={
            metric: ValueWithRange(
                reported.value,
                *(
                    float(run.other_results[column]) * scales[metric]
                    for column in range_columns.get(metric, ())
                ),
            )
            for metric, reported in run.metrics.items()
        },
    )
