"""Factor: everything that the bench knows about one thing that a study can vary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.labs import LABS
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, WORKLOAD_NAMES


@dataclass(frozen=True)
class DoctorTreatment:
    """A treatment that `vnetbench doctor` tries, to show whether this machine can set a factor."""

    name: str
    levels: Mapping[str, Level]
    workload: str = TCP_STREAM
    shaper: str = "tbf"


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
    level_if_unset: Level | None = None
    """Level of a treatment that does not name a factor without a default."""
    labs: tuple[str, ...] = LABS
    """Labs that can set the factor."""
    works_with_iperf3_server_as_peer: bool = False
    """A trial can set it on one endpoint if the other one is only an iperf3 server."""
    is_testbed_setting: bool = False
    """`vnetbench lab up` can set it, because a testbed keeps it without a trial."""
    needs_root: bool = False
    """A user namespace is not enough to set it."""
    doctor_treatments: tuple[DoctorTreatment, ...] = ()
    """Treatments that `vnetbench doctor` tries on this machine."""
    label: str = ""
    """Title in tables and charts; empty: made from the name."""
    phrase_template: str = ""
    """Template of a level inside a sentence, such as `MTU {}`; empty: the label and the level."""
    counted_noun: str = ""
    """What the levels count, such as `stream`, so that a level reads `4 streams`."""
    should_not_lower_rate: bool = False
    """A higher level, or `on`, should not lower a rate; a result that contradicts this is a finding."""
    x_axis_rank: int = 0
    """Rank for the x axis among numeric factors with equally many levels, 1 first; 0: behind all ranks."""
    has_line_per_level: bool = False
    """Its levels are the lines of a chart, however many there are."""
    is_stream_count: bool = False
    """Its level is the number of streams of a pair in each direction."""
    agent_parameter: str = ""
    """Parameter of the agent's `trial.prepare` that carries the level; empty: none carries it alone."""
    knobs: tuple[str, ...] = ()
    """Agent knobs that the factor sets on an endpoint's interface (docs/protocol.md)."""
    knob_fix: str = ""
    """What to do when a system refuses the level or reads back another value."""
    knob_setting_order: int = 0
    """A treatment sets the knobs with a lower number first: setting one may change those before it."""

    @property
    def is_numeric(self) -> bool:
        """Whether the levels are numbers, apart from a keyword such as `auto` or `none`."""
        return self.unit != ""

    @property
    def title(self) -> str:
        """Label of the factor: `MTU`, `Message size`."""
        return self.label or self.name.replace("_", " ").capitalize()

    def has_workload(self, workload_name: str) -> bool:
        """Return whether the factor applies to the workload."""
        return workload_name in self.workloads

    def is_present_in(self, levels: Mapping[str, Level]) -> bool:
        """Return whether a treatment has the factor."""
        return self.name in levels

    def read_level(self, levels: Mapping[str, Level]) -> Level:
        """Return the factor's level in a treatment; without one, the default or neutral level."""
        if self.name in levels:
            return levels[self.name]
        level = self.level_if_unset if self.default is None else self.default
        if level is None:
            raise KeyError(self.name)
        return level

    def is_at(self, levels: Mapping[str, Level], *choices: Level) -> bool:
        """Return whether a treatment has the factor at one of these levels."""
        return self.is_present_in(levels) and levels[self.name] in choices

    def has_non_default_level(self, levels: Mapping[str, Level]) -> bool:
        """Return whether a treatment has the factor at another level than the default or neutral one."""
        return self.is_present_in(levels) and levels[self.name] != (
            self.level_if_unset if self.default is None else self.default
        )

    def format_phrase(self, level: Level) -> str:
        """Return one level as it reads without a heading: `4 streams`, `MTU 9000`, `TSO off`."""
        if self.counted_noun:
            return f"{level} {self.counted_noun}{'' if level == 1 else 's'}"
        return (self.phrase_template or f"{self.title} {{}}").format(self.value_type.format(level))

    def format_as_assignment(self, level: Level) -> str:
        """Return one level as a study sets it: `mtu = 9000`."""
        return f"{self.name} = {self.value_type.format(level)}"

    def to_agent_value(self, level: Level) -> Level | None:
        """Return the level as the agent takes it: on and off as booleans, None for `auto` and `none`."""
        if self.value_type.is_on_off:
            return level == "on"
        return None if self.is_numeric and isinstance(level, str) else level
