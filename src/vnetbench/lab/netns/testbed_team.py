"""The team of a testbed: links between two virtual switches, bundled anew and proved for each treatment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links.shaping import is_requested_rate, read_rate_limit_bps
from vnetbench.lab.netns.network_settings import shape_and_prove
from vnetbench.lab.netns.topology import NetDevice, TeamLinks
from vnetbench.study.teams import TeamSpec
from vnetbench.teaming.state.team_state import TeamState

NEAR, FAR = "sw0", "sw1"
"""The virtual switches at the two ends of the links: that of the first VMs of the pairs, and the other."""
CHANNEL, NO_CHANNEL = "bond", "switch without a bond"
"""What the far end of a team is, in the results file."""
TEAM_FIX = "run the study again; if it fails again, run vnetbench doctor to see what this machine allows"


@dataclass(frozen=True)
class TeamStates:
    """The states of the two ends of a team, as they were read at one time."""

    near: TeamState
    far: TeamState | None
    """None if the far end is a switch that does not bundle the links."""


@dataclass(frozen=True)
class TestbedTeam(ABC):
    """A team between the two virtual switches of a running testbed. Each backend has a class of its own."""

    spec: TeamSpec
    links: TeamLinks

    @abstractmethod
    def bundle_links(self) -> None:
        """Remove what bundles the links, and bundle them as the treatment requests.

        A new team has empty tables, so that no trial depends on the one before it.

        Raises:
            BenchError: if the switch refuses, or the members are not ready in time.
        """

    @abstractmethod
    def read_near_state(self) -> TeamState:
        """Return the state of the near end, from which the load comes; raises BenchError."""

    @abstractmethod
    def read_far_state(self) -> TeamState | None:
        """Return the state of the far end; None if it does not bundle the links. Raises BenchError."""

    @abstractmethod
    def backend_values(self) -> Mapping[str, Any]:
        """Return what only this backend has, for the results file; raises BenchError."""

    def backend_link_values(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what only this backend has of each link, by its near interface; raises BenchError."""
        return {}

    def find_disabled_members(self, state: TeamState) -> list[str]:
        """Return the members of an end that should be able to send, and may not."""
        return [each.name for each in state.team.uplinks if not each.is_up]

    def end_location(self, end: str) -> str:
        """Return where the end NEAR or FAR is, for errors."""
        return f"bridge {end}"

    def shape_links(self, shaper: str) -> None:
        """Shape both ends of each link to its speed, if the study gives speeds.

        Call it after `bundle_links`: Open vSwitch removes the shaper of an interface that becomes a port.

        Raises:
            TreatmentRefused: if another rate was read back.
            BenchError: if the kernel refuses.
        """
        if self.spec.listed_speeds_bps:
            for ends in (self.links.near, self.links.far):
                for device, rate_bps in zip(ends, self.spec.speeds_bps, strict=True):
                    shape_and_prove(device, rate_bps, shaper, key="speed")

    def read_states(self) -> TeamStates:
        """Return the states of both ends; raises BenchError."""
        far = self.read_far_state()
        return TeamStates(self.read_near_state(), far)

    def prove(self, states: TeamStates) -> None:
        """Check the states that the switch reports, and the speeds of the links.

        Raises:
            TreatmentRefused: if the policy, the members or the speeds are not as requested.
        """
        ends = (
            (NEAR, states.near, self.spec.effective_policy),
            (FAR, states.far, self.spec.effective_far_policy),
        )
        for bridge, state, policy in ends:
            if state is None:
                continue
            down = self.find_disabled_members(state)
            if state.policy_name != policy or down:
                reason = f"these members may not send: {', '.join(down)}" if down else state.policy_name
                raise TreatmentRefused(
                    f"the team's policy {policy} did not take effect: {reason}",
                    where=self.end_location(bridge),
                    fix=TEAM_FIX,
                )
        if self.spec.listed_speeds_bps:
            for devices in (self.links.near, self.links.far):
                for device, speed_bps in zip(devices, self.spec.speeds_bps, strict=True):
                    found = _read_speed_bps(device)
                    if not is_requested_rate(found, speed_bps):
                        raise TreatmentRefused(
                            f"the link's speed is {found} bit/s instead of {speed_bps}",
                            where=device.display_name,
                            fix=TEAM_FIX,
                        )

    def read_mac_moves(self) -> dict[str, int | None]:
        """Return how often each switch saw an address move to another port since it was created.

        None at the ends whose switch does not count it, as a Linux bridge.
        """
        return dict.fromkeys(("near", "far"))

    def effective_values(self, states: TeamStates) -> dict[str, Any]:
        """Return the team and its links as they were read back, for the results file."""
        link_values = self.backend_link_values()
        return {
            "name": self.spec.name,
            "location": self.spec.location,
            "policy": states.near.policy_name,
            "lacp": "negotiated" if self.spec.has_lacp else "off",
            **self.backend_values(),
            "far_end": CHANNEL if states.far is not None else NO_CHANNEL,
            "mac_moves": self.read_mac_moves(),
            "links": [
                self._link_values(number, uplink.is_up, link_values)
                for number, uplink in enumerate(states.near.team.uplinks)
            ],
        }

    def _link_values(
        self, number: int, is_enabled: bool, values_by_interface: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        near, far = self.links.near[number], self.links.far[number]
        return {
            "name": f"link{number}",
            "near": near.interface,
            "far": far.interface,
            "speed_bps": _read_speed_bps(near),
            "enabled": is_enabled,
            **values_by_interface.get(near.interface, {}),
        }


def interfaces_of(devices: tuple[NetDevice, ...]) -> list[str]:
    """Return the names of devices."""
    return [device.interface for device in devices]


def _read_speed_bps(device: NetDevice) -> int | None:
    rate_bps = read_rate_limit_bps(device)
    return None if rate_bps is None else round(rate_bps)
