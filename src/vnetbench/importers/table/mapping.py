"""The mapping file of a table: which column is which factor or metric, in which unit, which rows count."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from functools import partial
from operator import setitem
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.estimate.metrics import METRICS
from vnetbench.study.factors.registry import check_factor_workload, find_factor, parse_level
from vnetbench.study.file.document import TomlDocument, read_document
from vnetbench.study.model import Level
from vnetbench.study.problems import Problem, StudyError, WrongValue, format_raw_value, suggest
from vnetbench.study.workloads import WORKLOADS

_BITS = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
_BYTES = {"B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9}
_BINARY_BYTES = {"KiB/s": 8 * 2.0**10, "MiB/s": 8 * 2.0**20, "GiB/s": 8 * 2.0**30}
UNITS: Map[str, Map[str, float]] = {
    "bit/s": _BITS | _BYTES | _BINARY_BYTES,
    "frame/s": {"frame/s": 1.0, "kframe/s": 1e3, "Mframe/s": 1e6},
    "1/s": {"/s": 1.0, "k/s": 1e3, "M/s": 1e6},
    "µs": {"ns": 1e-3, "µs": 1.0, "us": 1.0, "ms": 1e3, "s": 1e6},
    "s": {"µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0},
    "B": {"B": 1.0, "kB": 1e3, "KiB": 2.0**10},
}
"""What a column of a metric may be in, by the metric's own unit. MB are 10^6 bytes, MiB 1024²."""
_SHARES = {"%": 1.0, "1": 100.0}
"""Of a metric in percent: a column of shares has the unit 1."""

TOOL = "table"


@dataclass(frozen=True)
class FactorColumn:
    """A column whose cells are levels of a factor."""

    name: str
    column: str
    unit: str
    """Put behind the cell before it is read; empty where the cell says all."""
    levels: Map[str, Level] = field(default_factory=dict)
    """Cells that stand for levels: `{"Windows 2008R2" = "vmxnet3"}`."""


@dataclass(frozen=True)
class MetricColumn:
    """A column whose cells are figures: a cell times `scale` is in the metric's unit."""

    name: str
    column: str
    scale: float


@dataclass(frozen=True)
class Moment:
    """The column of the times at which runs began, and how they are written (strptime)."""

    column: str
    form: str


@dataclass(frozen=True)
class Mapping:
    """What a table means."""

    name: str
    """Of its file, as errors call it."""
    workload: str
    factors: tuple[FactorColumn, ...]
    metrics: tuple[MetricColumn, ...]
    constants: Map[str, Level]
    """Levels of all rows."""
    tool: str = TOOL
    version: str = ""
    told_by: str = ""
    decimal: str | None = None
    """What stands before decimals: `.` or `,`. None: a point, and a comma in a number is asked about."""
    separator: str | None = None
    """None: the one that the line of titles has most of."""
    sheet: str | None = None
    """None: the workbook's first."""
    header: int = 1
    """The row of the titles, from 1."""
    skip: frozenset[int] = frozenset()
    """Rows that are no runs, from 1."""
    skip_where: Map[str, tuple[str, ...]] = field(default_factory=dict)
    """By column, the cells whose rows are no runs."""
    duration: MetricColumn | None = None
    started_at: Moment | None = None
    also: tuple[str, ...] = ()
    """Columns that are kept as they are."""


def read_mapping(text: str, name: str) -> Mapping:
    """The mapping that a file says; raises StudyError with every problem, its line and its fix."""
    document = read_document(text, name)
    problems = list(document.problems)
    if problems:
        raise StudyError(problems)
    found: dict[str, Any] = {"name": document.name, "factors": [], "metrics": [], "constants": []}
    for key, raw in document.values.items():
        if key in _SECTIONS and isinstance(raw, dict):
            into, read_one = _SECTIONS[key]
            for each, value in raw.items():
                _try(document, problems, (key, each), found[into].append, read_one, each, value)
        else:
            _try(document, problems, (key,), partial(setitem, found, key), _value, key, raw)
    _try(document, problems, (), found.update, _whole, found)
    if problems:
        raise StudyError(problems)
    return Mapping(**found)


def _try(
    document: TomlDocument,
    problems: list[Problem],
    path: tuple[str, ...],
    keep: Callable[[Any], object],
    read_one: Callable[..., Any],
    *given: object,
) -> None:
    """Keeps what is read; what is wrong becomes a problem of its line, so that all of it is told at once."""
    try:
        keep(read_one(*given))
    except BenchError as error:
        problems.append(document.locate(*path).wrap_error(error))


def _whole(found: Map[str, Any]) -> Map[str, Any]:
    """The parts of a mapping put together; raises WrongValue where they make none."""
    if "workload" not in found:
        raise WrongValue(
            "it names no workload", fix=f'write workload = "tcp_stream" ({", ".join(WORKLOADS)})'
        )
    if not found["metrics"]:
        fix = 'write [metric] and below it goodput_bps = { column = "…", unit = "Mbit/s" }'
        raise WrongValue("it names no metric", fix=fix)
    constants = dict(found["constants"])
    for name in (*constants, *(each.name for each in found["factors"])):
        check_factor_workload(name, found["workload"])
    return {
        "factors": tuple(found["factors"]),
        "metrics": tuple(found["metrics"]),
        "constants": constants,
    }


def _factor(name: str, raw: object) -> FactorColumn:
    find_factor(name)
    told = _column(raw, ("column", "unit", "levels"))
    levels = {cell: parse_level(name, level) for cell, level in _table(told.get("levels", {})).items()}
    return FactorColumn(name, told["column"], _text(told.get("unit", "")), levels)


def _metric(name: str, raw: object) -> MetricColumn:
    if name not in METRICS:
        raise WrongValue(
            f"{format_raw_value(name)} is not a metric",
            fix=suggest(name, METRICS, otherwise="see docs/importers.md"),
        )
    told = _column(raw, ("column", "unit"))
    return MetricColumn(name, told["column"], _scale(METRICS[name].unit, _text(told.get("unit", ""))))


def _scale(of: str, unit: str) -> float:
    """What makes a cell in `unit` a figure of a metric in unit `of`."""
    units = UNITS.get(of) or (_SHARES if of.startswith("%") else {of: 1.0})
    if unit in units:
        return units[unit]
    if not unit and of not in UNITS:
        return 1.0
    what = f"{format_raw_value(unit)} is not a unit of it" if unit else "the unit of the column is missing"
    raise WrongValue(what, fix=f'write unit = "…" with one of {", ".join(units)}')


def _constant(name: str, raw: object) -> tuple[str, Level]:
    return name, parse_level(name, raw)


_SECTIONS: Map[str, tuple[str, Callable[[str, Any], Any]]] = {
    "factor": ("factors", _factor),
    "metric": ("metrics", _metric),
    "set": ("constants", _constant),
}
"""Sections by the name that they have in the file: where each of their keys goes, and how it is read."""


def _value(key: str, raw: object) -> Any:
    if key in _SECTIONS:
        raise WrongValue(f"{format_raw_value(key)} is a section", fix=f"write [{key}] on a line of its own")
    if key not in _KEYS:
        fix = suggest(key, (*_KEYS, *_SECTIONS), otherwise=f"its keys: {', '.join((*_KEYS, *_SECTIONS))}")
        raise WrongValue(f"{format_raw_value(key)} is no key of a mapping", fix=fix)
    return _KEYS[key](raw)


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise WrongValue(f"{format_raw_value(raw)} is not a text", fix="put it in quotes")
    return raw


def _one_of(*known: str) -> Callable[[object], str]:
    def read_one(raw: object) -> str:
        if raw not in known:
            wanted = ", ".join(format_raw_value(each) for each in known)
            raise WrongValue(f"{format_raw_value(raw)} is none of {wanted}", fix=f"write one of {wanted}")
        return str(raw)

    return read_one


def _table(raw: object) -> Map[str, Any]:
    if not isinstance(raw, dict):
        raise WrongValue(f"{format_raw_value(raw)} is not a table", fix='write it as { column = "title" }')
    return raw


def _column(raw: object, keys: tuple[str, ...]) -> Map[str, Any]:
    """`"title"` or `{ column = "title", unit = "Mbit/s" }` as the latter."""
    told = {"column": raw} if isinstance(raw, str) else _table(raw)
    for key in told:
        if key not in keys:
            raise WrongValue(
                f"{format_raw_value(key)} is no key of a column", fix=f"its keys: {', '.join(keys)}"
            )
    if "column" not in told:
        raise WrongValue("it names no column", fix='write column = "title of the column"')
    _text(told["column"])
    return told


def _row(raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 1 <= raw < 2**31:
        raise WrongValue(f"{format_raw_value(raw)} is not the number of a row", fix="rows count from 1")
    return raw


def _rows(raw: object) -> frozenset[int]:
    return frozenset(_row(each) for each in _list(raw))


def _list(raw: object) -> list[Any]:
    if not isinstance(raw, list):
        raise WrongValue(f"{format_raw_value(raw)} is not a list", fix="put it in square brackets")
    return raw


def _cells_by_column(raw: object) -> Map[str, tuple[str, ...]]:
    return {column: tuple(_text(each) for each in _list(cells)) for column, cells in _table(raw).items()}


def _duration(raw: object) -> MetricColumn:
    told = _column(raw, ("column", "unit"))
    return MetricColumn("duration", told["column"], _scale("s", _text(told.get("unit", ""))))


def _started_at(raw: object) -> Moment:
    told = _column(raw, ("column", "form"))
    return Moment(told["column"], _text(told.get("form", "%Y-%m-%d %H:%M:%S")))


_KEYS: Map[str, Callable[[object], Any]] = {
    "workload": _one_of(*WORKLOADS),
    "tool": _text,
    "version": _text,
    "told_by": _one_of("sender", "receiver"),
    "decimal": _one_of(".", ","),
    "separator": _one_of(",", ";", "\t", "|"),
    "sheet": _text,
    "header": _row,
    "skip": _rows,
    "skip_where": _cells_by_column,
    "duration": _duration,
    "started_at": _started_at,
    "also": lambda raw: tuple(_text(each) for each in _list(raw)),
}
"""How the value of each key is read."""
