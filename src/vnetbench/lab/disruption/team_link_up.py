"""The event `team-link-up`: a link that was down before the load comes back, and may take the flow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from vnetbench.lab.disruption.event import NOTE, NetworkEvent
from vnetbench.lab.disruption.team_flow import TeamFlowReader, TeamLinkEnds, TeamReading
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.netns.testbed_team import TeamStates, TestbedTeam
from vnetbench.lab.netns.topology import NetnsTopology
from vnetbench.study.factors.disruption_factors import TEAM_LINK_UP
from vnetbench.teaming.state.team_state import TeamState

LINK = 0
"""The link that comes back: the primary one of active-backup."""
_NOTICE_TIMEOUT_S = 10.0
"""Limit of the wait until the team no longer uses the link that is down."""
_POLL_INTERVAL_S = 0.05


class TeamLinkUp:
    """Sets the far end of a link down before the load, and up again as the event."""

    def __init__(self, topology: NetnsTopology, team: TestbedTeam) -> None:
        self._team, self._ends = team, TeamLinkEnds(team)
        self._reader = TeamFlowReader(topology, team, self._ends.near)
        self._before: TeamReading | None = None
        self._during: TeamReading | None = None

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return f"link{LINK} of team {self._team.spec.name}"

    def prepare(self) -> None:
        """See NetworkEvent. Returns when the team no longer uses the link."""
        self._ends.open()
        self._ends.far[LINK].set_up(is_up=False)
        deadline_s = time.monotonic() + _NOTICE_TIMEOUT_S
        while self._team.read_near_state().team.uplinks[LINK].is_up:
            if time.monotonic() > deadline_s:
                raise TreatmentRefused(
                    f"event {TEAM_LINK_UP}: the team still uses the link {_NOTICE_TIMEOUT_S:g} s after its "
                    "carrier went",
                    where=self.target,
                    fix="run the study again",
                )
            time.sleep(_POLL_INTERVAL_S)

    def observe_before(self) -> None:
        """See NetworkEvent."""
        self._before = self._reader.read()

    def begin(self) -> None:
        """See NetworkEvent."""
        self._ends.far[LINK].set_up(is_up=True)

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._during = self._reader.read()

    def end(self) -> None:
        """See NetworkEvent. The link stays up."""

    def observe_after(self) -> None:
        """See NetworkEvent. The reading near the end suffices."""

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        before, during = self._before, self._during
        if before is None or during is None:
            raise TrialFailed(f"event {TEAM_LINK_UP}: the trial ended before the end of the event")
        if before.link in (None, LINK):
            raise TrialFailed(f"event {TEAM_LINK_UP}: {self.target} carried the flow before it came back")
        if not self._ends.near[LINK].read_state().is_up:
            raise TrialFailed(f"event {TEAM_LINK_UP}: {self.target} did not come up")
        is_used, has_returned = LINK in during.enabled_links, during.link == LINK
        proof = {
            "link_before": before.link,
            "packets_before": list(before.sent_packets),
            "link_during": during.link,
            "packets_during": list(during.sent_packets),
            "team_noticed": is_used,
            "flow_returned": has_returned,
        }
        if has_returned:
            return proof
        reason = "the team does not move it back" if is_used else "the team did not use the link yet"
        return {**proof, NOTE: f"the flow stayed on link{during.link}: {reason}"}

    def restore(self) -> None:
        """See NetworkEvent."""
        try:
            far = self._ends.far[LINK]
            if far.is_open and not far.read_state().is_up:
                far.set_up(is_up=True)
        finally:
            self._ends.close()


def check_rest_of_team(states: TeamStates) -> TeamStates:
    """Return the states of a team as they are without this event, for the proof of everything else.

    Raises:
        TrialFailed: The link is up already.
    """
    if states.near.team.uplinks[LINK].is_up:
        raise TrialFailed(f"event {TEAM_LINK_UP}: link{LINK} came up before the load")
    return TeamStates(_with_link_up(states.near), states.far and _with_link_up(states.far))


def _with_link_up(state: TeamState) -> TeamState:
    uplinks = tuple(
        replace(each, is_up=True) if number == LINK else each
        for number, each in enumerate(state.team.uplinks)
    )
    return replace(state, team=replace(state.team, uplinks=uplinks))


def make_team_link_up(topology: NetnsTopology, team: TestbedTeam) -> NetworkEvent:
    """Return the event."""
    return TeamLinkUp(topology, team)
