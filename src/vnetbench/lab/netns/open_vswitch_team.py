"""A team of Open vSwitch: a bond at the near end of the links, and with LACP one at the far end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.open_vswitch_bonds import (
    OpenVswitch,
    bond_name,
    find_open_vswitch,
    is_ready,
    lacp_columns,
    read_lacp_timer,
)
from vnetbench.lab.netns.testbed_team import FAR, NEAR, TEAM_FIX, TestbedTeam, interfaces_of
from vnetbench.lab.netns.topology import NetDevice, TeamLinks
from vnetbench.study.teams import ACTIVE_BACKUP, BALANCE_TCP, TeamSpec
from vnetbench.teaming.state.open_vswitch import read_bond_show, read_bucket_rules
from vnetbench.teaming.state.team_state import TeamState

REBALANCE_INTERVAL_MS = 10_000
"""Interval in which the switch moves buckets from busy members to others: its own default."""


@dataclass(frozen=True)
class OpenVswitchTestbedTeam(TestbedTeam):
    """A team of Open vSwitch bonds.

    With LACP, both switches bundle the links. Without it, the far switch is an ordinary one: each link is a
    port of its own, and it sends answers where it learned the sender's address. Two bonds without LACP would
    drop each other's frames: each accepts broadcasts, and with active-backup all frames, only on the member
    that is active at its own end (ofproto/bond.c, bond_check_admissibility).
    """

    switch: OpenVswitch

    def bundle_links(self) -> None:
        """See TestbedTeam. The bonds are ports of the switches."""
        near, far = (interfaces_of(devices) for devices in (self.links.near, self.links.far))
        names = (bond_name(NEAR), bond_name(FAR), *far)
        removed = [word for name in names for word in ("--", "--if-exists", "del-port", name)]
        self.switch.change(*removed[1:])
        self.switch.add_bond(NEAR, near, self._bond_columns(near[0]))
        if self.spec.has_lacp:
            self.switch.add_bond(FAR, far, self._bond_columns(far[0]))
        else:
            self.switch.change(*[word for name in far for word in ("--", "add-port", FAR, name)][1:])
        for bridge in (NEAR, FAR) if self.spec.has_lacp else (NEAR,):
            self.switch.wait_for_bond(
                bridge, lambda text: is_ready(text, self.spec.links, self.spec.has_lacp)
            )

    def _bond_columns(self, primary: str) -> list[str]:
        """Return the columns of a bond's port; `primary` is active first with active-backup."""
        interval = f"other_config:bond-rebalance-interval={REBALANCE_INTERVAL_MS}"
        columns = [f"bond_mode={self.spec.policy}", interval, *lacp_columns(self.spec.lacp_timer)]
        if self.spec.policy == ACTIVE_BACKUP:
            columns.append(f"other_config:bond-primary={primary}")
        return columns

    def read_near_state(self) -> TeamState:
        """See TestbedTeam."""
        return self._read_state(NEAR, self.links.near)

    def read_far_state(self) -> TeamState | None:
        """See TestbedTeam."""
        return self._read_state(FAR, self.links.far) if self.spec.has_lacp else None

    def _read_state(self, bridge: str, devices: tuple[NetDevice, ...]) -> TeamState:
        """Return the state of one end, with its members in the order of the links and all known buckets."""
        state = read_bond_show(self.switch.read_bond(bridge), None)
        names = interfaces_of(devices)
        if {each.name for each in state.team.uplinks} != set(names):
            found = ", ".join(sorted(each.name for each in state.team.uplinks))
            raise TreatmentRefused(
                f"the bond has the members {found}", where=f"bridge {bridge}", fix=TEAM_FIX
            )
        order = [names.index(each.name) for each in state.team.uplinks]
        rates = self.spec.speeds_bps
        members = sorted(zip(order, state.team.uplinks, strict=True), key=lambda each: each[0])
        buckets = {bucket: order[i] for bucket, i in state.team.uplink_by_bucket.items()}
        if self.spec.policy == BALANCE_TCP:
            by_port = {self.switch.read_port_number(name): number for number, name in enumerate(names)}
            buckets = read_bucket_rules(self.switch.query("bridge/dump-flows", bridge), by_port)
        team = replace(
            state.team,
            uplinks=tuple(replace(each, speed_bps=rates[number]) for number, each in members),
            active=None if state.team.active is None else order[state.team.active],
            uplink_by_bucket=buckets,
        )
        return replace(state, team=team)

    def backend_values(self) -> Mapping[str, Any]:
        """See TestbedTeam."""
        return {
            "rebalance_interval_s": REBALANCE_INTERVAL_MS / 1000,
            "lacp_timer": self._read_lacp_timer(),
        }

    def _read_lacp_timer(self) -> str | None:
        """Return the timer of LACP that the near switch reports; None without LACP."""
        if not self.spec.has_lacp:
            return None
        return read_lacp_timer(self.switch.query("lacp/show", bond_name(NEAR)))


def find_open_vswitch_team(testbed_name: str, links: TeamLinks, spec: TeamSpec) -> OpenVswitchTestbedTeam:
    """Return the team of a running testbed; raises BenchError if Open vSwitch is not installed."""
    return OpenVswitchTestbedTeam(spec, links, find_open_vswitch(testbed_name))


def require_open_vswitch(team: TestbedTeam) -> OpenVswitchTestbedTeam:
    """Return a team of Open vSwitch; raises TreatmentRefused for another one."""
    if not isinstance(team, OpenVswitchTestbedTeam):
        raise TreatmentRefused(
            "the event needs a bond of Open vSwitch", fix='write vswitch = "openvswitch" under [factors]'
        )
    return team
