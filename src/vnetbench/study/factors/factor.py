"""What a factor is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.labs import LABS
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS


@dataclass(frozen=True)
class Factor:
    """One factor."""

    name: str
    value_type: ValueType
    unit: str
    """Unit of the canonical levels that are numbers; empty for words."""
    default: Level | None
    """The level when a study does not name the factor; None: as the system has it."""
    description: str
    examples: tuple[str, ...]
    """Values as they stand in a study file (TOML)."""
    workloads: tuple[str, ...] = WORKLOADS
    """Those that it holds for."""
    workload_defaults: Mapping[str, Level] = field(default_factory=dict)
    """Workloads that have another default."""
    labs: tuple[str, ...] = LABS
    """Those that can set it."""

    @property
    def is_numeric(self) -> bool:
        """Whether its levels are numbers, a word such as "auto" or "none" at most beside them."""
        return self.unit != ""
