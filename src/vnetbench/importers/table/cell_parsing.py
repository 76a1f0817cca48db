"""Turn a row of a table into a run: parse its cells as levels and values, as the mapping defines."""

from __future__ import annotations

import re
from datetime import datetime

from vnetbench.errors import BenchError
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.table.columns import ColumnPositions
from vnetbench.importers.table.mapping import FactorColumn, MetricColumn, StartTimeColumn, TableMapping
from vnetbench.importers.table.rows import TableRow, cell_text
from vnetbench.importers.units import parse_rounded
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level
from vnetbench.study.problems import format_raw_value

_GROUPED_NUMBER_PATTERN_BY_SEPARATOR = {
    ",": re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?"),
    ".": re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d*)?"),
}
"""Numbers in groups of three digits, by the separator of the groups: `1,234.5` and `1.234,5`."""


def build_run_unless_skipped(
    row: TableRow, column_positions: ColumnPositions, mapping: TableMapping
) -> Run | None:
    """Return the run of a row; None if the mapping skips it. Raises BenchError for an invalid cell."""
    if row.row_number in mapping.skip or any(
        column_positions.cell_text(row, column) in cells for column, cells in mapping.skip_where.items()
    ):
        return None
    duration = mapping.duration and _parse_rounded_cell(row, column_positions, mapping, mapping.duration)
    return Run(
        tool=mapping.tool,
        version=mapping.version,
        first_line=row.row_number,
        last_line=row.row_number,
        workload=mapping.workload,
        factors={**mapping.constants, **_parse_factor_cells(row, column_positions, mapping)},
        metrics=_parse_metric_cells(row, column_positions, mapping),
        measured_duration_s=duration.value if duration else None,
        started_at=_parse_start_time(row, column_positions, mapping.started_at)
        if mapping.started_at
        else None,
        reported_by=mapping.reported_by,
        other_results={
            name: text for name in mapping.other_columns if (text := column_positions.cell_text(row, name))
        },
    )


def _parse_factor_cells(
    row: TableRow, column_positions: ColumnPositions, mapping: TableMapping
) -> dict[str, Level]:
    parsed = {}
    for each in mapping.factors:
        text = column_positions.cell_text(row, each.title)
        if text:
            parsed[each.factor] = _parse_level(
                text, each, column_positions.describe_cell_location(row, each.title), mapping
            )
    return parsed


def _parse_level(
    cell_text: str, factor_column: FactorColumn, cell_location: str, mapping: TableMapping
) -> Level:
    if cell_text in factor_column.level_by_cell_text:
        return factor_column.level_by_cell_text[cell_text]
    try:
        return parse_level(factor_column.factor, f"{cell_text} {factor_column.unit}".strip())
    except BenchError as error:
        example = f'levels = {{ {format_raw_value(cell_text)} = "…" }}'
        fix = f"{error.fix}, or map the cell to a level in {mapping.mapping_file_name} ({example})"
        raise BenchError(error.what, where=cell_location, fix=fix) from error


def _parse_metric_cells(
    row: TableRow, column_positions: ColumnPositions, mapping: TableMapping
) -> dict[str, RoundedValue]:
    parsed = {
        each.metric: _parse_rounded_cell(row, column_positions, mapping, each) for each in mapping.metrics
    }
    return {name: value for name, value in parsed.items() if value is not None}


def _parse_rounded_cell(
    row: TableRow, column_positions: ColumnPositions, mapping: TableMapping, metric_column: MetricColumn
) -> RoundedValue | None:
    """Return a cell's value with its rounding; None for a blank cell."""
    cell = column_positions.cell(row, metric_column.title)
    if cell == "":
        return None
    where = column_positions.describe_cell_location(row, metric_column.title)
    try:
        text = (
            _remove_thousands_separators(cell, where, mapping) if isinstance(cell, str) else cell_text(cell)
        )
        return parse_rounded(text, metric_column.scale_factor)
    except ValueError as error:
        fix = (
            f"leave the cell blank, or skip the row: skip = [{row.row_number}] in {mapping.mapping_file_name}"
        )
        raise BenchError(
            f"{format_raw_value(cell_text(cell))} is not a number", where=where, fix=fix
        ) from error


def _remove_thousands_separators(text: str, cell_location: str, mapping: TableMapping) -> str:
    """Return a number without separators between thousands: `9 853,56 %` becomes `9853,56`."""
    digits = re.sub(r"\s", "", text).removesuffix("%")
    if mapping.decimal is None and "," in digits:
        fix = f'set the decimal separator in {mapping.mapping_file_name}: decimal = "," or decimal = "."'
        raise BenchError(f"{format_raw_value(text)} is ambiguous", where=cell_location, fix=fix)
    separator = "." if mapping.decimal == "," else ","
    if _GROUPED_NUMBER_PATTERN_BY_SEPARATOR[separator].fullmatch(digits):
        return digits.replace(separator, "")
    if separator in digits or sum(digits.count(each) for each in ".,") > 1:
        raise ValueError("the thousands separators are misplaced")
    return digits


def _parse_start_time(
    row: TableRow, column_positions: ColumnPositions, start_time_column: StartTimeColumn
) -> datetime | None:
    cell = column_positions.cell(row, start_time_column.title)
    if isinstance(cell, datetime):
        return cell
    if cell == "":
        return None
    try:
        return datetime.strptime(cell_text(cell), start_time_column.time_format)
    except ValueError as error:
        text, expected = format_raw_value(cell_text(cell)), format_raw_value(start_time_column.time_format)
        raise BenchError(
            f"{text} is not a time in the format {expected}",
            where=column_positions.describe_cell_location(row, start_time_column.title),
            fix='state the format: started_at = { column = "…", format = "%d.%m.%Y %H:%M" }',
        ) from error
