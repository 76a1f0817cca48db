"""Sections and keys of a study file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.model import Level


@dataclass(frozen=True)
class StudyKey:
    """One key of a section."""

    name: str
    value_type: ValueType
    default: Level | None
    """Value without the key, as in `study.model`; a required key has no meaningful default."""
    description: str
    example: str
    """A value as TOML, as it stands in a study file."""
    model_field: str = ""
    """Field in `study.model` if its name differs from the key, such as one with a unit."""
    none_word: str = ""
    """Keyword that stands for None."""
    required: bool = False

    @property
    def field_name(self) -> str:
        """Field in `study.model`."""
        return self.model_field or self.name

    @property
    def default_text(self) -> str:
        """Default as a study writes it; empty if no value is the same as leaving the key out."""
        if self.default is None or self.required:
            return self.none_word
        return self.value_type.format(self.default)


@dataclass(frozen=True)
class StudySection:
    """One heading of a study file, and the keys under it."""

    name: str
    description: str
    keys: Mapping[str, StudyKey]


def make_section(name: str, description: str, *keys: StudyKey) -> StudySection:
    """Make a section with its keys in this order."""
    return StudySection(name, description, {key.name: key for key in keys})
