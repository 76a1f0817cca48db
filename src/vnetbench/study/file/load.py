"""From a study file to a Study, or to everything that is wrong with it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.study.factors.imported_factors import allow_unspecified
from vnetbench.study.factors.level_expressions import parse_levels
from vnetbench.study.factors.registry import FACTORS, find_factor
from vnetbench.study.file.document import MAX_CHARACTERS, TomlDocument, read_document
from vnetbench.study.file.host_section import HOST_SECTION
from vnetbench.study.file.keys import StudyKey, StudySection
from vnetbench.study.file.sections import (
    LEVEL_TABLES,
    SECTIONS,
    TOP_LEVEL,
    misplaced_word_fix,
    section_location,
)
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import (
    FactorLevels,
    HostSpec,
    Level,
    Precision,
    SearchSpec,
    Study,
    TestbedSpec,
    Timing,
)
from vnetbench.study.problems import (
    Problem,
    StudyError,
    StudyLocation,
    WrongValue,
    find_nearest,
    format_raw_value,
    suggest,
)
from vnetbench.study.rules.study_checks import check_study, check_table_levels
from vnetbench.study.workloads import FRAME_WORKLOADS, FRAMES, SOAK

MAX_TABLES = 200
"""Of `[[exclude]]`, and of `[[together]]`."""
MAX_HOSTS = 64

_SEARCH_WORKLOADS = set(FRAME_WORKLOADS) - {FRAMES}
_HEADINGS = [name for name in SECTIONS if name != TOP_LEVEL]


def load_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """The study in a file, changed by `--set` arguments; raises StudyError with every problem of both."""
    try:
        with path.open("rb") as file:
            # A character has four bytes at most: enough to see that there are too many.
            raw = file.read(4 * MAX_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise StudyError([_unreadable_file(path, error)]) from error
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        wrong = WrongValue("this line is not UTF-8", fix="save the file as UTF-8")
        raise StudyError(
            [StudyLocation(f"{make_printable(str(path))}:{line}", line).make_problem(wrong)]
        ) from error
    return parse_study(text, str(path), overrides)


def parse_study(text: str, path: str | None, overrides: Sequence[str] = ()) -> Study:
    """The study in a text, changed by `--set` arguments; raises StudyError with every problem of both.

    `path` is where the text came from, for the places of problems; it is not read.
    """
    document = read_document(text, path)
    file = _parse_file(document)
    changes = _parse_overrides(overrides)
    problems = [*document.problems, *file.problems, *changes.problems]
    factors = {**file.factors, **changes.factors}
    if not factors and not problems and file.values["testbed"].get("lab") != IMPORTED:
        wrong = WrongValue(
            "the study has no factor", fix='write [factors] and below it, say, streams = "1..4"'
        )
        problems.append(document.locate("factors").make_problem(wrong))
    if problems:
        raise StudyError(problems)
    values = {name: {**file.values[name], **changes.values[name]} for name in SECTIONS}
    top = _model_fields(TOP_LEVEL, values)
    # Of the other workloads of frames a search is a part anyway.
    searches = "search" in document.values or changes.values["search"] or top["workload"] in _SEARCH_WORKLOADS
    study = Study(
        **top,
        testbed=TestbedSpec(**_model_fields("testbed", values), hosts=tuple(file.hosts)),
        factors=tuple(FactorLevels(name, levels) for name, levels in factors.items()),
        exclude=tuple(file.tables["exclude"].values()),
        together=tuple(
            {name: levels[0] for name, levels in table.items()} for table in file.tables["together"].values()
        ),
        timing=_make_timing(top["workload"], values),
        precision=Precision(**_model_fields("precision", values)),
        search=SearchSpec(**_model_fields("search", values)) if searches else None,
        text=text,
        path=path,
        overrides=tuple(overrides),
    )

    def place(*keys: str | int) -> StudyLocation:
        return changes.places.get(keys) or document.locate(*keys)

    problems += [
        problem
        for heading, tables in file.tables.items()
        for number, table in tables.items()
        for problem in check_table_levels(table, (heading, number), (file.factors, changes.factors), place)
    ]
    problems += check_study(study, place)
    if problems:
        raise StudyError(problems)
    return study


@dataclass
class _ParsedInput:
    """What a file, or the `--set` arguments together, say, and what is wrong with it."""

    values: dict[str, dict[str, object]] = field(default_factory=lambda: {name: {} for name in SECTIONS})
    factors: dict[str, tuple[Level, ...]] = field(default_factory=dict)
    tables: dict[str, dict[int, Mapping[str, tuple[Level, ...]]]] = field(
        default_factory=lambda: {name: {} for name in LEVEL_TABLES}
    )
    """Those below each heading of `TABLES`, by their place in the file."""
    hosts: list[HostSpec] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    places: dict[tuple[str | int, ...], StudyLocation] = field(default_factory=dict)
    """Of the `--set` arguments."""


_PlaceOf = Callable[..., StudyLocation]


def _make_timing(workload: str, values: Mapping[str, Mapping[str, object]]) -> Timing:
    timing = Timing(**_model_fields("timing", values))
    # A soak asks what is lost in all of its time: a part that was cut off would hide some.
    return replace(timing, warmup_s=0.0) if workload == SOAK and timing.warmup_s is None else timing


def _model_fields(section: str, values: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
    """The section's fields of `study.model`, with their defaults."""
    return {
        key.field_name: values[section].get(name, key.default) for name, key in SECTIONS[section].keys.items()
    }


def _parse_file(document: TomlDocument) -> _ParsedInput:
    read = _ParsedInput()
    top = {name: raw for name, raw in document.values.items() if name in SECTIONS[TOP_LEVEL].keys}
    _parse_section(read, TOP_LEVEL, top, document.locate)
    for name, raw in document.values.items():
        place = document.locate(name)
        if name in _HEADINGS or name == "factors":
            if not isinstance(raw, dict):
                wrong = WrongValue(
                    f"{name} is a section, not {format_raw_value(raw)}",
                    fix=f"write [{name}] and its keys below it",
                )
                read.problems.append(place.make_problem(wrong))
            elif name == "factors":
                read.factors = _parse_factors(read, raw, document.locate, "factors")
            else:
                keys = dict(raw)
                if name == "testbed" and "host" in keys:
                    _parse_hosts(read, keys.pop("host"), document.locate)
                _parse_section(read, name, keys, document.locate)
        elif name in LEVEL_TABLES:
            _parse_level_tables(read, name, raw, document.locate)
        elif name not in top:
            read.problems.append(place.make_problem(_unknown_key(name, SECTIONS[TOP_LEVEL])))
    # A line that is no TOML was left out: what it held is not known to be missing.
    if not document.problems:
        for key in SECTIONS[TOP_LEVEL].keys.values():
            if key.required and key.name not in top:
                wrong = WrongValue(f"the study has no {key.name}", fix=f"write {key.name} = {key.example}")
                read.problems.append(document.locate().make_problem(wrong))
    return read


def _parse_section(read: _ParsedInput, section: str, raw: Mapping[str, object], place: _PlaceOf) -> None:
    above = () if section == TOP_LEVEL else (section,)
    read.values[section] |= _parse_keys(read, SECTIONS[section], raw, place, *above)


def _parse_keys(
    read: _ParsedInput, section: StudySection, raw: Mapping[str, object], place: _PlaceOf, *above: str | int
) -> dict[str, object]:
    """The values of a table's keys; problems go to `read`."""
    found: dict[str, object] = {}
    for name, value in raw.items():
        try:
            if name not in section.keys:
                raise _unknown_key(name, section)
            found[name] = _parse_value(section.keys[name], value)
        except BenchError as error:
            about = f"{name}: " if name in section.keys else ""
            problem = WrongValue(about + error.what, fix=error.fix)
            read.problems.append(place(*above, name).make_problem(problem))
    return found


def _parse_value(key: StudyKey, raw: object) -> object:
    value = key.value_type.parse(raw)
    return None if key.none_word and value == key.none_word else value


def _unknown_key(name: str, section: StudySection) -> WrongValue:
    what = f"{format_raw_value(name)} is not a key {section_location(section.name)}"
    if home := misplaced_word_fix(name):
        return WrongValue(what, fix=home)
    headings = [*_HEADINGS, "factors", *LEVEL_TABLES] if section.name == TOP_LEVEL else []
    choices = [*section.keys, *headings]
    if not find_nearest(name, choices):
        everywhere = [*FACTORS, *(key for each in SECTIONS.values() for key in each.keys)]
        if elsewhere := find_nearest(name, everywhere):
            return WrongValue(what, fix=f'did you mean "{elsewhere}"? {misplaced_word_fix(elsewhere)}')
    return WrongValue(what, fix=suggest(name, choices, otherwise=f"keys: {', '.join(choices)}"))


def _parse_factors(
    read: _ParsedInput, raw: Mapping[str, object], place: _PlaceOf, *above: str | int
) -> dict[str, tuple[Level, ...]]:
    """The levels of each factor of a table; problems go to `read`."""
    found: dict[str, tuple[Level, ...]] = {}
    for name, value in raw.items():
        try:
            kind = allow_unspecified(find_factor(name).value_type)
        except BenchError as error:
            known = WrongValue(error.what, fix=misplaced_word_fix(name) or error.fix)
            read.problems.append(place(*above, name).make_problem(known))
            continue
        levels = parse_levels(kind, value)
        wrongs: list[tuple[int | None, BenchError]] = list(levels.problems)
        first: dict[Level, None] = {}
        for position, level in levels.levels:
            if level in first:
                twice = f"the level {format_raw_value(kind.format(level))} is named twice"
                wrongs.append((position, WrongValue(twice, fix="take one of them away")))
            first[level] = None
        for position, wrong in wrongs:
            at = place(*above, name) if position is None else place(*above, name, position)
            read.problems.append(at.make_problem(WrongValue(f"{name}: {wrong.what}", fix=wrong.fix)))
        found[name] = tuple(first)
    return found


def _parse_hosts(read: _ParsedInput, raw: object, place: _PlaceOf) -> None:
    tables = raw if isinstance(raw, list) else [raw]
    if len(tables) > MAX_HOSTS:
        wrong = WrongValue(f"{len(tables)} hosts are too many", fix=f"write {MAX_HOSTS} at most")
        read.problems.append(place("testbed", "host").make_problem(wrong))
        return
    for number, table in enumerate(tables):
        at = ("testbed", "host", number)
        if not isinstance(raw, list) or not isinstance(table, dict):
            wrong = WrongValue(
                "host is a list of tables", fix="write [[testbed.host]] and below it name = and its address"
            )
            read.problems.append(place(*at).make_problem(wrong))
            continue
        values = _parse_keys(read, HOST_SECTION, table, place, *at)
        if "name" not in table:
            wrong = WrongValue(
                "this host has no name", fix=f"write name = {HOST_SECTION.keys['name'].example}"
            )
            read.problems.append(place(*at).make_problem(wrong))
        fields: dict[str, Any] = {
            key.field_name: values.get(name, key.default) for name, key in HOST_SECTION.keys.items()
        }
        read.hosts.append(HostSpec(**fields))


def _parse_level_tables(read: _ParsedInput, heading: str, raw: object, place: _PlaceOf) -> None:
    """The tables of levels below a heading that may stand several times; problems go to `read`."""
    tables = raw if isinstance(raw, list) else [raw]
    if len(tables) > MAX_TABLES:
        wrong = WrongValue(f"{len(tables)} [[{heading}]] are too many", fix=f"write {MAX_TABLES} at most")
        read.problems.append(place(heading).make_problem(wrong))
        return
    for number, table in enumerate(tables):
        at = place(heading, number)
        if not isinstance(raw, list) or not isinstance(table, dict):
            wrong = WrongValue(
                f"{heading} is a list of tables", fix=f"write [[{heading}]] and below it factor = levels"
            )
            read.problems.append(at.make_problem(wrong))
        elif not table:
            wrong = WrongValue(
                f"this [[{heading}]] names no factor", fix="write factor = levels below it, or take it away"
            )
            read.problems.append(at.make_problem(wrong))
        else:
            read.tables[heading][number] = _parse_factors(read, table, place, heading, number)


def _parse_overrides(overrides: Iterable[str]) -> _ParsedInput:
    read = _ParsedInput()
    for override in overrides:
        place = StudyLocation(f"--set {make_printable(override[:80])}")
        try:
            _parse_override(read, override, place)
        except WrongValue as error:
            read.problems.append(place.make_problem(error))
    return read


def _parse_override(read: _ParsedInput, override: str, place: StudyLocation) -> None:
    name, equals, text = (part.strip() for part in override.partition("="))
    section, dot, key = name.partition(".")
    path = (section, key) if dot else ("factors", name)
    homes = [each for each in _HEADINGS if name in SECTIONS[each].keys]
    if equals and homes:
        raise WrongValue(
            f"{name} is not a factor", fix=f"write --set {homes[0]}.{name}={make_printable(text)}"
        )
    if not equals or not name:
        raise WrongValue(
            "a factor and its levels are expected",
            fix="write --set streams=1,4 or --set precision.half_width=5%",
        )
    if path in read.places:
        raise WrongValue(f"{format_raw_value(name)} is set twice", fix="write all of its levels in one --set")
    read.places[path] = place
    if not dot:
        read.factors |= _parse_factors(read, {name: _parse_override_value(text)}, lambda *_: place)
    elif section in _HEADINGS:
        _parse_section(read, section, {key: _parse_override_value(text)}, lambda *_: place)
    else:
        choices = [f"{s}.{k}" for s in _HEADINGS for k in SECTIONS[s].keys]
        fix = suggest(name, [*choices, *FACTORS], otherwise=f"sections: {', '.join(_HEADINGS)}")
        raise WrongValue(f"{format_raw_value(name)} cannot be set", fix=fix)


def _parse_override_value(text: str) -> object:
    """What a file would have for it: there true and false stand without quotes; here only lists have any."""
    if text.startswith("[") and text.endswith("]") and text.count("[") == 1:
        try:
            return tomllib.loads(f"levels = {text}")["levels"]
        except tomllib.TOMLDecodeError:
            return text
    return {"true": True, "false": False}.get(text, text)


def _unreadable_file(path: Path, error: OSError | ValueError) -> Problem:
    reason = error.strerror if isinstance(error, OSError) else None
    fix = "name a study file, such as studies/jumbo-frames.toml"
    if isinstance(error, FileNotFoundError) and path.parent.is_dir():
        fix = suggest(path.name, (near.name for near in path.parent.glob("*.toml")), otherwise=fix)
    wrong = WrongValue(f"the study file cannot be read: {reason or error}", fix=fix)
    return StudyLocation(make_printable(str(path))).make_problem(wrong)
