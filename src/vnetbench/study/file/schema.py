"""JSON Schema of study files, for editors that complete and check TOML."""

from __future__ import annotations

import tomllib
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.imported_factors import LABEL_PATTERN
from vnetbench.study.factors.level_expressions import MAX_LEVELS
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.factors.value_types import Json
from vnetbench.study.file.contents import MAX_TABLES_BY_NAME, MAX_TABLES_PER_HEADING
from vnetbench.study.file.keys import StudySection, make_value_type_schema
from vnetbench.study.file.sections import (
    EXCLUDE_DESCRIPTION,
    FACTORS_DESCRIPTION,
    HEAD_OF_FILE,
    SECTIONS,
    TESTBED_TABLES,
    TOGETHER_DESCRIPTION,
)


def make_json_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12).

    Every study that loads is valid, except for values that only `vnetbench import` writes. The reverse does
    not hold: the schema checks the form of each value, but no range ends and no contradictions.
    """
    levels = {name: _make_factor_schema(factor) for name, factor in FACTORS.items()}
    top = make_section_schema(SECTIONS[HEAD_OF_FILE])
    testbed = make_section_schema(SECTIONS["testbed"])
    for name, section in TESTBED_TABLES.items():
        table = make_section_schema(section)
        testbed["properties"][name] = {
            "type": "array",
            "description": table["description"],
            "maxItems": MAX_TABLES_BY_NAME[name],
            "items": table,
        }
    properties: dict[str, Any] = {
        **top["properties"],
        **{name: make_section_schema(section) for name, section in SECTIONS.items() if name != HEAD_OF_FILE},
        "testbed": testbed,
        "factors": {
            "type": "object",
            "description": FACTORS_DESCRIPTION,
            "properties": levels,
            "patternProperties": {LABEL_PATTERN: {"type": "string"}},
            "additionalProperties": False,
            "minProperties": 1,
        },
        "exclude": _make_level_tables_schema(EXCLUDE_DESCRIPTION),
        "together": _make_level_tables_schema(TOGETHER_DESCRIPTION),
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


def _make_level_tables_schema(description: str) -> dict[str, Any]:
    return {
        "type": "array",
        "description": description,
        "maxItems": MAX_TABLES_PER_HEADING,
        "items": {
            "type": "object",
            "properties": {name: {"$ref": f"#/properties/factors/properties/{name}"} for name in FACTORS},
            "additionalProperties": False,
            "minProperties": 1,
        },
    }


class _SchemaGenerator(GenerateJsonSchema):
    """Leaves out what a study file does not have: titles of keys, and defaults that cannot be written."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        json_schema = super().default_schema(schema)
        return json_schema if json_schema["default"] != "" else self.generate_inner(schema["schema"])


def make_section_schema(section: type[StudySection]) -> dict[str, Any]:
    """Return the JSON Schema of a section."""
    # In this mode the defaults are those that a study writes.
    schema = section.model_json_schema(schema_generator=_SchemaGenerator, mode="serialization")
    del schema["title"]
    for described in (schema, *schema["properties"].values()):
        described["description"] = " ".join(described["description"].split())
    return schema


def _make_factor_schema(factor: Factor) -> Json:
    """Return the schema of a factor: one level, an expression, or a list of both."""
    one = make_value_type_schema(factor.value_type, several=True)
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


def _schema_alternatives(schema: Json) -> list[Any]:
    alternatives = schema.get("anyOf", [schema])
    assert isinstance(alternatives, list)
    return alternatives


def _parse_toml_value(example: str) -> object:
    return tomllib.loads(f"example = {example}")["example"]
