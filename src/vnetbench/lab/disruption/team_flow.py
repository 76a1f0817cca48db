"""The link of a team that carries the load's flow: by the state of its bond, and by what each link sends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vnetbench import cleanup
from vnetbench.lab.disruption.link_end import LinkEnd
from vnetbench.lab.netns.team_load import HostEndpoints, list_load_flows
from vnetbench.lab.netns.testbed_team import TestbedTeam
from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.predict import predict_flows

MIN_LOAD_PACKETS = 20
"""Fewer packets may be LACP's own: a source that gets no CPU meanwhile contradicts nothing."""


class TeamLinkEnds:
    """Both ends of each link of a team."""

    def __init__(self, team: TestbedTeam) -> None:
        self.near = tuple(map(LinkEnd, team.links.near))
        self.far = tuple(map(LinkEnd, team.links.far))

    def open(self) -> None:
        """Open the sockets; raises BenchError if an interface does not exist."""
        for end in (*self.near, *self.far):
            end.open()

    def close(self) -> None:
        """Close the sockets."""
        cleanup.run_all_despite_errors([end.close for end in (*self.near, *self.far)])


@dataclass(frozen=True)
class TeamReading:
    """What a team did with the load at one time. Links have their numbers in the team, from 0."""

    link_by_state: int | None
    """The link to which the state of the bond gives most flows; None if it shows none."""
    sent_packets: tuple[int, ...]
    """Packets that each link sent while the state was read."""
    enabled_links: frozenset[int]
    """Links that the bond uses."""

    @property
    def link_by_packets(self) -> int | None:
        """The link that sent more than half of the packets; None without one."""
        most = max(self.sent_packets)
        return self.sent_packets.index(most) if 2 * most > sum(self.sent_packets) else None

    @property
    def is_loaded(self) -> bool:
        """Whether the packets show which link carries the load."""
        return sum(self.sent_packets) >= MIN_LOAD_PACKETS

    @property
    def link(self) -> int | None:
        """The link that carries the flow, or most flows; None if nothing shows it."""
        return self.link_by_packets if self.link_by_state is None else self.link_by_state


class TeamFlowReader:
    """Reads which link carries the flow. The near ends of the links are open."""

    def __init__(self, topology: HostEndpoints, team: TestbedTeam, near_ends: Sequence[LinkEnd]) -> None:
        self._topology, self._team, self._near_ends = topology, team, near_ends
        self._flows: tuple[Flow, ...] = ()

    def read(self) -> TeamReading:
        """Read the state of the near bond under load; raises BenchError."""
        # The sockets of a trial stay the same.
        self._flows = self._flows or list_load_flows(self._topology)
        before = self._count_sent()
        team = self._team.read_near_state().team
        predicted = predict_flows(self._flows, find_policy(self._team.spec.policy), team)
        after = self._count_sent()
        links = Counter(each.forward.uplink for each in predicted.flows if each.forward.uplink is not None)
        return TeamReading(
            links.most_common(1)[0][0] if links else None,
            tuple(last - first for first, last in zip(before, after, strict=True)),
            frozenset(number for number, uplink in enumerate(team.uplinks) if uplink.is_up),
        )

    def find_bucket(self) -> int | None:
        """Return the bucket of the first flow, once `read` has found it; None without buckets."""
        team = replace(self._team.read_near_state().team, uplink_by_bucket={})
        # Without a table, the prediction names what it depends on.
        group = find_policy(self._team.spec.policy).predict(self._flows[0], team).group
        found = re.fullmatch(r"bucket (\d+)", group or "")
        return int(found[1]) if found else None

    def _count_sent(self) -> list[int]:
        return [end.count_sent_packets() for end in self._near_ends]
