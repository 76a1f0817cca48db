"""Factor: everything that the bench knows about one thing that a study can vary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.labs import LABS
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOAD_NAMES


@dataclass(frozen=True)
class Factor:
    """One factor: its levels, where it applies, how it reads in a sentence, and how it reaches a system."""

    name: str
    value_type: ValueType
    unit: str
    """Unit of the levels that are numbers; "1" for plain counts, empty for keywords."""
    default: Level | None
    """Level when a study does not name the factor; None: the system's own setting stays."""
    description: str
    examples: tuple[str, ...]
    """Values as TOML, as they stand in a study file."""
    workloads: tuple[str, ...] = WORKLOAD_NAMES
    """Workloads that the factor applies to."""
    workload_defaults: Mapping[str, Level] = field(default_factory=dict)
    """Defaults of workloads that differ from `default`."""
    labs: tuple[str, ...] = LABS
    """Labs that can set the factor."""
    label: str = ""
    """Title in tables and charts; empty: made from the name."""
    phrase: str = ""
    """Template of a level inside a sentence, such as `MTU {}`; empty: the label and the level."""
    counted_noun: str = ""
    """What the levels count, such as `stream`, so that a level reads `4 streams`."""
    more_is_better: bool = False
    """A higher level, or `on`, should not lower a rate; a result that contradicts this is a finding."""
    agent_parameter: str = ""
    """Parameter of the agent's `trial.prepare` that carries the level; empty: none carries it alone."""
    knobs: tuple[str, ...] = ()
    """Agent knobs that the factor sets on an endpoint's interface (docs/protocol.md)."""
    knob_fix: str = ""
    """What to do when a system refuses the level or reads back another value."""

    @property
    def is_numeric(self) -> bool:
        """Whether the levels are numbers, apart from a keyword such as `auto` or `none`."""
        return self.unit != ""

    @property
    def title(self) -> str:
        """Label of the factor: `MTU`, `Message size`."""
        return self.label or self.name.replace("_", " ").capitalize()

    def has_workload(self, name: str) -> bool:
        """Return whether the factor applies to the workload."""
        return name in self.workloads

    def format_phrase(self, level: Level) -> str:
        """Return one level as it reads without a heading: `4 streams`, `MTU 9000`, `TSO off`."""
        if self.counted_noun:
            return f"{level} {self.counted_noun}{'' if level == 1 else 's'}"
        return (self.phrase or f"{self.title} {{}}").format(self.value_type.format(level))

    def to_agent_value(self, level: Level) -> Level | None:
        """Return the level as the agent takes it: on and off as booleans, None for `auto` and `none`."""
        if self.value_type.is_on_off:
            return level == "on"
        return None if self.is_numeric and isinstance(level, str) else level
