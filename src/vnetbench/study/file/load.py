"""Loads a study from its file, or raises everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vnetbench.printable import make_printable
from vnetbench.study.file.contents import parse_file
from vnetbench.study.file.document import MAX_CHARACTERS, read_document
from vnetbench.study.file.overrides import parse_overrides
from vnetbench.study.file.sections import HEAD_OF_FILE, SECTIONS, HeadSection
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import (
    ExistingEndpointSpec,
    FactorLevels,
    Precision,
    SearchSpec,
    Study,
    TestbedSpec,
    Timing,
)
from vnetbench.study.problems import Problem, StudyError, StudyLocation, suggest_fix
from vnetbench.study.rules.study_checks import check_study, check_table_levels
from vnetbench.study.teams import TeamSpec
from vnetbench.study.workloads import WORKLOADS, SearchUse


def load_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """Load a study file and apply the `--set` arguments.

    Raises:
        StudyError: with all problems of the file and the arguments.
    """
    try:
        with path.open("rb") as file:
            # A character has at most four bytes: this is enough to see that there are too many.
            raw = file.read(4 * MAX_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise StudyError([_describe_unreadable_file(path, error)]) from error
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        location = StudyLocation(f"{make_printable(str(path))}:{line}", line)
        problem = location.make_problem("this line is not UTF-8", fix="save the file as UTF-8")
        raise StudyError([problem]) from error
    return parse_study(text, str(path), overrides)


def parse_study(text: str, path: str | None, overrides: Sequence[str] = ()) -> Study:
    """Parse the text of a study file and apply the `--set` arguments.

    Args:
        text: Text of the study file.
        path: Path of the study file for error messages; the file is not read.
        overrides: The `--set` arguments.

    Raises:
        StudyError: with all problems of the text and the arguments.
    """
    document = read_document(text, path)
    file = parse_file(document)
    changes = parse_overrides(overrides)
    problems = [*document.problems, *file.problems, *changes.problems]
    factors = {**file.factors, **changes.factors}
    if not factors and not problems and file.field_values_by_section["testbed"].get("lab") != IMPORTED_LAB:
        fix = 'write [factors] and a line such as streams = "1..4" under it'
        problems.append(document.locate("factors").make_problem("the study has no factor", fix=fix))
    if problems:
        raise StudyError(problems)
    values = {
        name: {**file.field_values_by_section[name], **changes.field_values_by_section[name]}
        for name in SECTIONS
    }
    defaults = {key: field.default for key, field in HeadSection.fields_by_key().items()}
    top_level = defaults | values[HEAD_OF_FILE]
    has_search_keys = "search" in document.values or bool(changes.field_values_by_section["search"])
    needs_search = has_search_keys or WORKLOADS[top_level["workload"]].search_use is SearchUse.ALWAYS
    study = Study(
        **top_level,
        testbed=_make_testbed(values["testbed"], file.testbed_tables),
        factors=tuple(FactorLevels(name, levels) for name, levels in factors.items()),
        exclude=tuple(file.tables_by_heading_and_number["exclude"].values()),
        together=tuple(
            {name: levels[0] for name, levels in table.items()}
            for table in file.tables_by_heading_and_number["together"].values()
        ),
        timing=_make_timing(top_level["workload"], values["timing"]),
        precision=Precision(**values["precision"]),
        search=SearchSpec(**values["search"]) if needs_search else None,
        text=text,
        path=path,
        overrides=tuple(overrides),
    )

    def locate(*keys: str | int) -> StudyLocation:
        return changes.override_locations.get(keys) or document.locate(*keys)

    problems += [
        problem
        for heading, tables in file.tables_by_heading_and_number.items()
        for number, table in tables.items()
        for problem in check_table_levels(table, (heading, number), (file.factors, changes.factors), locate)
    ]
    problems += check_study(study, locate)
    if problems:
        raise StudyError(problems)
    return study


def _make_testbed(
    values: Mapping[str, Any], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> TestbedSpec:
    return TestbedSpec(
        **values,
        existing_endpoints=tuple(ExistingEndpointSpec(**each) for each in tables["host"]),
        teams=tuple(TeamSpec(**each) for each in tables["team"]),
    )


def _make_timing(workload: str, values: Mapping[str, Any]) -> Timing:
    timing = Timing(**values)
    if timing.warmup_s is None:
        return replace(timing, warmup_s=WORKLOADS[workload].default_warmup_s)
    return timing


def _describe_unreadable_file(path: Path, error: OSError | ValueError) -> Problem:
    reason = error.strerror if isinstance(error, OSError) else None
    fix = "name a study file, such as studies/jumbo-frames.toml"
    if isinstance(error, FileNotFoundError) and path.parent.is_dir():
        fix = suggest_fix(path.name, (each.name for each in path.parent.glob("*.toml")), otherwise=fix)
    location = StudyLocation(make_printable(str(path)))
    return location.make_problem(f"the study file cannot be read: {reason or error}", fix=fix)
