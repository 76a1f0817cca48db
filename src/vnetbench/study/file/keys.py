"""What a section of a study file is, and a key of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study.factors.value_types import Kind
from vnetbench.study.model import Level


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    kind: Kind
    default: Level | None
    """What the field of `study.model` is without the key; for a required key nothing."""
    description: str
    example: str
    """A value as it stands in a study file (TOML)."""
    field: str = ""
    """Its field in `study.model` where that has another name (it carries the unit)."""
    absent: str = ""
    """The word that stands for None."""
    required: bool = False

    @property
    def attribute(self) -> str:
        """Its field in `study.model`."""
        return self.field or self.name

    @property
    def spelled_default(self) -> str:
        """The default as one would write it; empty where nothing says the same as leaving the key out."""
        if self.default is None or self.required:
            return self.absent
        return self.kind.spell(self.default)


@dataclass(frozen=True)
class Section:
    """A heading of a study file and what may stand below it."""

    name: str
    description: str
    keys: Mapping[str, Key]


def section_of(name: str, description: str, *keys: Key) -> Section:
    """A section by this name, with its keys in this order."""
    return Section(name, description, {key.name: key for key in keys})
