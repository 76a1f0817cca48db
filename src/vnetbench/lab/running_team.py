"""A running team of a testbed, whatever runs it: what trials and events read of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vnetbench.lab.netns.topology import TeamLinks
from vnetbench.study.teams import TeamSpec
from vnetbench.teaming.state.team_state import TeamState


@dataclass(frozen=True)
class TeamStates:
    """The states of the two ends of a team, as they were read at one time."""

    near: TeamState
    far: TeamState | None
    """None if the far end is a switch without a bond."""


class RunningTeam(Protocol):
    """A team between the two ends of its links."""

    @property
    def spec(self) -> TeamSpec:
        """The team as the treatment requests it."""

    @property
    def links(self) -> TeamLinks:
        """Both ends of the links."""

    def read_near_state(self) -> TeamState:
        """Return the state of the near end, from which the load comes; raises BenchError."""
