"""The event `link-flap`: the path's link goes down, and up again after a time."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.lab.disruption.link_end import LinkEnd, LinkState
from vnetbench.lab.errors import TrialFailed
from vnetbench.study.factors.disruption_factors import LINK_FLAP


class LinkFlap:
    """Sets one end of a link down and up; the other end then has no carrier."""

    def __init__(self, near: LinkEnd, far: LinkEnd, name: str = LINK_FLAP) -> None:
        """Make the event `name` of a link whose near end is set down."""
        self._near, self._far, self._name = near, far, name
        self._before: LinkState | None = None
        self._far_while_down: LinkState | None = None

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return self._near.device.display_name

    def prepare(self) -> None:
        """See NetworkEvent."""
        self._near.open()
        self._far.open()
        self._before = self._near.read_state()

    def observe_before(self) -> None:
        """See NetworkEvent. The state before the load suffices."""

    def begin(self) -> None:
        """See NetworkEvent."""
        self._near.set_up(is_up=False)

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._far_while_down = self._far.read_state()

    def end(self) -> None:
        """See NetworkEvent."""
        self._near.set_up(is_up=True)

    def observe_after(self) -> None:
        """See NetworkEvent. Whether the link came up is read at the end of the trial."""

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        after = self._near.read_state()
        if self._before is None or self._far_while_down is None or self._far_while_down.is_up:
            raise TrialFailed(f"event {self._name}: the link of {self.target} did not go down")
        if not after.is_up:
            raise TrialFailed(f"event {self._name}: the link of {self.target} did not come up again")
        return {"carrier_changes": after.carrier_changes - self._before.carrier_changes}

    def set_up_again(self) -> None:
        """Set the link up if it is down."""
        if self._near.is_open and self._before is not None and not self._near.read_state().is_up:
            self._near.set_up(is_up=True)

    def restore(self) -> None:
        """See NetworkEvent."""
        try:
            self.set_up_again()
        finally:
            self._near.close()
            self._far.close()
