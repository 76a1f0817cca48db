"""Read the mapping file of a table: the meaning and units of its columns, and which rows count."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from functools import partial
from operator import setitem
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.estimate.metrics import METRICS
from vnetbench.importers.runs import SenderOrReceiver
from vnetbench.study.factors.registry import check_factor_workload, parse_level, require_factor_or_label
from vnetbench.study.file.document import TomlDocument, read_document
from vnetbench.study.model import Level
from vnetbench.study.problems import Problem, StudyError, WrongValue, format_raw_value, suggest_fix
from vnetbench.study.workloads import WORKLOAD_NAMES

_BITS_PER_S_BY_BIT_UNIT = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
_BITS_PER_S_BY_BYTE_UNIT = {"B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9}
_BITS_PER_S_BY_BINARY_UNIT = {"KiB/s": 8 * 2.0**10, "MiB/s": 8 * 2.0**20, "GiB/s": 8 * 2.0**30}
SCALE_BY_METRIC_UNIT_AND_CELL_UNIT: Map[str, Map[str, float]] = {
    "bit/s": _BITS_PER_S_BY_BIT_UNIT | _BITS_PER_S_BY_BYTE_UNIT | _BITS_PER_S_BY_BINARY_UNIT,
    "frame/s": {"frame/s": 1.0, "kframe/s": 1e3, "Mframe/s": 1e6},
    "1/s": {"/s": 1.0, "k/s": 1e3, "M/s": 1e6},
    "µs": {"ns": 1e-3, "µs": 1.0, "us": 1.0, "ms": 1e3, "s": 1e6},
    "s": {"µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0},
    "B": {"B": 1.0, "kB": 1e3, "KiB": 2.0**10},
}
"""Units that a column of a metric may have, by the metric's own unit. MB are 10^6 bytes, MiB 1024²."""
_PERCENT_BY_UNIT = {"%": 1.0, "1": 100.0}
"""Units of a metric in percent. A column of ratios has the unit 1."""

DEFAULT_TOOL = "table"


@dataclass(frozen=True)
class FactorColumn:
    """A column whose cells are levels of a factor."""

    factor: str
    title: str
    unit: str
    """Appended to a cell before it is parsed; empty if the cells have their units."""
    level_by_cell_text: Map[str, Level] = field(default_factory=dict)
    """Levels by cell, for cells that are not levels: `{"Windows 2008R2" = "vmxnet3"}`."""


@dataclass(frozen=True)
class MetricColumn:
    """A column of values. A cell times `scale_factor` is in the metric's unit."""

    metric: str
    title: str
    scale_factor: float


@dataclass(frozen=True)
class StartTimeColumn:
    """The column of start times, and their format (strptime)."""

    title: str
    time_format: str


@dataclass(frozen=True)
class TableMapping:
    """The meaning of a table's columns and rows."""

    mapping_file_name: str
    """The mapping file's name in errors."""
    workload: str
    factors: tuple[FactorColumn, ...]
    metrics: tuple[MetricColumn, ...]
    constants: Map[str, Level]
    """Levels of all rows."""
    tool: str = DEFAULT_TOOL
    version: str = ""
    reported_by: SenderOrReceiver = ""
    decimal: str | None = None
    """Decimal separator, `.` or `,`. None: a point, and a comma in a number is an error."""
    separator: str | None = None
    """None: the one that occurs most often in the header."""
    sheet: str | None = None
    """None: the first sheet of the workbook."""
    header: int = 1
    """Row of the titles, from 1."""
    skip: frozenset[int] = frozenset()
    """Rows to skip, from 1."""
    skip_where: Map[str, tuple[str, ...]] = field(default_factory=dict)
    """By column, the cells whose rows are skipped."""
    duration: MetricColumn | None = None
    started_at: StartTimeColumn | None = None
    other_columns: tuple[str, ...] = ()
    """Columns that are kept unchanged."""


def read_table_mapping(text: str, file_name: str) -> TableMapping:
    """Return the mapping in a file's text.

    Raises StudyError with all problems, their lines and their fixes.
    """
    document = read_document(text, file_name)
    problems = list(document.problems)
    if problems:
        raise StudyError(problems)
    parts: dict[str, Any] = {
        "mapping_file_name": document.name_in_messages,
        "factors": [],
        "metrics": [],
        "constants": [],
    }
    for key, raw in document.values.items():
        if key in _FIELD_AND_READER_BY_SECTION and isinstance(raw, dict):
            into, read_value = _FIELD_AND_READER_BY_SECTION[key]
            for each, value in raw.items():
                _read_value_or_add_problem(
                    document, problems, (key, each), parts[into].append, read_value, each, value
                )
        else:
            _read_value_or_add_problem(
                document, problems, (key,), partial(setitem, parts, key), _read_top_level_key, key, raw
            )
    _read_value_or_add_problem(document, problems, (), parts.update, _combine_sections, parts)
    if problems:
        raise StudyError(problems)
    return TableMapping(**parts)


def _read_value_or_add_problem(
    document: TomlDocument,
    problems: list[Problem],
    path: tuple[str, ...],
    keep: Callable[[Any], object],
    read_value: Callable[..., Any],
    *given: object,
) -> None:
    """Read one value and keep it.

    An error is added to the problems, so that all of them are reported together.
    """
    try:
        keep(read_value(*given))
    except BenchError as error:
        problems.append(document.locate(*path).wrap_error(error))


def _combine_sections(parts: Map[str, Any]) -> Map[str, Any]:
    """Return the sections as fields of `TableMapping`. Raises WrongValue if something is missing."""
    if "workload" not in parts:
        raise WrongValue(
            "the mapping has no workload", fix=f'write workload = "tcp_stream" ({", ".join(WORKLOAD_NAMES)})'
        )
    if not parts["metrics"]:
        fix = 'add a section [metric] with a line such as goodput_bps = { column = "…", unit = "Mbit/s" }'
        raise WrongValue("the mapping has no metric", fix=fix)
    constants = dict(parts["constants"])
    for name in (*constants, *(each.factor for each in parts["factors"])):
        check_factor_workload(name, parts["workload"])
    return {
        "factors": tuple(parts["factors"]),
        "metrics": tuple(parts["metrics"]),
        "constants": constants,
    }


def _read_factor_column(name: str, raw: object) -> FactorColumn:
    require_factor_or_label(name)
    values = _read_column_description(raw, ("column", "unit", "levels"))
    levels = {
        cell: parse_level(name, level) for cell, level in _read_toml_table(values.get("levels", {})).items()
    }
    return FactorColumn(name, values["column"], _read_text(values.get("unit", "")), levels)


def _read_metric_column(name: str, raw: object) -> MetricColumn:
    if name not in METRICS:
        raise WrongValue(
            f"{format_raw_value(name)} is not a metric",
            fix=suggest_fix(name, METRICS, otherwise="see docs/importers.md"),
        )
    values = _read_column_description(raw, ("column", "unit"))
    return MetricColumn(
        name, values["column"], _find_scale_factor(METRICS[name].unit, _read_text(values.get("unit", "")))
    )


def _find_scale_factor(metric_unit: str, cell_unit: str) -> float:
    """Return the factor from `cell_unit` to `metric_unit`."""
    units = SCALE_BY_METRIC_UNIT_AND_CELL_UNIT.get(metric_unit) or (
        _PERCENT_BY_UNIT if metric_unit.startswith("%") else {metric_unit: 1.0}
    )
    if cell_unit in units:
        return units[cell_unit]
    if not cell_unit and metric_unit not in SCALE_BY_METRIC_UNIT_AND_CELL_UNIT:
        return 1.0
    problem = (
        f"{format_raw_value(cell_unit)} is not a unit of this metric"
        if cell_unit
        else "the unit of the column is missing"
    )
    raise WrongValue(problem, fix=f'write unit = "…" with one of {", ".join(units)}')


def _read_constant_level(name: str, raw: object) -> tuple[str, Level]:
    return name, parse_level(name, raw)


_FIELD_AND_READER_BY_SECTION: Map[str, tuple[str, Callable[[str, Any], Any]]] = {
    "factor": ("factors", _read_factor_column),
    "metric": ("metrics", _read_metric_column),
    "set": ("constants", _read_constant_level),
}
"""Sections by name: the field that collects their entries, and the function that reads an entry."""


def _read_top_level_key(key: str, raw: object) -> Any:
    if key in _FIELD_AND_READER_BY_SECTION:
        raise WrongValue(f"{format_raw_value(key)} is a section", fix=f"write [{key}] on its own line")
    if key not in _READER_BY_TOP_LEVEL_KEY:
        fix = suggest_fix(
            key,
            (*_READER_BY_TOP_LEVEL_KEY, *_FIELD_AND_READER_BY_SECTION),
            otherwise=f"the keys are {', '.join((*_READER_BY_TOP_LEVEL_KEY, *_FIELD_AND_READER_BY_SECTION))}",
        )
        raise WrongValue(f"{format_raw_value(key)} is not a key of a mapping", fix=fix)
    return _READER_BY_TOP_LEVEL_KEY[key](raw)


def _read_text(raw: object) -> str:
    if not isinstance(raw, str):
        raise WrongValue(f"{format_raw_value(raw)} is not a text", fix="put the text in quotes")
    return raw


def _make_choice_reader(*allowed: str) -> Callable[[object], str]:
    def read_value(raw: object) -> str:
        if raw not in allowed:
            choices = ", ".join(format_raw_value(each) for each in allowed)
            raise WrongValue(
                f"{format_raw_value(raw)} is not one of {choices}", fix=f"write one of {choices}"
            )
        return str(raw)

    return read_value


def _read_toml_table(raw: object) -> Map[str, Any]:
    if not isinstance(raw, dict):
        raise WrongValue(
            f"{format_raw_value(raw)} is not a table", fix='write { column = "title" } in its place'
        )
    return raw


def _read_column_description(raw: object, keys: tuple[str, ...]) -> Map[str, Any]:
    """Return `"title"` or `{ column = "title", unit = "Mbit/s" }` in the second form."""
    values = {"column": raw} if isinstance(raw, str) else _read_toml_table(raw)
    for key in values:
        if key not in keys:
            raise WrongValue(
                f"{format_raw_value(key)} is not a key of a column", fix=f"the keys are {', '.join(keys)}"
            )
    if "column" not in values:
        raise WrongValue("the column's title is missing", fix='write column = "title of the column"')
    _read_text(values["column"])
    return values


def _read_row_number(raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 1 <= raw < 2**31:
        raise WrongValue(f"{format_raw_value(raw)} is not a row number", fix="rows are numbered from 1")
    return raw


def _read_row_numbers(raw: object) -> frozenset[int]:
    return frozenset(_read_row_number(each) for each in _require_list(raw))


def _require_list(raw: object) -> list[Any]:
    if not isinstance(raw, list):
        raise WrongValue(f"{format_raw_value(raw)} is not a list", fix="put the list in square brackets")
    return raw


def _read_cells_by_column(raw: object) -> Map[str, tuple[str, ...]]:
    return {
        column: tuple(_read_text(each) for each in _require_list(cells))
        for column, cells in _read_toml_table(raw).items()
    }


def _read_duration_column(raw: object) -> MetricColumn:
    values = _read_column_description(raw, ("column", "unit"))
    return MetricColumn(
        "duration", values["column"], _find_scale_factor("s", _read_text(values.get("unit", "")))
    )


def _read_start_time_column(raw: object) -> StartTimeColumn:
    values = _read_column_description(raw, ("column", "format"))
    return StartTimeColumn(values["column"], _read_text(values.get("format", "%Y-%m-%d %H:%M:%S")))


_READER_BY_TOP_LEVEL_KEY: Map[str, Callable[[object], Any]] = {
    "workload": _make_choice_reader(*WORKLOAD_NAMES),
    "tool": _read_text,
    "version": _read_text,
    "reported_by": _make_choice_reader("sender", "receiver"),
    "decimal": _make_choice_reader(".", ","),
    "separator": _make_choice_reader(",", ";", "\t", "|"),
    "sheet": _read_text,
    "header": _read_row_number,
    "skip": _read_row_numbers,
    "skip_where": _read_cells_by_column,
    "duration": _read_duration_column,
    "started_at": _read_start_time_column,
    "other_columns": lambda raw: tuple(_read_text(each) for each in _require_list(raw)),
}
"""Functions that read the values of the keys."""
