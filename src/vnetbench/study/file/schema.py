"""JSON Schema of study files, for editors that complete and check TOML."""

from __future__ import annotations

import tomllib
from typing import Any

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.imported_factors import LABEL_PATTERN
from vnetbench.study.factors.level_expressions import MAX_LEVELS
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.factors.value_types import Json, ValueType
from vnetbench.study.file.contents import MAX_HOSTS, MAX_TABLES
from vnetbench.study.file.host_section import HOST_SECTION
from vnetbench.study.file.keys import StudyKey, StudySection
from vnetbench.study.file.sections import (
    EXCLUDE_DESCRIPTION,
    FACTORS_DESCRIPTION,
    SECTIONS,
    TOGETHER_DESCRIPTION,
    TOP_LEVEL,
)


def json_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12).

    Every study that loads is valid, except for values that only `vnetbench import` writes. The reverse does
    not hold: the schema checks the form of each value, but no range ends and no contradictions.
    """
    levels = {name: _factor_schema(factor) for name, factor in FACTORS.items()}
    top = _section_schema(SECTIONS[TOP_LEVEL])
    testbed = _section_schema(SECTIONS["testbed"])
    testbed["properties"]["host"] = {
        "type": "array",
        "description": HOST_SECTION.description,
        "maxItems": MAX_HOSTS,
        "items": _section_schema(HOST_SECTION),
    }
    properties: dict[str, Any] = {
        **top["properties"],
        **{name: _section_schema(section) for name, section in SECTIONS.items() if name != TOP_LEVEL},
        "testbed": testbed,
        "factors": {
            "type": "object",
            "description": FACTORS_DESCRIPTION,
            "properties": levels,
            "patternProperties": {LABEL_PATTERN: {"type": "string"}},
            "additionalProperties": False,
            "minProperties": 1,
        },
        "exclude": _level_tables_schema(EXCLUDE_DESCRIPTION),
        "together": _level_tables_schema(TOGETHER_DESCRIPTION),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study of vnetbench",
        "description": "A study: factors and their levels, a workload, a testbed and a precision.",
        "type": "object",
        "properties": properties,
        "required": [*top["required"], "factors"],
        "additionalProperties": False,
    }


def _level_tables_schema(description: str) -> dict[str, Any]:
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


def _section_schema(section: StudySection) -> dict[str, Any]:
    return {
        "type": "object",
        "description": section.description,
        "properties": {name: _key_schema(key) for name, key in section.keys.items()},
        "required": [name for name, key in section.keys.items() if key.required],
        "additionalProperties": False,
    }


def _key_schema(key: StudyKey) -> Json:
    schema: Json = {
        "description": key.description,
        **_value_type_schema(key.value_type),
        "examples": [_parse_toml_value(key.example)],
    }
    if key.default_text:
        # A number or a boolean has no quotes; a quantity or a keyword is a string.
        bare = isinstance(key.default, int) and key.value_type.non_string_schemas
        schema["default"] = key.default if bare else key.default_text
    return schema


def _factor_schema(factor: Factor) -> Json:
    """Return the schema of a factor: one level, an expression, or a list of both."""
    one = _value_type_schema(factor.value_type, several=True)
    schema: Json = {
        "description": factor.description,
        "anyOf": [
            *_schema_alternatives(one),
            {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_LEVELS},
        ],
        "examples": [_parse_toml_value(example) for example in factor.examples],
    }
    if factor.default is not None:
        schema["default"] = (
            factor.default if factor.value_type.is_integer else factor.value_type.format(factor.default)
        )
    return schema


def _value_type_schema(value_type: ValueType, *, several: bool = False) -> Json:
    """Return the schema of a value, or with `several` of an expression of values, such as a range."""
    forms: list[Json] = [{"enum": list(value_type.keywords)}] if value_type.keywords else []
    forms += value_type.non_string_schemas
    if value_type.pattern:
        more = r"(,|\.\.)" if not value_type.has_commas else ","
        rest = rf"(\s*{more}\s*({value_type.pattern}))*" if several else ""
        forms.append({"type": "string", "pattern": rf"^\s*({value_type.pattern}){rest}\s*$"})
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _schema_alternatives(schema: Json) -> list[Any]:
    alternatives = schema.get("anyOf", [schema])
    assert isinstance(alternatives, list)
    return alternatives


def _parse_toml_value(example: str) -> object:
    return tomllib.loads(f"example = {example}")["example"]
