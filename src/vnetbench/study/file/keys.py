"""Sections of a study file as pydantic models: a field is a key with its format, default and description."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from vnetbench.errors import BenchError
from vnetbench.study.factors.value_types import Json, ValueType
from vnetbench.study.model import Level


@dataclass(frozen=True)
class KeyFormat:
    """How a study file writes a key; the annotation of its field."""

    value_type: ValueType
    example: str
    """A value as TOML, as it stands in a study file."""
    none_word: str = ""
    """Keyword that stands for None."""

    def parse_level_or_none_word(self, raw: object) -> Level | None:
        """Return the value of a raw TOML value; raises a PydanticCustomError with `what` and `fix`."""
        try:
            value = self.value_type.parse(raw)
        except BenchError as error:
            context = {"what": error.what, "fix": error.fix}
            raise PydanticCustomError("wrong_value", "wrong value", context) from error
        return None if self.none_word and value == self.none_word else value

    def format_default(self, default: Level | None) -> Level:
        """Return a default as a study writes it; empty if no value is the same as leaving the key out."""
        if default is None:
            return self.none_word
        # A number or a boolean has no quotes; a quantity or a keyword is a string.
        is_bare = isinstance(default, int) and self.value_type.non_string_schemas
        return default if is_bare else self.value_type.format(default)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The JSON Schema shows the default that this serializer returns.
        write = core_schema.plain_serializer_function_ser_schema(self.format_default, when_used="json")
        return core_schema.no_info_plain_validator_function(
            self.parse_level_or_none_word, serialization=write
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        example = tomllib.loads(f"example = {self.example}")["example"]
        return {**make_value_type_schema(self.value_type), "examples": [example]}


class StudySection(BaseModel):
    """The keys under one heading of a study file; the docstrings are the reference."""

    model_config = ConfigDict(extra="forbid")
    heading: ClassVar[str]
    """Heading in the file."""

    @classmethod
    def fields_by_key(cls) -> Mapping[str, FieldInfo]:
        """Return the fields by the names of their keys."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


def get_key_format(field: FieldInfo) -> KeyFormat:
    """Return how a study file writes the key of a field."""
    return next(each for each in field.metadata if isinstance(each, KeyFormat))


def make_value_type_schema(value_type: ValueType, *, several: bool = False) -> Json:
    """Return the JSON Schema of a value, or with `several` of an expression of values, such as a range."""
    forms: list[Json] = [{"enum": list(value_type.keywords)}] if value_type.keywords else []
    forms += value_type.non_string_schemas
    if value_type.pattern:
        more = r"(,|\.\.)" if not value_type.has_commas else ","
        rest = rf"(\s*{more}\s*({value_type.pattern}))*" if several else ""
        forms.append({"type": "string", "pattern": rf"^\s*({value_type.pattern}){rest}\s*$"})
    return forms[0] if len(forms) == 1 else {"anyOf": forms}
