"""The event `team-lacp-stop`: the far end stops sending frames of LACP; all links stay up and carry data."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping

from vnetbench.lab.disruption import packet_filter
from vnetbench.lab.disruption.event import NOTE, NetworkEvent
from vnetbench.lab.disruption.team_flow import TeamLinkEnds
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.netns.open_vswitch_team import OpenVswitchTestbedTeam, require_open_vswitch
from vnetbench.lab.netns.testbed_team import NEAR, TestbedTeam
from vnetbench.lab.netns.topology import NetnsTopology
from vnetbench.study.factors.disruption_factors import LACP_RETURN_TIME_S, TEAM_LACP_STOP
from vnetbench.study.teams import LACP_TIMEOUT_BY_TIMER_S

SLOW_PROTOCOLS = 0x8809
"""EtherType of LACP (IEEE 802.3, annex 57A)."""
_RETURN_TIMEOUT_S = 4 * LACP_RETURN_TIME_S
"""Limit of the wait after an interrupted event until the team uses its links again."""
_POLL_INTERVAL_S = 0.05


class TeamLacpStop:
    """Drops the frames of LACP that leave the far end, as when its control program ends."""

    def __init__(self, team: OpenVswitchTestbedTeam) -> None:
        self._team, self._ends = team, TeamLinkEnds(team)
        self._namespace = team.links.far[0].namespace
        self._is_dropping = False
        self._drops = 0
        self._links_during: list[int] | None = None
        self._were_links_up = False

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return f"LACP partner of team {self._team.spec.name}"

    def prepare(self) -> None:
        """See NetworkEvent. The random wait lets the event meet all phases between two frames of LACP."""
        if not self._team.spec.has_lacp:
            raise TreatmentRefused(
                f"event {TEAM_LACP_STOP} needs a team with LACP",
                where=f"team {self._team.spec.name}",
                fix='write lacp = "fast" under [[testbed.team]]',
            )
        packet_filter.find_program()
        self._ends.open()
        time.sleep(random.uniform(0, self._team.spec.lacp_period_s))

    def observe_before(self) -> None:
        """See NetworkEvent. Both ends negotiated before the load."""

    def begin(self) -> None:
        """See NetworkEvent."""
        packet_filter.start_dropping(self._team.links.far, SLOW_PROTOCOLS)
        self._is_dropping = True

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._links_during = self._list_enabled_links()
        self._were_links_up = all(
            end.read_state().is_up for ends in (self._ends.near, self._ends.far) for end in ends
        )
        self._drops = packet_filter.count_drops(self._namespace)

    def end(self) -> None:
        """See NetworkEvent."""
        packet_filter.stop_dropping(self._namespace)
        self._is_dropping = False

    def observe_after(self) -> None:
        """See NetworkEvent. Whether the team uses its links again is read at the end of the trial."""

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        if self._links_during is None or not self._drops:
            raise TrialFailed(f"event {TEAM_LACP_STOP}: no frame of LACP was dropped")
        if not self._were_links_up:
            raise TrialFailed(f"event {TEAM_LACP_STOP}: a link of the team did not stay up")
        after = self._list_enabled_links()
        if len(after) != self._team.spec.links:
            raise TrialFailed(f"event {TEAM_LACP_STOP}: the team uses only the links {after} after the trial")
        is_noticed = len(self._links_during) < self._team.spec.links
        proof = {
            "dropped_packets": self._drops,
            "links_were_up": self._were_links_up,
            "used_links_during": self._links_during,
            "team_noticed": is_noticed,
        }
        if is_noticed:
            return proof
        timer = self._team.spec.lacp_timer
        note = (
            f"the team did not notice that its partner stopped LACP: the timer {timer} needs up to "
            f"{LACP_TIMEOUT_BY_TIMER_S[timer]:g} s"
        )
        return {**proof, NOTE: note}

    def restore(self) -> None:
        """See NetworkEvent. Returns when the team uses all links again."""
        try:
            if self._is_dropping:
                self.end()
                deadline_s = time.monotonic() + _RETURN_TIMEOUT_S
                while len(self._list_enabled_links()) < self._team.spec.links:
                    if time.monotonic() > deadline_s:
                        break
                    time.sleep(_POLL_INTERVAL_S)
        finally:
            self._ends.close()

    def _list_enabled_links(self) -> list[int]:
        # Not `read_near_state`: a prediction refuses a bond that drops every packet.
        names = read_enabled_members(self._team.switch.read_bond(NEAR))
        return [number for number, end in enumerate(self._team.links.near) if end.interface in names]


def read_enabled_members(bond_show: str) -> frozenset[str]:
    """Return the interfaces that a bond uses, from the output of `ovs-appctl bond/show`."""
    return frozenset(re.findall(r"^(?:member|slave) (\S+): enabled$", bond_show, re.MULTILINE))


def make_team_lacp_stop(topology: NetnsTopology, team: TestbedTeam) -> NetworkEvent:
    """Return the event."""
    return TeamLacpStop(require_open_vswitch(team))
