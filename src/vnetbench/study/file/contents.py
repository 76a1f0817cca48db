"""Contents of a study file, or of the `--set` arguments: valid values, and the problems of all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from vnetbench.errors import BenchError
from vnetbench.study.factors.imported_factors import allow_unspecified
from vnetbench.study.factors.level_expressions import parse_levels
from vnetbench.study.factors.registry import FACTORS, require_factor_or_label
from vnetbench.study.file.document import TomlDocument
from vnetbench.study.file.keys import StudySection, get_key_format
from vnetbench.study.file.sections import (
    HEAD_OF_FILE,
    LEVEL_TABLES,
    SECTIONS,
    TESTBED_TABLES,
    describe_section_location,
    suggest_right_location,
)
from vnetbench.study.model import Level
from vnetbench.study.problems import (
    KeyLocator,
    Problem,
    StudyLocation,
    WrongValue,
    find_nearest,
    format_raw_value,
    suggest_fix,
)

MAX_TABLES_PER_HEADING = 200
"""Maximum number of `[[exclude]]`, and of `[[together]]`."""
MAX_TABLES_BY_NAME = {"host": 64, "team": 8}
"""Maximum number of each `[[testbed.NAME]]`."""

HEADINGS = [name for name in SECTIONS if name != HEAD_OF_FILE]

LevelTable = dict[str, tuple[Level, ...]]


@dataclass
class StudyContents:
    """Values of a study file or of all `--set` arguments, with their problems."""

    has_no_skipped_lines: bool = True
    """Whether no line was skipped; otherwise a missing key is no problem, because that line may have it."""
    field_values_by_section: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {name: {} for name in SECTIONS}
    )
    """Values that each section sets, by their fields in `study.model`."""
    factors: LevelTable = field(default_factory=dict)
    tables_by_heading_and_number: dict[str, dict[int, LevelTable]] = field(
        default_factory=lambda: {name: {} for name in LEVEL_TABLES}
    )
    """Tables under each heading of `LEVEL_TABLES`, by their position in the file."""
    testbed_tables: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in TESTBED_TABLES}
    )
    """Values that each `[[testbed.NAME]]` sets, by its name."""
    problems: list[Problem] = field(default_factory=list)
    override_locations: dict[tuple[str | int, ...], StudyLocation] = field(default_factory=dict)
    """Locations of the `--set` arguments, by section and key."""

    def add_section(self, section: str, raw: Mapping[str, object], locate: KeyLocator) -> None:
        """Parse the keys of a section."""
        path = () if section == HEAD_OF_FILE else (section,)
        self.field_values_by_section[section] |= self._parse_keys(SECTIONS[section], raw, locate, *path)

    def _parse_keys(
        self, section: type[StudySection], raw: Mapping[str, object], locate: KeyLocator, *path: str | int
    ) -> dict[str, Any]:
        try:
            return section.model_validate(raw).model_dump(exclude_unset=True)
        except ValidationError as invalid:
            for error in invalid.errors(include_url=False, include_input=False):
                name = str(error["loc"][0])
                if error["type"] == "missing" and not self.has_no_skipped_lines:
                    continue
                location = locate(*path) if error["type"] == "missing" else locate(*path, name)
                self.problems.append(location.wrap_error(_explain_error(error, name, section)))
            return {}

    def parse_factors(self, raw: Mapping[str, object], locate: KeyLocator, *path: str | int) -> LevelTable:
        """Return the levels of each factor of a table."""
        table: LevelTable = {}
        for name, raw_levels in raw.items():
            try:
                value_type = allow_unspecified(require_factor_or_label(name).value_type)
            except BenchError as error:
                unknown = WrongValue(error.what, fix=suggest_right_location(name) or error.fix)
                self.problems.append(locate(*path, name).wrap_error(unknown))
                continue
            parsed = parse_levels(value_type, raw_levels)
            errors: list[tuple[int | None, BenchError]] = list(parsed.errors_with_positions)
            levels: dict[Level, None] = {}
            for position, level in parsed.levels_with_positions:
                if level in levels:
                    text = format_raw_value(value_type.format(level))
                    errors.append(
                        (position, WrongValue(f"the level {text} appears twice", fix="remove one of them"))
                    )
                levels[level] = None
            for position, wrong in errors:
                location = locate(*path, name) if position is None else locate(*path, name, position)
                self.problems.append(location.make_problem(f"{name}: {wrong.what}", fix=wrong.fix or ""))
            table[name] = tuple(levels)
        return table

    def add_testbed_tables(self, name: str, raw: object, locate: KeyLocator) -> None:
        """Parse the tables `[[testbed.host]]` or `[[testbed.team]]`."""
        tables = raw if isinstance(raw, list) else [raw]
        if len(tables) > (most := MAX_TABLES_BY_NAME[name]):
            self.problems.append(
                locate("testbed", name).make_problem(
                    f"the study has {len(tables)} {name}s, which is too many",
                    fix=f"list at most {most} {name}s",
                )
            )
            return
        for number, table in enumerate(tables):
            path = ("testbed", name, number)
            if not isinstance(raw, list) or not isinstance(table, dict):
                self.problems.append(
                    locate(*path).make_problem(
                        f"{name} is not a list of tables",
                        fix=f"write [[testbed.{name}]] and the {name}'s keys under it",
                    )
                )
                continue
            count = len(self.problems)
            fields = self._parse_keys(TESTBED_TABLES[name], table, locate, *path)
            if len(self.problems) == count:
                self.testbed_tables[name].append(fields)

    def add_level_tables(self, heading: str, raw: object, locate: KeyLocator) -> None:
        """Parse the tables `[[exclude]]` or `[[together]]`."""
        tables = raw if isinstance(raw, list) else [raw]
        if len(tables) > MAX_TABLES_PER_HEADING:
            self.problems.append(
                locate(heading).make_problem(
                    f"the study has {len(tables)} tables [[{heading}]], which is too many",
                    fix=f"write at most {MAX_TABLES_PER_HEADING} tables [[{heading}]]",
                )
            )
            return
        for number, table in enumerate(tables):
            location = locate(heading, number)
            if not isinstance(raw, list) or not isinstance(table, dict):
                self.problems.append(
                    location.make_problem(
                        f"{heading} is not a list of tables",
                        fix=f"write [[{heading}]], and lines such as mtu = 9000 under it",
                    )
                )
            elif not table:
                self.problems.append(
                    location.make_problem(
                        f"this [[{heading}]] is empty",
                        fix="write lines such as mtu = 9000 under it, or remove it",
                    )
                )
            else:
                self.tables_by_heading_and_number[heading][number] = self.parse_factors(
                    table, locate, heading, number
                )


def parse_file(document: TomlDocument) -> StudyContents:
    """Return the contents of a study file."""
    contents = StudyContents(has_no_skipped_lines=not document.problems)
    top_level = {
        name: raw for name, raw in document.values.items() if name in SECTIONS[HEAD_OF_FILE].fields_by_key()
    }
    contents.add_section(HEAD_OF_FILE, top_level, document.locate)
    for name, raw in document.values.items():
        location = document.locate(name)
        if name in HEADINGS or name == "factors":
            if not isinstance(raw, dict):
                contents.problems.append(
                    location.make_problem(
                        f"{name} is a section, not {format_raw_value(raw)}",
                        fix=f"write [{name}] and its keys under it",
                    )
                )
            elif name == "factors":
                contents.factors = contents.parse_factors(raw, document.locate, "factors")
            else:
                keys = dict(raw)
                for table in TESTBED_TABLES if name == "testbed" else ():
                    if table in keys:
                        contents.add_testbed_tables(table, keys.pop(table), document.locate)
                contents.add_section(name, keys, document.locate)
        elif name in LEVEL_TABLES:
            contents.add_level_tables(name, raw, document.locate)
        elif name not in top_level:
            contents.problems.append(location.wrap_error(_explain_unknown_key(name, SECTIONS[HEAD_OF_FILE])))
    return contents


def _explain_error(error: ErrorDetails, key_name: str, section: type[StudySection]) -> WrongValue:
    if error["type"] == "extra_forbidden":
        return _explain_unknown_key(key_name, section)
    if error["type"] == "missing":
        tables = {each.heading: name for name, each in TESTBED_TABLES.items()}
        owner = f"this {tables[section.heading]}" if section.heading in tables else "the study"
        return WrongValue(
            f"{owner} has no {key_name}",
            fix=f"write {key_name} = {get_key_format(section.fields_by_key()[key_name]).example}",
        )
    return WrongValue(f"{key_name}: {error['ctx']['what']}", fix=error["ctx"]["fix"])


def _explain_unknown_key(key_name: str, section: type[StudySection]) -> WrongValue:
    what = f"{format_raw_value(key_name)} is not a key {describe_section_location(section.heading)}"
    if fix := suggest_right_location(key_name):
        return WrongValue(what, fix=fix)
    headings = [*HEADINGS, "factors", *LEVEL_TABLES] if section.heading == HEAD_OF_FILE else []
    choices = [*section.fields_by_key(), *headings]
    if not find_nearest(key_name, choices):
        other_words = [*FACTORS, *(key for each in SECTIONS.values() for key in each.fields_by_key())]
        if nearest := find_nearest(key_name, other_words):
            return WrongValue(what, fix=f'did you mean "{nearest}"? {suggest_right_location(nearest)}')
    return WrongValue(
        what, fix=suggest_fix(key_name, choices, otherwise=f"use one of these: {', '.join(choices)}")
    )
