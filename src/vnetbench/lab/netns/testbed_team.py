"""The team of a testbed: bonds of Open vSwitch at its links, created anew and proved for each treatment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.link_speeds import describe_links, prove_link_speeds, shape_team_links
from vnetbench.lab.netns.open_vswitch_bonds import (
    OpenVswitch,
    bond_name,
    find_open_vswitch,
    is_ready,
    lacp_columns,
    read_lacp_timer,
)
from vnetbench.lab.netns.topology import NetDevice, TeamLinks
from vnetbench.lab.running_team import TeamStates
from vnetbench.study.teams import ACTIVE_BACKUP, BALANCE_TCP, TeamSpec
from vnetbench.teaming.state.open_vswitch import read_bond_show, read_bucket_rules
from vnetbench.teaming.state.team_state import TeamState

NEAR, FAR = "sw0", "sw1"
"""The virtual switches at the two ends of the links: that of the first VMs of the pairs, and the other."""
REBALANCE_INTERVAL_MS = 10_000
"""Interval in which the switch moves buckets from busy members to others: its own default."""
_FIX = "run the study again; if it fails again, run vnetbench doctor to see what this machine allows"


@dataclass(frozen=True)
class TestbedTeam:
    """A team between the two virtual switches of a running testbed.

    With LACP, both switches bundle the links. Without it, the far switch is an ordinary one: each link is a
    port of its own, and it sends answers where it learned the sender's address. Two bonds without LACP would
    drop each other's frames: each accepts broadcasts, and with active-backup all frames, only on the member
    that is active at its own end (ofproto/bond.c, bond_check_admissibility).
    """

    spec: TeamSpec
    links: TeamLinks
    switch: OpenVswitch

    def create_bonds(self) -> None:
        """Remove what bundles the links, and bundle them as the treatment requests.

        New bonds have empty tables, so that no trial depends on the one before it.

        Raises:
            BenchError: if the switch refuses, or the members are not ready in time.
        """
        near, far = (_interfaces(devices) for devices in (self.links.near, self.links.far))
        names = (bond_name(NEAR), bond_name(FAR), *far)
        removed = [word for name in names for word in ("--", "--if-exists", "del-port", name)]
        self.switch.change(*removed[1:])
        interval = f"other_config:bond-rebalance-interval={REBALANCE_INTERVAL_MS}"
        columns = [f"bond_mode={self.spec.policy}", interval, *lacp_columns(self.spec.lacp_timer)]
        if self.spec.policy == ACTIVE_BACKUP:
            columns.append(f"other_config:bond-primary={near[0]}")
        self.switch.add_bond(NEAR, near, columns)
        if self.spec.has_lacp:
            columns[-1] = columns[-1].replace(near[0], far[0])
            self.switch.add_bond(FAR, far, columns)
        else:
            self.switch.change(*[word for name in far for word in ("--", "add-port", FAR, name)][1:])
        for bridge in (NEAR, FAR) if self.spec.has_lacp else (NEAR,):
            self.switch.wait_for_bond(
                bridge, lambda text: is_ready(text, self.spec.links, self.spec.has_lacp)
            )

    def shape_links(self, shaper: str) -> None:
        """Shape both ends of each link to its speed, if the study gives speeds.

        Call it after `create_bonds`: Open vSwitch removes the shaper of an interface that becomes a port.

        Raises:
            TreatmentRefused: if another rate was read back.
            BenchError: if the kernel refuses.
        """
        shape_team_links(self.links, self.spec, shaper)

    def read_states(self) -> TeamStates:
        """Return the states of both ends; raises BenchError."""
        far = self._read_state(FAR, self.links.far) if self.spec.has_lacp else None
        return TeamStates(self.read_near_state(), far)

    def read_near_state(self) -> TeamState:
        """Return the state of the near end, from which the load comes; raises BenchError."""
        return self._read_state(NEAR, self.links.near)

    def _read_state(self, bridge: str, devices: tuple[NetDevice, ...]) -> TeamState:
        """Return the state of one end, with its members in the order of the links and all known buckets."""
        state = read_bond_show(self.switch.read_bond(bridge), None)
        names = _interfaces(devices)
        if {each.name for each in state.team.uplinks} != set(names):
            found = ", ".join(sorted(each.name for each in state.team.uplinks))
            raise TreatmentRefused(f"the bond has the members {found}", where=f"bridge {bridge}", fix=_FIX)
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

    def prove(self, states: TeamStates) -> None:
        """Check the states that the switch reports, and the speeds of the links.

        Raises:
            TreatmentRefused: if the policy, the members or the speeds are not as requested.
        """
        for bridge, state in ((NEAR, states.near), (FAR, states.far)):
            if state is None:
                continue
            down = [each.name for each in state.team.uplinks if not each.is_up]
            if state.policy_name != self.spec.policy or down:
                reason = f"these members may not send: {', '.join(down)}" if down else state.policy_name
                raise TreatmentRefused(
                    f"the team's policy {self.spec.policy} did not take effect: {reason}",
                    where=f"bridge {bridge}",
                    fix=_FIX,
                )
        prove_link_speeds(self.links, self.spec)

    def _read_lacp_timer(self) -> str | None:
        """Return the timer of LACP that the near switch reports; None without LACP."""
        if not self.spec.has_lacp:
            return None
        return read_lacp_timer(self.switch.query("lacp/show", bond_name(NEAR)))

    def describe(self, states: TeamStates) -> dict[str, Any]:
        """Return the team and its links as they were read back, for the results file."""
        return {
            "name": self.spec.name,
            "location": self.spec.location,
            "policy": states.near.policy_name,
            "lacp": "negotiated" if self.spec.has_lacp else "off",
            "rebalance_interval_s": REBALANCE_INTERVAL_MS / 1000,
            "lacp_timer": self._read_lacp_timer(),
            "far_end": "bond" if states.far is not None else "switch without a bond",
            "links": describe_links(self.links),
        }


def find_testbed_team(testbed_name: str, links: TeamLinks, spec: TeamSpec) -> TestbedTeam:
    """Return the team of a running testbed; raises BenchError if Open vSwitch is not installed."""
    return TestbedTeam(spec, links, find_open_vswitch(testbed_name))


def _interfaces(devices: tuple[NetDevice, ...]) -> list[str]:
    return [device.interface for device in devices]
