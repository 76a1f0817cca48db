"""The events of the lab `qemu` by the level of the factor `event`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vnetbench.lab.disruption.event import NetworkEvent, NoEvent
from vnetbench.lab.disruption.link_end import LinkEnd
from vnetbench.lab.disruption.link_flap import LinkFlap
from vnetbench.lab.disruption.live_migration import LiveMigration
from vnetbench.lab.disruption.silent_drop import SilentDrop
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest.migration import GuestMigration
from vnetbench.lab.guest.topology import GuestTopology
from vnetbench.study.factors.disruption_factors import (
    EVENT,
    LINK_FLAP,
    LIVE_MIGRATION,
    NO_EVENT,
    SILENT_DROP,
)
from vnetbench.study.model import Level

MakeMigration = Callable[[Mapping[str, Level]], GuestMigration]
"""Makes the migration of the testbed's guest in a treatment."""


def make_guest_event(
    topology: GuestTopology, factors: Mapping[str, Level], make_migration: MakeMigration
) -> NetworkEvent:
    """Return the event of a treatment on a testbed of guests, which has not begun.

    Raises:
        TreatmentRefused: The lab cannot make the event.
    """
    event = str(EVENT.read_level(factors))
    if event == NO_EVENT:
        return NoEvent()
    if event == LIVE_MIGRATION:
        return LiveMigration(make_migration(factors))
    if event == LINK_FLAP:
        return LinkFlap(*_host_endpoint_link(topology))
    if event == SILENT_DROP:
        return SilentDrop(*_host_endpoint_link(topology))
    raise TreatmentRefused(
        f"the lab qemu cannot make event {event}", fix='write lab = "netns" under [testbed]'
    )


def _host_endpoint_link(topology: GuestTopology) -> tuple[LinkEnd, LinkEnd]:
    """Return both ends of the link to the second endpoint, which is on the host; the switch's end first."""
    endpoint = next(vm for vm in topology.vms if vm.side == "b")
    return LinkEnd(topology.ports_by_pair[0][-1]), LinkEnd(endpoint.device)
