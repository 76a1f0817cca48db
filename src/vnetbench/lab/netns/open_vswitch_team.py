"""A team of Open vSwitch: a bond at the near end of the links, and with LACP one at the far end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.open_vswitch_bonds import (
    LACP_NEGOTIATED,
    LACP_WITHOUT_PARTNER,
    OpenVswitch,
    bond_name,
    find_open_vswitch,
    is_ready,
    lacp_columns,
    read_lacp_timer,
)
from vnetbench.lab.netns.team_readings import parse_lacp_show, parse_mac_moves
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
        spec = self.spec
        columns = bond_columns(spec, spec.policy, near[0], is_active=spec.is_near_end_active)
        self.switch.add_bond(NEAR, near, columns)
        if spec.has_lacp:
            columns = bond_columns(spec, spec.policy, far[0], is_active=spec.is_far_end_active)
            self.switch.add_bond(FAR, far, columns)
        else:
            self.switch.change(*[word for name in far for word in ("--", "add-port", FAR, name)][1:])
        for bridge in (NEAR, FAR) if spec.has_lacp else (NEAR,):
            self.switch.wait_for_bond(bridge, lambda text: is_bond_ready(text, spec))

    def read_near_state(self) -> TeamState:
        """See TestbedTeam."""
        return self._read_state(NEAR, self.links.near)

    def read_far_state(self) -> TeamState | None:
        """See TestbedTeam."""
        return self._read_state(FAR, self.links.far) if self.spec.has_lacp else None

    def _read_state(self, bridge: str, devices: tuple[NetDevice, ...]) -> TeamState:
        return read_bond_end(self.switch, bridge, devices, self.spec)

    def read_mac_moves(self) -> dict[str, int | None]:
        """See TestbedTeam."""
        return {
            end: parse_mac_moves(self.switch.query("fdb/stats-show", bridge))
            for end, bridge in (("near", NEAR), ("far", FAR))
        }

    def backend_values(self) -> Mapping[str, Any]:
        """See TestbedTeam. Replaces the requested state of LACP by the reported one."""
        text = self._read_lacp()
        values: dict[str, Any] = {
            "rebalance_interval_s": REBALANCE_INTERVAL_MS / 1000,
            "lacp_timer": read_lacp_timer(text),
        }
        if self.spec.has_lacp:
            values["lacp_active"] = self.spec.lacp_active
        if self.spec.has_lacp and not parse_lacp_show(text).is_negotiated:
            values["lacp"] = "not negotiated"
        return values

    def backend_link_values(self) -> Mapping[str, Mapping[str, Any]]:
        """See TestbedTeam. Adds LACP at the near end of each link; None without LACP."""
        reading = parse_lacp_show(self._read_lacp()).link_by_interface
        return {
            name: {"lacp": asdict(reading[name]) if name in reading else None}
            for name in interfaces_of(self.links.near)
        }

    def _read_lacp(self) -> str:
        """Return what the near switch reports about LACP; empty without LACP."""
        return self.switch.query("lacp/show", bond_name(NEAR)) if self.spec.has_lacp else ""


def bond_columns(spec: TeamSpec, policy: str, primary: str, *, is_active: bool) -> list[str]:
    """Return the columns of a bond's port.

    Args:
        spec: The team.
        policy: The mode of the bond.
        primary: The member that is active first, where only one is.
        is_active: Whether this end negotiates LACP actively.
    """
    interval = f"other_config:bond-rebalance-interval={REBALANCE_INTERVAL_MS}"
    columns = [f"bond_mode={policy}", interval, *lacp_columns(spec.lacp_timer, is_active=is_active)]
    if spec.has_lacp and not spec.negotiates_lacp:
        # Without a partner the bond would drop every packet. It now uses its primary member.
        columns.append("other_config:lacp-fallback-ab=true")
    if ACTIVE_BACKUP in (policy, spec.effective_policy):
        columns.append(f"other_config:bond-primary={primary}")
    return columns


def is_bond_ready(bond_show: str, spec: TeamSpec) -> bool:
    """Return whether all members of a team's bond are enabled, and LACP has the expected status."""
    status = (LACP_NEGOTIATED if spec.negotiates_lacp else LACP_WITHOUT_PARTNER) if spec.has_lacp else None
    return is_ready(bond_show, spec.links, status)


def read_bond_end(
    switch: OpenVswitch, bridge: str, devices: tuple[NetDevice, ...], spec: TeamSpec
) -> TeamState:
    """Return the state of a team's bond, with its members in the order of the links and all known buckets.

    Raises:
        BenchError: if the bond has other members, or the switch does not answer.
    """
    state = read_bond_show(switch.read_bond(bridge), None)
    names = interfaces_of(devices)
    if {each.name for each in state.team.uplinks} != set(names):
        found = ", ".join(sorted(each.name for each in state.team.uplinks))
        raise TreatmentRefused(f"the bond has the members {found}", where=f"bridge {bridge}", fix=TEAM_FIX)
    order = [names.index(each.name) for each in state.team.uplinks]
    members = sorted(zip(order, state.team.uplinks, strict=True), key=lambda each: each[0])
    buckets = {bucket: order[i] for bucket, i in state.team.uplink_by_bucket.items()}
    if state.policy_name == BALANCE_TCP:
        by_port = {switch.read_port_number(name): number for number, name in enumerate(names)}
        buckets = read_bucket_rules(switch.query("bridge/dump-flows", bridge), by_port)
    team = replace(
        state.team,
        uplinks=tuple(replace(each, speed_bps=spec.speeds_bps[number]) for number, each in members),
        active=None if state.team.active is None else order[state.team.active],
        uplink_by_bucket=buckets,
    )
    return replace(state, team=team)


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
