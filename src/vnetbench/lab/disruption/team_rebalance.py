"""The event `team-rebalance`: the bond moves the flow to another link, and back at the end."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.lab.disruption.event import NetworkEvent
from vnetbench.lab.disruption.team_flow import TeamFlowReader, TeamLinkEnds, TeamReading
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.netns.open_vswitch_bonds import bond_name
from vnetbench.lab.netns.open_vswitch_team import OpenVswitchTestbedTeam, require_open_vswitch
from vnetbench.lab.netns.testbed_team import NEAR, TestbedTeam
from vnetbench.lab.netns.topology import NetnsTopology
from vnetbench.study.factors.disruption_factors import TEAM_REBALANCE
from vnetbench.study.teams import BALANCE_SLB


class TeamRebalance:
    """Moves the bucket of the flow as Open vSwitch itself does (`bond/migrate`, ovs-vswitchd(8))."""

    def __init__(self, topology: NetnsTopology, team: OpenVswitchTestbedTeam) -> None:
        self._team, self._ends = team, TeamLinkEnds(team)
        self._reader = TeamFlowReader(topology, team, self._ends.near)
        self._bucket: int | None = None
        self._from, self._to = -1, -1
        self._readings: list[TeamReading] = []
        self._has_moved = False

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return f"bucket {self._bucket} of team {self._team.spec.name}"

    def prepare(self) -> None:
        """See NetworkEvent."""
        if self._team.spec.policy != BALANCE_SLB:
            raise TreatmentRefused(
                f"event {TEAM_REBALANCE} is not possible with {self._team.spec.policy}: Open vSwitch moves a "
                "bucket on request only with balance-slb",
                where=f"team {self._team.spec.name}",
                fix="use the policy balance-slb",
            )
        self._ends.open()

    def observe_before(self) -> None:
        """See NetworkEvent. Finds the bucket of the flow, its link and another link."""
        before = self._reader.read()
        self._readings.append(before)
        self._bucket = self._reader.find_bucket()
        others = sorted(before.enabled_links - {before.link})
        if before.link is None or self._bucket is None or not others:
            raise TrialFailed(
                f"event {TEAM_REBALANCE}: nothing shows which link of the team carries the flow"
            )
        self._from, self._to = before.link, others[0]

    def begin(self) -> None:
        """See NetworkEvent."""
        self._has_moved = True
        self._move_to(self._to)

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._readings.append(self._reader.read())

    def end(self) -> None:
        """See NetworkEvent."""
        self._move_to(self._from)
        self._has_moved = False

    def observe_after(self) -> None:
        """See NetworkEvent."""
        self._readings.append(self._reader.read())

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        links = [each.link for each in self._readings]
        if links != [self._from, self._to, self._from]:
            raise TrialFailed(
                f"event {TEAM_REBALANCE}: the flow did not move to link{self._to} and back; its links "
                f"before, near the end of and after the event were {links}"
            )
        before, during, _ = self._readings
        if during.is_loaded and during.link_by_packets not in (None, self._to):
            raise TrialFailed(
                f"event {TEAM_REBALANCE}: link{during.link_by_packets} carried the flow, and not "
                f"link{self._to}"
            )
        return {
            "bucket": self._bucket,
            "link_before": self._from,
            "packets_before": list(before.sent_packets),
            "link_during": self._to,
            "packets_during": list(during.sent_packets),
        }

    def restore(self) -> None:
        """See NetworkEvent."""
        try:
            if self._has_moved:
                self._move_to(self._from)
                self._has_moved = False
        finally:
            self._ends.close()

    def _move_to(self, link: int) -> None:
        member = self._team.links.near[link].interface
        self._team.switch.query("bond/migrate", bond_name(NEAR), str(self._bucket), member)


def make_team_rebalance(topology: NetnsTopology, team: TestbedTeam) -> NetworkEvent:
    """Return the event."""
    return TeamRebalance(topology, require_open_vswitch(team))
