"""The events of the lab `netns` by the level of the factor `event`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vnetbench.lab.disruption.bridge_port_stp import BridgePortStp
from vnetbench.lab.disruption.event import NetworkEvent, NoEvent
from vnetbench.lab.disruption.link_end import disrupted_link_ends
from vnetbench.lab.disruption.link_flap import LinkFlap
from vnetbench.lab.disruption.silent_drop import SilentDrop
from vnetbench.lab.disruption.team_lacp_stop import make_team_lacp_stop
from vnetbench.lab.disruption.team_link import (
    make_team_link_down,
    make_team_link_flap,
    make_team_link_silent,
)
from vnetbench.lab.disruption.team_link_up import make_team_link_up
from vnetbench.lab.disruption.team_rebalance import make_team_rebalance
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.testbed_team import TestbedTeam
from vnetbench.lab.netns.topology import NetnsTopology
from vnetbench.study.factors.disruption_factors import (
    BRIDGE_PORT_STP,
    EVENT,
    LINK_FLAP,
    NO_EVENT,
    SILENT_DROP,
    TEAM_LACP_STOP,
    TEAM_LINK_DOWN,
    TEAM_LINK_FLAP,
    TEAM_LINK_SILENT,
    TEAM_LINK_UP,
    TEAM_REBALANCE,
)
from vnetbench.study.model import Level


def _make_bridge_port_stp(topology: NetnsTopology) -> NetworkEvent:
    near, far = disrupted_link_ends(topology)
    # The switch that owns the near end: the first one with an uplink, else the only one.
    return BridgePortStp(near, far, topology.vswitches[0])


_MAKER_BY_SINGLE_LINK_EVENT: Mapping[str, Callable[[NetnsTopology], NetworkEvent]] = {
    NO_EVENT: lambda _: NoEvent(),
    LINK_FLAP: lambda topology: LinkFlap(*disrupted_link_ends(topology)),
    SILENT_DROP: lambda topology: SilentDrop(*disrupted_link_ends(topology)),
    BRIDGE_PORT_STP: _make_bridge_port_stp,
}


_MAKER_BY_TEAM_EVENT: Mapping[str, Callable[[NetnsTopology, TestbedTeam], NetworkEvent]] = {
    TEAM_LINK_DOWN: make_team_link_down,
    TEAM_LINK_SILENT: make_team_link_silent,
    TEAM_LINK_FLAP: make_team_link_flap,
    TEAM_LINK_UP: make_team_link_up,
    TEAM_LACP_STOP: make_team_lacp_stop,
    TEAM_REBALANCE: make_team_rebalance,
}


def make_network_event(
    topology: NetnsTopology, factors: Mapping[str, Level], team: TestbedTeam | None = None
) -> NetworkEvent:
    """Return the event of a treatment on this topology and its team, which has not begun.

    Raises:
        TreatmentRefused: The event needs a team, and the testbed has none.
    """
    event = str(EVENT.read_level(factors))
    if event not in _MAKER_BY_TEAM_EVENT:
        return _MAKER_BY_SINGLE_LINK_EVENT[event](topology)
    if team is None:
        raise TreatmentRefused(
            f"event {event} happens to a team of links, and the testbed has no team",
            fix="write [[testbed.team]] in the study",
        )
    return _MAKER_BY_TEAM_EVENT[event](topology, team)
