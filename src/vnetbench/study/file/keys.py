"""What a section of a study file is, and a key of one."""

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
    """What the field of `study.model` is without the key; for a required key nothing."""
    description: str
    example: str
    """A value as it stands in a study file (TOML)."""
    model_field: str = ""
    """Its field in `study.model` where that has another name (it carries the unit)."""
    none_word: str = ""
    """The word that stands for None."""
    required: bool = False

    @property
    def field_name(self) -> str:
        """Its field in `study.model`."""
        return self.model_field or self.name

    @property
    def default_text(self) -> str:
        """The default as one would write it; empty where nothing says the same as leaving the key out."""
        if self.default is None or self.required:
            return self.none_word
        return self.value_type.format(self.default)


@dataclass(frozen=True)
class StudySection:
    """A heading of a study file and what may stand below it."""

    name: str
    description: str
    keys: Mapping[str, StudyKey]


def make_section(name: str, description: str, *keys: StudyKey) -> StudySection:
    """A section by this name, with its keys in this order."""
    return StudySection(name, description, {key.name: key for key in keys})
