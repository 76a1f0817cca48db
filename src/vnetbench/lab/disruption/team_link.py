"""The events `team-link-down`, `team-link-flap` and `team-link-silent`: the link with the flow fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from vnetbench import cleanup
from vnetbench.lab.disruption.event import NOTE, NetworkEvent
from vnetbench.lab.disruption.link_end import LinkEnd
from vnetbench.lab.disruption.link_flap import LinkFlap
from vnetbench.lab.disruption.repeated_link_flap import RepeatedLinkFlap
from vnetbench.lab.disruption.silent_drop import SilentDrop
from vnetbench.lab.disruption.team_flow import TeamFlowReader, TeamReading
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.netns.team_load import HostEndpoints
from vnetbench.lab.netns.testbed_team import TestbedTeam
from vnetbench.study.factors.disruption_factors import TEAM_LINK_DOWN, TEAM_LINK_FLAP, TEAM_LINK_SILENT
from vnetbench.study.teams import LACP_TIMEOUT_BY_TIMER_S, TeamSpec

LinkEventMaker = Callable[[LinkEnd, LinkEnd], NetworkEvent]
"""Makes the event of one link from its near and its far end."""


class TeamLinkEvent:
    """Makes an event on the link that carries the flow, which is read just before. Other links stay."""

    def __init__(self, name: str, topology: HostEndpoints, team: TestbedTeam, make: LinkEventMaker) -> None:
        ends = [
            (LinkEnd(near), LinkEnd(far)) for near, far in zip(team.links.near, team.links.far, strict=True)
        ]
        self._name, self._spec = name, team.spec
        self._events = [make(near, far) for near, far in ends]
        self._reader = TeamFlowReader(topology, team, [near for near, _ in ends])
        self._link: int | None = None
        self._before: TeamReading | None = None
        self._during: TeamReading | None = None

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        if self._link is None:
            return f"team {self._spec.name}"
        return f"link{self._link} of team {self._spec.name}"

    def prepare(self) -> None:
        """See NetworkEvent. Any link may carry the flow.

        The frames of LACP have a fixed rhythm since the bonds were created, and their absence ends a silent
        link. A random wait of up to one period lets the event begin at any time between two frames, and not
        at the same time in each trial.
        """
        for event in self._events:
            event.prepare()
        if self._name == TEAM_LINK_SILENT:
            time.sleep(random.uniform(0, self._spec.lacp_period_s))

    def observe_before(self) -> None:
        """See NetworkEvent. Chooses the link that carries the flow."""
        self._before = self._reader.read()
        self._link = self._before.link
        if self._link is None:
            raise TrialFailed(f"event {self._name}: nothing shows which link of the team carries the flow")

    def begin(self) -> None:
        """See NetworkEvent."""
        self._chosen_event.begin()

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._chosen_event.observe_during()
        self._during = self._reader.read()

    def end(self) -> None:
        """See NetworkEvent."""
        self._chosen_event.end()

    def observe_after(self) -> None:
        """See NetworkEvent."""
        self._chosen_event.observe_after()

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent. Adds which link carried the flow before, and which one during the event."""
        if self._link is None or self._before is None or self._during is None:
            raise TrialFailed(f"event {self._name}: the trial ended before the end of the event")
        proof = dict(self._chosen_event.prove())
        if self._before.is_loaded and self._before.link_by_packets not in (None, self._link):
            raise TrialFailed(
                f"event {self._name}: link{self._before.link_by_packets} carried the flow before the event, "
                f"and not link{self._link}, which the state of the bond names"
            )
        is_noticed = self._link not in self._during.enabled_links
        proof |= {
            "link_before": self._link,
            "packets_before": list(self._before.sent_packets),
            "link_during": self._during.link,
            "packets_during": list(self._during.sent_packets),
        }
        if self._name == TEAM_LINK_FLAP:
            # Whether the link is up near the end is chance.
            return proof
        proof["team_noticed"] = is_noticed
        return proof if is_noticed else {**proof, NOTE: explain_unnoticed(self._name, self._link, self._spec)}

    def restore(self) -> None:
        """See NetworkEvent."""
        cleanup.run_all_despite_errors([event.restore for event in self._events])

    @property
    def _chosen_event(self) -> NetworkEvent:
        assert self._link is not None
        return self._events[self._link]


def explain_unnoticed(event: str, link: int, spec: TeamSpec) -> str:
    """Return why a team still used a link at the end of an event on it."""
    if event == TEAM_LINK_DOWN:
        return (
            f"the team still used link{link}, which was down, when the event ended: the event was too short"
        )
    if not spec.has_lacp:
        return (
            f"the team did not notice that link{link} dropped every packet, because it has no LACP: the "
            "outage lasts as long as the event"
        )
    timeout_s = LACP_TIMEOUT_BY_TIMER_S[spec.lacp_timer]
    return (
        f"the team did not notice that link{link} dropped every packet: LACP with the timer "
        f"{spec.lacp_timer} needs up to {timeout_s:g} s, so the outage lasts as long as the event"
    )


def make_team_link_down(topology: HostEndpoints, team: TestbedTeam) -> NetworkEvent:
    """Return the event that sets the far end down: both ends then have no carrier, as at a pulled cable."""
    return TeamLinkEvent(
        TEAM_LINK_DOWN, topology, team, lambda near, far: LinkFlap(far, near, TEAM_LINK_DOWN)
    )


def make_team_link_flap(topology: HostEndpoints, team: TestbedTeam) -> NetworkEvent:
    """Return the event that sets the far end down and up again and again."""
    return TeamLinkEvent(
        TEAM_LINK_FLAP, topology, team, lambda near, far: RepeatedLinkFlap(far, near, TEAM_LINK_FLAP)
    )


def make_team_link_silent(topology: HostEndpoints, team: TestbedTeam) -> NetworkEvent:
    """Return the event of a link that stays up and drops every packet, in both directions."""
    return TeamLinkEvent(
        TEAM_LINK_SILENT, topology, team, lambda near, far: SilentDrop(near, far, name=TEAM_LINK_SILENT)
    )
