"""The JSON Schema of study files, for editors that complete and check TOML."""

from __future__ import annotations

import tomllib
from typing import Any

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.imported_factors import LABEL_PATTERN
from vnetbench.study.factors.level_expressions import MAX_LEVELS
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.factors.value_types import Json, Kind
from vnetbench.study.file.host_section import HOST
from vnetbench.study.file.keys import Key, Section
from vnetbench.study.file.load import MAX_HOSTS, MAX_TABLES
from vnetbench.study.file.sections import (
    EXCLUDE_DESCRIPTION,
    FACTORS_DESCRIPTION,
    SECTIONS,
    TOGETHER_DESCRIPTION,
    TOP,
)


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12). Every study that loads is valid by it, but for what only imports write.

    Not the other way round: it knows the form of each value, not what a range ends at or whether two keys
    contradict each other.
    """
    levels = {name: _levels(factor) for name, factor in FACTORS.items()}
    top = _table(SECTIONS[TOP])
    testbed = _table(SECTIONS["testbed"])
    testbed["properties"]["host"] = {
        "type": "array",
        "description": HOST.description,
        "maxItems": MAX_HOSTS,
        "items": _table(HOST),
    }
    properties: dict[str, Any] = {
        **top["properties"],
        **{name: _table(section) for name, section in SECTIONS.items() if name != TOP},
        "testbed": testbed,
        "factors": {
            "type": "object",
            "description": FACTORS_DESCRIPTION,
            "properties": levels,
            "patternProperties": {LABEL_PATTERN: {"type": "string"}},
            "additionalProperties": False,
            "minProperties": 1,
        },
        "exclude": _tables_of_levels(EXCLUDE_DESCRIPTION),
        "together": _tables_of_levels(TOGETHER_DESCRIPTION),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study of vnetbench",
        "description": "What is asked: factors, their levels, a workload, a precision.",
        "type": "object",
        "properties": properties,
        "required": [*top["required"], "factors"],
        "additionalProperties": False,
    }


def _tables_of_levels(description: str) -> dict[str, Any]:
    return {
        "type": "array",
        "description": description,
        "maxItems": MAX_TABLES,
        "items": {
            "type": "object",
            "properties": {name: {"$ref": f"#/properties/factors/properties/{name}"} for name in FACTORS},
            "additionalProperties": False,
            "minProperties": 1,
        },
    }


def _table(section: Section) -> dict[str, Any]:
    return {
        "type": "object",
        "description": section.description,
        "properties": {name: _value(key) for name, key in section.keys.items()},
        "required": [name for name, key in section.keys.items() if key.required],
        "additionalProperties": False,
    }


def _value(key: Key) -> Json:
    schema: Json = {"description": key.description, **_forms(key.kind), "examples": [_toml(key.example)]}
    if key.spelled_default:
        # A number or a truth value stands without quotes; a quantity or a word is text.
        bare = isinstance(key.default, int) and key.kind.other_forms
        schema["default"] = key.default if bare else key.spelled_default
    return schema


def _levels(factor: Factor) -> Json:
    """One level, an expression of several, or a list of either."""
    one = _forms(factor.kind, several=True)
    schema: Json = {
        "description": factor.description,
        "anyOf": [
            *_alternatives(one),
            {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_LEVELS},
        ],
        "examples": [_toml(example) for example in factor.examples],
    }
    if factor.default is not None:
        schema["default"] = factor.default if factor.kind.counts else factor.kind.spell(factor.default)
    return schema


def _forms(kind: Kind, *, several: bool = False) -> Json:
    """The forms that a value of this kind may have; `several`: or an expression of them, such as a range."""
    forms: list[Json] = [{"enum": list(kind.words)}] if kind.words else []
    forms += kind.other_forms
    if kind.pattern:
        more = r"(,|\.\.)" if not kind.commas else ","
        rest = rf"(\s*{more}\s*({kind.pattern}))*" if several else ""
        forms.append({"type": "string", "pattern": rf"^\s*({kind.pattern}){rest}\s*$"})
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _alternatives(schema: Json) -> list[Any]:
    alternatives = schema.get("anyOf", [schema])
    assert isinstance(alternatives, list)
    return alternatives


def _toml(example: str) -> object:
    return tomllib.loads(f"example = {example}")["example"]
