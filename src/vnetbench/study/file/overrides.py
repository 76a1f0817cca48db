"""The `--set` arguments, which change the levels and keys of a study file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable

from vnetbench.printable import make_printable
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.file.contents import HEADINGS, StudyContents
from vnetbench.study.file.keys import get_key_format
from vnetbench.study.file.sections import HEAD_OF_FILE, SECTIONS
from vnetbench.study.problems import StudyLocation, WrongValue, format_raw_value, suggest_fix

_OVERRIDABLE_HEAD_KEYS = ("combine",)
"""Keys at the head of the file that `--set` can change. The others say what the study is."""


def parse_overrides(overrides: Iterable[str]) -> StudyContents:
    """Return the contents of all `--set` arguments."""
    contents = StudyContents()
    for override in overrides:
        location = StudyLocation(f"--set {make_printable(override[:80])}")
        try:
            _parse_override(contents, override, location)
        except WrongValue as error:
            contents.problems.append(location.wrap_error(error))
    return contents


def _parse_override(contents: StudyContents, override: str, location: StudyLocation) -> None:
    name, equals, text = (part.strip() for part in override.partition("="))
    section, dot, key = name.partition(".")
    path = (section, key) if dot else ("factors", name)
    sections = [each for each in HEADINGS if name in SECTIONS[each].fields_by_key()]
    if equals and name in _OVERRIDABLE_HEAD_KEYS:
        value_type = get_key_format(SECTIONS[HEAD_OF_FILE].model_fields[name]).value_type
        contents.override_locations[(name,)] = location
        contents.field_values_by_section[HEAD_OF_FILE][name] = value_type.parse(text)
        return
    if equals and sections:
        raise WrongValue(
            f"{name} is not a factor", fix=f"write --set {sections[0]}.{name}={make_printable(text)}"
        )
    if not equals or not name:
        raise WrongValue(
            "--set needs a factor and its levels",
            fix="write --set streams=1,4 or --set precision.half_width=5%",
        )
    if path in contents.override_locations:
        raise WrongValue(f"{format_raw_value(name)} is set twice", fix="write all of its levels in one --set")
    contents.override_locations[path] = location
    if not dot:
        contents.factors |= contents.parse_factors({name: _parse_raw_value(text)}, lambda *_: location)
    elif section in HEADINGS:
        contents.add_section(section, {make_printable(key): _parse_raw_value(text)}, lambda *_: location)
    else:
        choices = [f"{heading}.{each}" for heading in HEADINGS for each in SECTIONS[heading].fields_by_key()]
        fix = suggest_fix(
            name, [*choices, *FACTORS], otherwise=f"use one of these sections: {', '.join(HEADINGS)}"
        )
        raise WrongValue(f"{format_raw_value(name)} cannot be set", fix=fix)


def _parse_raw_value(text: str) -> object:
    """Return what TOML would give for the text: a list, true, false, or the text itself as a string."""
    if text.startswith("[") and text.endswith("]") and text.count("[") == 1:
        try:
            return tomllib.loads(f"levels = {text}")["levels"]
        except tomllib.TOMLDecodeError:
            return text
    return {"true": True, "false": False}.get(text, text)
