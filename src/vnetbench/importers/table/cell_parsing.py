"""Turn a row of a table into a run: parse its cells as levels and values, as the mapping defines."""

from __future__ import annotations

import re
from datetime import datetime

from vnetbench.errors import BenchError
from vnetbench.importers.runs import ReportedValue, Run
from vnetbench.importers.table.columns import Columns
from vnetbench.importers.table.mapping import FactorColumn, MetricColumn, StartTimeColumn, TableMapping
from vnetbench.importers.table.rows import TableRow, cell_text
from vnetbench.importers.units import parse_rounded
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level
from vnetbench.study.problems import format_raw_value

_GROUPED_NUMBERS = {
    ",": re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?"),
    ".": re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d*)?"),
}
"""Numbers in groups of three digits, by the separator of the groups: `1,234.5` and `1.234,5`."""


def build_run(row: TableRow, columns: Columns, mapping: TableMapping) -> Run | None:
    """Return the run of a row; None if the mapping skips it. Raises BenchError for an invalid cell."""
    if row.number in mapping.skip or any(
        columns.text(row, column) in cells for column, cells in mapping.skip_where.items()
    ):
        return None
    duration = mapping.duration and _parse_value(row, columns, mapping, mapping.duration)
    return Run(
        tool=mapping.tool,
        version=mapping.version,
        first_line=row.number,
        last_line=row.number,
        workload=mapping.workload,
        factors={**mapping.constants, **_parse_factors(row, columns, mapping)},
        metrics=_parse_metrics(row, columns, mapping),
        duration_s=duration.value if duration else None,
        started_at=_parse_start_time(row, columns, mapping.started_at) if mapping.started_at else None,
        reported_by=mapping.reported_by,
        other_results={name: text for name in mapping.other_columns if (text := columns.text(row, name))},
    )


def _parse_factors(row: TableRow, columns: Columns, mapping: TableMapping) -> dict[str, Level]:
    parsed = {}
    for each in mapping.factors:
        text = columns.text(row, each.column)
        if text:
            parsed[each.name] = _parse_level(text, each, columns.where(row, each.column), mapping)
    return parsed


def _parse_level(text: str, column: FactorColumn, where: str, mapping: TableMapping) -> Level:
    if text in column.levels:
        return column.levels[text]
    try:
        return parse_level(column.name, f"{text} {column.unit}".strip())
    except BenchError as error:
        example = f'levels = {{ {format_raw_value(text)} = "…" }}'
        fix = f"{error.fix}; or map the cell to a level in {mapping.name}: {example}"
        raise BenchError(error.what, where=where, fix=fix) from error


def _parse_metrics(row: TableRow, columns: Columns, mapping: TableMapping) -> dict[str, ReportedValue]:
    parsed = {each.name: _parse_value(row, columns, mapping, each) for each in mapping.metrics}
    return {name: value for name, value in parsed.items() if value is not None}


def _parse_value(
    row: TableRow, columns: Columns, mapping: TableMapping, column: MetricColumn
) -> ReportedValue | None:
    """Return a cell's value with its rounding; None for a blank cell."""
    cell = columns.cell(row, column.column)
    if cell == "":
        return None
    where = columns.where(row, column.column)
    try:
        text = (
            _remove_thousands_separators(cell, where, mapping) if isinstance(cell, str) else cell_text(cell)
        )
        return parse_rounded(text, column.scale)
    except ValueError as error:
        fix = f"leave the cell blank, or skip the row: skip = [{row.number}] in {mapping.name}"
        raise BenchError(
            f"{format_raw_value(cell_text(cell))} is not a number", where=where, fix=fix
        ) from error


def _remove_thousands_separators(text: str, where: str, mapping: TableMapping) -> str:
    """Return a number without separators between thousands: `9 853,56 %` becomes `9853,56`."""
    digits = re.sub(r"\s", "", text).removesuffix("%")
    if mapping.decimal is None and "," in digits:
        fix = f'set the decimal separator in {mapping.name}: decimal = "," or decimal = "."'
        raise BenchError(f"{format_raw_value(text)} is ambiguous", where=where, fix=fix)
    separator = "." if mapping.decimal == "," else ","
    if _GROUPED_NUMBERS[separator].fullmatch(digits):
        return digits.replace(separator, "")
    if separator in digits or sum(digits.count(each) for each in ".,") > 1:
        raise ValueError("the thousands separators are misplaced")
    return digits


def _parse_start_time(row: TableRow, columns: Columns, column: StartTimeColumn) -> datetime | None:
    cell = columns.cell(row, column.column)
    if isinstance(cell, datetime):
        return cell
    if cell == "":
        return None
    try:
        return datetime.strptime(cell_text(cell), column.time_format)
    except ValueError as error:
        text, expected = format_raw_value(cell_text(cell)), format_raw_value(column.time_format)
        raise BenchError(
            f"{text} is not a time in the format {expected}",
            where=columns.where(row, column.column),
            fix='state the format: started_at = { column = "…", format = "%d.%m.%Y %H:%M" }',
        ) from error
