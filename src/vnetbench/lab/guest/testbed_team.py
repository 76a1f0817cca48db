"""The team of a testbed of guests: Linux bonding in two guests, proved for each treatment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import NO_SIDE, Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest.open_vswitch_end import OpenVswitchEnd
from vnetbench.lab.guest.team_network import FarEnd, connect_far_end
from vnetbench.lab.guest.team_topology import (
    TEAM_INTERFACE,
    GuestTeamTopology,
    TeamEnd,
    address_texts,
)
from vnetbench.lab.netns.testbed_team import FAR, NEAR, TEAM_FIX, TeamStates, TestbedTeam
from vnetbench.printable import make_printable
from vnetbench.study.bonding_policies import (
    LACP_MODE,
    bonding_options,
    mode_of_policy,
)
from vnetbench.study.teams import (
    ACTIVE_BACKUP,
    LACP_POLICY_PREFIX,
    LACP_TIMEOUT_BY_TIMER_S,
)
from vnetbench.teaming.state.linux_bonding import read_bonding_dump
from vnetbench.teaming.state.team_state import TeamState

READY_TIMEOUT_S = 20.0
"""Longest wait for the members of a new team, in addition to LACP's own timeout. An e1000e has its link some
seconds after it joined, and a guest may share its CPU."""
STATE_POLL_INTERVAL_S = 0.05
LOAD_BALANCE_INTERVAL_S = 10.0
"""Interval in which balance-tlb and balance-alb move flows between members (bond_alb.c)."""


@dataclass
class ReadyTime:
    """How long the members of a new team took until all might send."""

    seconds: float | None = None
    """From the creation of both bonds, in s; None before they are ready."""


@dataclass(frozen=True)
class GuestTestbedTeam(TestbedTeam):
    """The teams of two guests, with links between them.

    Modes that need a channel at the other end have a team of the same mode there, or with LACP a bond of Open
    vSwitch. The others have a switch that does not bundle the links, as bonding.rst describes it.
    """

    topology: GuestTeamTopology
    agents: Mapping[str, AgentClient]
    open_vswitch_end: OpenVswitchEnd
    ready_time: ReadyTime = field(default_factory=ReadyTime)

    def bundle_links(self) -> None:
        """See TestbedTeam. The bonds are in the guests."""
        near, far = ends = self.topology.team_ends
        self._call_each({end: {"name": TEAM_INTERFACE} for end in ends})
        self.open_vswitch_end.remove()
        connect_far_end(self.topology, self._far_end)
        requests = {near: self._request(near, self._options(near, is_active=self.spec.is_near_end_active))}
        if self._has_team(far):
            requests[far] = self._request(far, self._options(far, is_active=self.spec.is_far_end_active))
        elif not far.inner_nics:
            requests[far] = self._request(far, _SINGLE_ADAPTER_OPTIONS, member_count=1)
        if self.spec.has_open_vswitch_far_end:
            self.open_vswitch_end.create(self.spec)
        answers = self._call_each(requests)
        start = time.monotonic()
        for end, answer in answers.items():
            _check_effective(end, requests[end], answer)
        self.wait_until_ready()
        self.ready_time.seconds = time.monotonic() - start

    @property
    def _far_end(self) -> FarEnd:
        if self.spec.has_open_vswitch_far_end:
            return "bond of Open vSwitch"
        return "switch" if self.spec.far_policy is None else "bond in a guest"

    def _options(self, end: TeamEnd, *, is_active: bool) -> dict[str, str]:
        return bonding_options(self.spec, end.member_names[0], is_passive=not is_active)

    def _request(
        self, end: TeamEnd, options: Mapping[str, str], member_count: int | None = None
    ) -> dict[str, Any]:
        own = next((each for each in self.topology.endpoints if each.name == end.guest.name), None)
        return {
            "name": TEAM_INTERFACE,
            "members": list(end.member_names[:member_count]),
            "options": dict(options),
            "bridged_with": [nic.guest_interface for nic in end.inner_nics],
            "addresses": address_texts(own) if own else [],
        }

    def _call_each(self, requests: Mapping[TeamEnd, Mapping[str, Any]]) -> dict[TeamEnd, Mapping[str, Any]]:
        """Send a request to the guest of each end, and return the answers."""
        pending = {
            end: self.agents[end.guest.name].send("guest.team", **parameters)
            for end, parameters in requests.items()
        }
        try:
            return {
                end: self.agents[end.guest.name].wait(future, "guest.team") for end, future in pending.items()
            }
        except AgentError as error:
            raise BenchError(
                error.message,
                where=f"the team in {error.endpoint}",
                fix="choose a policy that the bonding driver of the guests' kernel has",
            ) from error

    def knob_endpoints(self) -> list[Endpoint]:
        """Return the interfaces whose knobs a treatment sets: the teams, and the gateways' other adapters.

        A team sets the MTU of its members.
        """
        endpoints = []
        for end in self.topology.team_ends:
            name = end.guest.name
            if not end.inner_nics:
                endpoints += [each for each in self.topology.endpoints if each.name == name]
                continue
            interfaces = [nic.guest_interface for nic in end.inner_nics]
            interfaces += [TEAM_INTERFACE] if self._has_team(end) else []
            endpoints += [
                Endpoint(f"{name} {interface}", NO_SIDE, 1, interface, "", "") for interface in interfaces
            ]
        return endpoints

    def _has_team(self, end: TeamEnd) -> bool:
        return end == self.topology.team_ends[0] or self._far_end == "bond in a guest"

    def read_near_state(self) -> TeamState:
        """See TestbedTeam."""
        return self._read_state(self.topology.team_ends[0])

    def read_far_state(self) -> TeamState | None:
        """See TestbedTeam."""
        if self.spec.has_open_vswitch_far_end:
            return self.open_vswitch_end.read_state(self.spec)
        far = self.topology.team_ends[1]
        return self._read_state(far) if self._has_team(far) else None

    def _read_state(self, end: TeamEnd) -> TeamState:
        """Return the state that the bonding driver of one end reports, with its members in their order."""
        state = read_bonding_dump(self._read_dump(end))
        names = [uplink.name for uplink in state.team.uplinks]
        if names != list(end.member_names):
            raise TreatmentRefused(
                f"the bond has the members {', '.join(names)}",
                where=f"the team in {end.guest.name}",
                fix=TEAM_FIX,
            )
        uplinks = (
            replace(uplink, speed_bps=rate_bps)
            for uplink, rate_bps in zip(state.team.uplinks, self.spec.speeds_bps, strict=True)
        )
        # The adapter of a gateway gives the frames that it receives no hash. A socket gives its packets one.
        team = replace(state.team, uplinks=tuple(uplinks), packets_carry_hash=not end.inner_nics)
        has_lacp = state.dump_format.endswith(f" {LACP_MODE}")
        policy = f"{LACP_POLICY_PREFIX if has_lacp else ''}{state.policy_name}"
        return replace(state, team=team, policy_name=policy)

    def _read_dump(self, end: TeamEnd) -> str:
        answer = self.agents[end.guest.name].call("guest.team_state", name=TEAM_INTERFACE)
        return str(answer["bonding"])

    def wait_until_ready(self) -> None:
        """Wait until all members may send, and LACP is negotiated if it is used; raises BenchError."""
        deadline = time.monotonic() + READY_TIMEOUT_S + LACP_TIMEOUT_BY_TIMER_S.get(self.spec.lacp_timer, 0.0)
        while reason := self._find_unready_end():
            if time.monotonic() > deadline:
                raise BenchError(
                    f"the members of the team are not ready: {make_printable(reason)}",
                    where=f"team {self.spec.name}",
                    fix=TEAM_FIX,
                )
            time.sleep(STATE_POLL_INTERVAL_S)

    def _find_unready_end(self) -> str:
        """Return why the team may not carry the load yet; empty if it may."""
        reason = ""
        if self.spec.has_open_vswitch_far_end:
            reason = self.open_vswitch_end.find_reason_not_ready(self.spec)
        return reason or self._find_unready_member(self.read_states())

    def _find_unready_member(self, states: TeamStates) -> str:
        """Return why a member may not send yet; empty if all may, and LACP is negotiated if it is used."""
        for end, state in ((NEAR, states.near), (FAR, states.far)):
            # Notes on bonding name members without a link, in another aggregator, or without a partner.
            is_bonding = end == NEAR or not self.spec.has_open_vswitch_far_end
            if state is not None and is_bonding and state.notes:
                return f"{self.end_location(end)}: {' '.join(state.notes)}"
        if self.spec.policy == ACTIVE_BACKUP and states.near.team.active != 0:
            return f"{self.end_location(NEAR)}: the first member is not active yet"
        return ""

    def prove(self, states: TeamStates) -> None:
        """See TestbedTeam. Also checks that LACP is negotiated."""
        if reason := self._find_unready_member(states):
            raise TreatmentRefused(
                f"the team's policy {self.spec.policy} is not in effect: {make_printable(reason)}",
                where=f"team {self.spec.name}",
                fix=TEAM_FIX,
            )
        super().prove(states)

    def end_location(self, end: str) -> str:
        """See TestbedTeam."""
        if end == FAR and self.spec.has_open_vswitch_far_end:
            return "the bond of Open vSwitch"
        return f"the team in {self.topology.team_ends[(NEAR, FAR).index(end)].guest.name}"

    def backend_values(self) -> Mapping[str, Any]:
        """See TestbedTeam. The timer of LACP was read back when the bonds were created."""
        has_balancer = mode_of_policy(self.spec.policy) in ("balance-tlb", "balance-alb")
        seconds = self.ready_time.seconds
        return {
            **({"rebalance_interval_s": LOAD_BALANCE_INTERVAL_S} if has_balancer else {}),
            "lacp_timer": self.spec.lacp_timer if self.spec.has_lacp else None,
            **({"lacp_active": self.spec.lacp_active} if self.spec.has_lacp else {}),
            **({"far_policy": self.spec.far_policy} if self.spec.has_open_vswitch_far_end else {}),
            **({} if seconds is None else {"ready_s": round(seconds, 3)}),
        }


_SINGLE_ADAPTER_OPTIONS = {"mode": ACTIVE_BACKUP, "miimon": "100"}
"""A bond of one adapter: the guest's interface then has the same name in all treatments."""


def _check_effective(end: TeamEnd, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Raise TreatmentRefused if the kernel reads back other options; it adds a number to most names."""
    for name, value in request["options"].items():
        found = make_printable(str(answer["options"].get(name)))
        if found.split()[:1] != [value]:
            raise TreatmentRefused(
                f"the option {name} = {value} of bonding did not take effect: {found} was read back",
                where=f"the team in {end.guest.name}",
                fix=TEAM_FIX,
            )
