"""Faults of a team: LACP that is not negotiated, a silent link, and switches that disagree about the channel.

Rules of OpenFlow replace the bonds where Open vSwitch has no such bond: a hash of ports without LACP, and a
switch that learns addresses on each link. The rules never send what came from one link to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.lab import netlink
from vnetbench.lab.disruption.link_end import LinkEnd
from vnetbench.lab.links.shaping import limit_transmit_rate
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.netns.open_vswitch_bonds import LACP_WITHOUT_PARTNER, bond_name, is_ready
from vnetbench.lab.netns.open_vswitch_team import OpenVswitchTestbedTeam, require_open_vswitch
from vnetbench.lab.netns.testbed import NetnsTestbed
from vnetbench.lab.netns.testbed_team import FAR, NEAR, TeamStates
from vnetbench.lab.netns.topology import NetDevice, Vm
from vnetbench.lab.testbed import StreamSettings
from vnetbench.teaming.flows import parse_mac
from vnetbench.teaming.state.team_state import TeamState
from vnetbench.teaming.team import Team, Uplink

MAC_MOVES, DROPPED_PACKETS = "MAC moves", "packets dropped on the silent link"
HASH_POLICY, PINNING_POLICY = "switch-src-dst-port", "source-mac"
_MULTICAST = "01:00:00:00:00:00/01:00:00:00:00:00"


@dataclass(frozen=True)
class FaultyTeam(OpenVswitchTestbedTeam):
    """A team with a fault, which is measured and not refused."""

    far_state: Callable[[TeamState], TeamState | None] = lambda near: None
    """Returns the state of the far end; None: it does not bundle the links."""
    rule_team: Team | None = None
    """The team that rules make up instead of bonds."""

    def read_states(self) -> TeamStates:
        """See TestbedTeam."""
        if self.rule_team is None:
            near = self.read_near_state()
        else:
            near = TeamState("rules of the corpus", self.rule_team, self.spec.policy)
        return TeamStates(near, self.far_state(near))

    def prove(self, states: TeamStates) -> None:
        """Accept any state: the fault is what is measured."""


def far_end_without_lacp() -> Disturbance:
    """Let the far end be a switch without a bond, so that LACP has no partner."""

    def spoil(team: OpenVswitchTestbedTeam) -> FaultyTeam:
        far = [device.interface for device in team.links.far]
        team.switch.change("del-port", bond_name(FAR))
        team.switch.change(*[word for name in far for word in ("--", "add-port", FAR, name)][1:])
        _use_lacp_without_partner(team)
        spec = replace(team.spec, policy="active-backup", lacp="fast")
        return FaultyTeam(spec, team.links, team.switch)

    return _team_fault(spoil)


def two_aggregators() -> Disturbance:
    """Bundle each half of the links at the far end into a bond of its own."""

    def spoil(team: OpenVswitchTestbedTeam) -> FaultyTeam:
        far = [device.interface for device in team.links.far]
        half = len(far) // 2
        columns = ("bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast")
        team.switch.change("del-port", bond_name(FAR))
        for name, members in (("half0", far[:half]), ("half1", far[half:])):
            team.switch.change("add-bond", FAR, name, *members, *columns)
        team.switch.wait_for_bond(NEAR, lambda text: text.count(": enabled") == half)

        def forget_table(near: TeamState) -> TeamState:
            return replace(near, team=replace(near.team, uplink_by_bucket={}))

        return FaultyTeam(team.spec, team.links, team.switch, far_state=forget_table)

    def remove_bonds(team: OpenVswitchTestbedTeam) -> None:
        team.switch.change("del-port", "half0", "--", "del-port", "half1")

    return _team_fault(spoil, remove_bonds)


def silent_link(number: int) -> Disturbance:
    """Drop everything on a link from the start of the load on, while its carrier stays up."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        testbed = _team_testbed(target)
        assert testbed.team is not None
        ends = [LinkEnd(team[number]) for team in (testbed.team.links.near, testbed.team.links.far)]
        read_teams = testbed.read_teams

        def read_teams_and_drop(*, has_lasting_flows: bool, streams: StreamSettings) -> list[dict[str, Any]]:
            # The bench reads the teams when all streams are connected, just before the load.
            teams = read_teams(has_lasting_flows=has_lasting_flows, streams=streams)
            for end in ends:
                limit_transmit_rate(end.device, None, "tbf")
                end.open()
                end.start_dropping()
            return teams

        testbed.read_teams = read_teams_and_drop  # type: ignore[method-assign]
        try:
            yield
        finally:
            del testbed.read_teams
            target.measurements[DROPPED_PACKETS] += sum(end.count_drops() for end in ends if end.is_open)
            for end in ends:
                if end.is_open:
                    end.stop_dropping()
                    end.close()

    return disturb


def hashing_channel() -> Disturbance:
    """Let both ends hash ports, and accept what the other end sends on any link."""
    return _rules(HASH_POLICY, near_hashes=True, far_hashes=True, near_learns=False, far_learns=False)


def hash_without_channel() -> Disturbance:
    """Let the near end hash ports, and the far end learn addresses on each link."""
    return _rules(HASH_POLICY, near_hashes=True, far_hashes=False, near_learns=False, far_learns=True)


def channel_without_hash() -> Disturbance:
    """Let the near end keep each VM on one link, and the far end hash ports."""
    return _rules(PINNING_POLICY, near_hashes=False, far_hashes=True, near_learns=True, far_learns=False)


def _team_fault(
    spoil: Callable[[OpenVswitchTestbedTeam], FaultyTeam],
    undo: Callable[[OpenVswitchTestbedTeam], None] | None = None,
) -> Disturbance:
    """Return a disturbance that replaces the team of the testbed, and shapes its links again.

    The next trial creates the bonds anew; `undo` removes what that would leave.
    """

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        testbed = _team_testbed(target)
        assert testbed.team is not None
        team = require_open_vswitch(testbed.team)
        faulty = spoil(team)
        faulty.shape_links("tbf")
        testbed.team = faulty
        before = faulty.read_mac_moves()
        try:
            yield
        finally:
            moves = faulty.read_mac_moves()
            target.measurements[MAC_MOVES] += sum((moves[end] or 0) - (before[end] or 0) for end in moves)
            testbed.team = team
            if undo is not None:
                undo(team)

    return disturb


def _team_testbed(target: DisturbanceTarget) -> NetnsTestbed:
    assert isinstance(target.testbed, NetnsTestbed)
    return target.testbed


def _use_lacp_without_partner(team: OpenVswitchTestbedTeam) -> None:
    """Create a bond at the near end that falls back to its first link, and wait until it has done so."""
    members = [device.interface for device in team.links.near]
    others = (f"other_config:{each}" for each in ("lacp-fallback-ab=true", f"bond-primary={members[0]}"))
    # A bond that has negotiated would stay so.
    team.switch.change("del-port", bond_name(NEAR))
    team.switch.add_bond(NEAR, members, ["bond_mode=balance-tcp", "lacp=active", *others])
    team.switch.wait_for_bond(NEAR, lambda text: is_ready(text, team.spec.links, LACP_WITHOUT_PARTNER))


@dataclass(frozen=True)
class _RuleSwitch:
    """A switch whose rules replace a bond."""

    team: OpenVswitchTestbedTeam
    bridge: str
    vms: Sequence[Vm]
    hashes: bool
    learns: bool

    def apply(self) -> None:
        """Make each link a port of its own, and set the rules."""
        switch, devices = self.team.switch, self._devices()
        names = [device.interface for device in devices]
        for name in (bond_name(self.bridge), *names):
            switch.change("--if-exists", "del-port", name)
        switch.change(*[word for name in names for word in ("--", "add-port", self.bridge, name)][1:])
        _set_rules(self.team, self.bridge, list(self._rules()))
        if self.learns:
            for vm in self.vms:
                switch.query("fdb/add", self.bridge, vm.name, "0", _mac(vm))

    def _devices(self) -> Sequence[NetDevice]:
        return self.team.links.near if self.bridge == NEAR else self.team.links.far

    def _rules(self) -> Iterator[str]:
        number = self.team.switch.read_port_number
        links = [number(device.interface) for device in self._devices()]
        ports = [number(vm.name) for vm in self.vms]
        everywhere = ",".join(f"output:{port}" for port in ports)
        for index, (vm, port) in enumerate(zip(self.vms, ports, strict=True)):
            pinned = links[0] if self.hashes else links[index % len(links)]
            # A far switch without a channel answers where it learned the address.
            action = "NORMAL" if self.learns and self.bridge == FAR else f"output:{pinned}"
            yield f"priority=10,in_port={port},actions={action}"
            if self.hashes:
                yield from self._hash_rules(port, links)
            for link in links:
                action = "NORMAL" if self.learns else f"output:{port}"
                yield f"priority=100,in_port={link},dl_dst={_mac(vm)},actions={action}"
        yield f"priority=50,in_port={links[0]},dl_dst={_MULTICAST},actions={everywhere}"
        for link in links:
            yield f"priority=1,in_port={link},actions=drop"

    def _hash_rules(self, port: int, links: Sequence[int]) -> Iterator[str]:
        """Yield the XOR of both ports modulo the number of links, which is a power of two."""
        mask = len(links) - 1
        for source in range(len(links)):
            for destination in range(len(links)):
                match = f"tcp,tp_src={source:#x}/{mask:#x},tp_dst={destination:#x}/{mask:#x}"
                yield f"priority=20,in_port={port},{match},actions=output:{links[source ^ destination]}"


def _rules(
    policy: str, *, near_hashes: bool, far_hashes: bool, near_learns: bool, far_learns: bool
) -> Disturbance:
    """Return a disturbance that replaces the bonds of both ends by rules."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        near_vms, far_vms = ([vm for vm in target.vms if vm.side == side] for side in "ab")

        def spoil(team: OpenVswitchTestbedTeam) -> FaultyTeam:
            _RuleSwitch(team, NEAR, near_vms, near_hashes, near_learns).apply()
            _RuleSwitch(team, FAR, far_vms, far_hashes, far_learns).apply()
            spec = replace(team.spec, policy=policy, lacp="off")
            uplinks = tuple(
                Uplink(device.interface, speed)
                for device, speed in zip(team.links.near, team.spec.speeds_bps, strict=True)
            )
            macs = {parse_mac(_mac(vm)): i % len(uplinks) for i, vm in enumerate(near_vms)}
            return FaultyTeam(
                spec, team.links, team.switch, rule_team=Team(uplinks, uplink_by_mac=macs),
                far_state=(lambda near: near) if far_hashes else (lambda near: None),
            )  # fmt: skip

        def remove_rules(team: OpenVswitchTestbedTeam) -> None:
            # The static addresses stay: they name the ports where the VMs are.
            for bridge in (NEAR, FAR):
                _set_rules(team, bridge, ["priority=0,actions=NORMAL"])
            for device in team.links.near:
                team.switch.change("del-port", device.interface)

        with _team_fault(spoil, remove_rules)(target):
            yield

    return disturb


def _set_rules(team: OpenVswitchTestbedTeam, bridge: str, rules: Sequence[str]) -> None:
    """Replace the rules of a bridge."""
    switch = team.switch
    program = [open_vswitch.find_program("ovs-ofctl"), "--protocols=OpenFlow10"]
    address = f"unix:{switch.folder / f'{bridge}.mgmt'}"
    path = switch.folder / f"{bridge}.rules"
    path.write_text("\n".join(rules) + "\n")
    open_vswitch.run_tool([*program, "del-flows", address], switch.log)
    open_vswitch.run_tool([*program, "add-flows", address, str(path)], switch.log)


def _mac(vm: Vm) -> str:
    return netlink.interface_mac(*vm.device.location)
