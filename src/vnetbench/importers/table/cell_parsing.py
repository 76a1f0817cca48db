"""A row of a table as a run: its cells read as levels and figures, as the mapping says."""

from __future__ import annotations

import re
from datetime import datetime

from vnetbench.errors import BenchError
from vnetbench.importers.runs import ReportedValue, Run
from vnetbench.importers.table.columns import Columns
from vnetbench.importers.table.mapping import FactorColumn, Mapping, MetricColumn, Moment
from vnetbench.importers.table.rows import Row, text_of
from vnetbench.importers.units import parse_rounded
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level
from vnetbench.study.problems import format_raw_value

_IN_THOUSANDS = {
    ",": re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?"),
    ".": re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d*)?"),
}
"""Numbers in groups of three digits, by what parts them: `1,234.5` and `1.234,5`."""


def run_of(row: Row, columns: Columns, mapping: Mapping) -> Run | None:
    """The run of a row; None of one that the mapping leaves out. Raises a BenchError for a cell."""
    if row.number in mapping.skip or any(
        columns.text(row, column) in cells for column, cells in mapping.skip_where.items()
    ):
        return None
    duration = mapping.duration and _figure(row, columns, mapping, mapping.duration)
    return Run(
        tool=mapping.tool,
        version=mapping.version,
        first_line=row.number,
        last_line=row.number,
        workload=mapping.workload,
        factors={**mapping.constants, **_factors(row, columns, mapping)},
        metrics=_figures(row, columns, mapping),
        duration_s=duration.value if duration else None,
        started_at=_moment(row, columns, mapping.started_at) if mapping.started_at else None,
        reported_by=mapping.told_by,
        other_results={name: text for name in mapping.also if (text := columns.text(row, name))},
    )


def _factors(row: Row, columns: Columns, mapping: Mapping) -> dict[str, Level]:
    found = {}
    for each in mapping.factors:
        text = columns.text(row, each.column)
        if text:
            found[each.name] = _level(text, each, columns.where(row, each.column), mapping)
    return found


def _level(text: str, column: FactorColumn, where: str, mapping: Mapping) -> Level:
    if text in column.levels:
        return column.levels[text]
    try:
        return parse_level(column.name, f"{text} {column.unit}".strip())
    except BenchError as error:
        fix = f'{error.fix}; or say what the cell means: levels = {{ {format_raw_value(text)} = "…" }} in {mapping.name}'
        raise BenchError(error.what, where=where, fix=fix) from error


def _figures(row: Row, columns: Columns, mapping: Mapping) -> dict[str, ReportedValue]:
    found = {each.name: _figure(row, columns, mapping, each) for each in mapping.metrics}
    return {name: figure for name, figure in found.items() if figure is not None}


def _figure(row: Row, columns: Columns, mapping: Mapping, column: MetricColumn) -> ReportedValue | None:
    """A cell's figure with what its last digit left open; None of a blank one."""
    cell = columns.cell(row, column.column)
    if cell == "":
        return None
    where = columns.where(row, column.column)
    try:
        text = _number(cell, where, mapping) if isinstance(cell, str) else text_of(cell)
        return parse_rounded(text, column.scale)
    except ValueError as error:
        fix = f"leave the cell blank, or the row out: skip = [{row.number}] in {mapping.name}"
        raise BenchError(f"{format_raw_value(text_of(cell))} is no number", where=where, fix=fix) from error


def _number(text: str, where: str, mapping: Mapping) -> str:
    """A written number without what parts its thousands: `9 853,56 %` is `9853,56`."""
    bare = re.sub(r"\s", "", text).removesuffix("%")
    if mapping.decimal is None and "," in bare:
        fix = f'say in {mapping.name} what the comma is: decimal = "," or, of thousands, decimal = "."'
        raise BenchError(f"{format_raw_value(text)} can be read in two ways", where=where, fix=fix)
    mark = "." if mapping.decimal == "," else ","
    if _IN_THOUSANDS[mark].fullmatch(bare):
        return bare.replace(mark, "")
    if mark in bare or sum(bare.count(each) for each in ".,") > 1:
        raise ValueError("what parts the thousands does not stand between thousands")
    return bare


def _moment(row: Row, columns: Columns, moment: Moment) -> datetime | None:
    cell = columns.cell(row, moment.column)
    if isinstance(cell, datetime):
        return cell
    if cell == "":
        return None
    try:
        return datetime.strptime(text_of(cell), moment.form)
    except ValueError as error:
        raise BenchError(
            f"{format_raw_value(text_of(cell))} is no time as {format_raw_value(moment.form)} writes it",
            where=columns.where(row, moment.column),
            fix='say how times are written: started_at = { column = "…", form = "%d.%m.%Y %H:%M" }',
        ) from error
