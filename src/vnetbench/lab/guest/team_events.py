"""Events on a team of guests: for `team-link-down`, QEMU takes the link of their adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vnetbench import cleanup
from vnetbench.errors import BenchError
from vnetbench.lab.disruption.event import NetworkEvent, NoEvent
from vnetbench.lab.disruption.link_end import LinkEnd
from vnetbench.lab.disruption.link_flap import LinkFlap
from vnetbench.lab.disruption.team_link import TeamLinkEvent, make_team_link_silent
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest.launcher import RunningGuest
from vnetbench.lab.guest.qmp import MonitorError
from vnetbench.lab.guest.testbed_team import GuestTestbedTeam
from vnetbench.study.factors.disruption_factors import EVENT, NO_EVENT, TEAM_LINK_DOWN, TEAM_LINK_SILENT
from vnetbench.study.model import Level

SetLinkUp = Callable[[bool], None]
"""Gives an adapter of a guest its link, or takes it."""


class GuestLinkDown:
    """Takes the link of the adapters at both ends, and the carrier of the link between them.

    An adapter does not see the carrier of the link behind its tap, so QEMU takes its link. A switch at the
    far end sees the carrier.
    """

    def __init__(self, near: LinkEnd, far: LinkEnd, adapters: Sequence[SetLinkUp]) -> None:
        """Make the event of a link whose ends lead to these adapters."""
        self._flap = LinkFlap(far, near, TEAM_LINK_DOWN)
        self._adapters = adapters
        self._has_taken_links = False

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return self._flap.target

    def prepare(self) -> None:
        """See NetworkEvent."""
        self._flap.prepare()

    def observe_before(self) -> None:
        """See NetworkEvent. The state before the load suffices."""

    def begin(self) -> None:
        """See NetworkEvent."""
        self._flap.begin()
        self._has_taken_links = True
        for set_link_up in self._adapters:
            set_link_up(False)

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._flap.observe_during()

    def end(self) -> None:
        """See NetworkEvent."""
        self._flap.end()
        self._give_links()

    def observe_after(self) -> None:
        """See NetworkEvent. Whether the link came up is read at the end of the trial."""

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        return self._flap.prove()

    def restore(self) -> None:
        """See NetworkEvent."""
        cleanup.run_all_despite_errors((self._give_links, self._flap.restore))

    def _give_links(self) -> None:
        for set_link_up in self._adapters if self._has_taken_links else ():
            set_link_up(True)
        self._has_taken_links = False


def make_guest_team_event(
    factors: Mapping[str, Level], team: GuestTestbedTeam | None, running: Sequence[RunningGuest]
) -> NetworkEvent:
    """Return the event of a treatment, which has not begun.

    Raises:
        TreatmentRefused: if the testbed has no team whose endpoints share the clock of the host.
    """
    if team is None or not team.topology.vms:
        raise TreatmentRefused(
            f"{EVENT.format_as_assignment(factors[EVENT.name])} needs endpoints on the host, whose clock "
            "shows when the event happens",
            fix='write [[testbed.team]] with location = "gateways"',
        )
    event = str(EVENT.read_level(factors))
    if event == NO_EVENT:
        return NoEvent()
    if event == TEAM_LINK_SILENT:
        return make_team_link_silent(team.topology, team)

    def make_link_down(near: LinkEnd, far: LinkEnd) -> NetworkEvent:
        return GuestLinkDown(near, far, find_adapters(team.links.near.index(near.device), team, running))

    return TeamLinkEvent(TEAM_LINK_DOWN, team.topology, team, make_link_down)


def find_adapters(link: int, team: GuestTestbedTeam, running: Sequence[RunningGuest]) -> list[SetLinkUp]:
    """Return the adapters at both ends of a link."""
    guests = {each.guest.name: each for each in running}
    return [
        _adapter_link(guests[end.guest.name], end.adapter_number(link)) for end in team.topology.team_ends
    ]


def _adapter_link(guest: RunningGuest, adapter: int) -> SetLinkUp:
    def set_link_up(is_up: bool) -> None:
        try:
            # QEMU numbers the network devices as the adapters.
            guest.process.monitor.execute("set_link", name=f"net{adapter}", up=is_up)
        except MonitorError as error:
            raise BenchError(
                f"QEMU refused to change the link of adapter {adapter} ({error})",
                where=guest.guest.name,
                fix="run the study again",
            ) from error

    return set_link_up
