"""A link that goes down and up again and again while an event lasts."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from vnetbench.lab.disruption.link_end import LinkEnd, LinkState
from vnetbench.lab.errors import TrialFailed
from vnetbench.study.factors.disruption_factors import FLAP_PERIOD_S


class RepeatedLinkFlap:
    """Sets one end of a link down and up in turn, each for half of `FLAP_PERIOD_S`; down comes first."""

    def __init__(self, near: LinkEnd, far: LinkEnd, name: str) -> None:
        """Make the event `name` of a link whose near end is set down."""
        self._near, self._far, self._name = near, far, name
        self._before: LinkState | None = None
        self._is_over = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="link-flap")
        self._downs: Future[int] | None = None

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
        self._downs = self._thread.submit(self._flap)

    def observe_during(self) -> None:
        """See NetworkEvent. The kernel counts the changes of the carrier."""

    def end(self) -> None:
        """See NetworkEvent."""
        self._is_over.set()
        if self._downs is not None:
            self._downs.result()
        self._near.set_up(is_up=True)

    def observe_after(self) -> None:
        """See NetworkEvent. Whether the link came up is read at the end of the trial."""

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        if self._before is None or self._downs is None or not self._downs.done():
            raise TrialFailed(f"event {self._name}: the link of {self.target} did not flap until the end")
        after, downs = self._near.read_state(), self._downs.result()
        if not after.is_up:
            raise TrialFailed(f"event {self._name}: the link of {self.target} did not come up again")
        changes = after.carrier_changes - self._before.carrier_changes
        if downs < 2 or changes < 2 * downs:
            raise TrialFailed(
                f"event {self._name}: the link of {self.target} did not flap repeatedly: it went down "
                f"{downs} times, and its carrier changed {changes} times"
            )
        return {"downs": downs, "carrier_changes": changes}

    def restore(self) -> None:
        """See NetworkEvent."""
        self._is_over.set()
        self._thread.shutdown()
        try:
            if self._near.is_open and self._before is not None and not self._near.read_state().is_up:
                self._near.set_up(is_up=True)
        finally:
            self._near.close()
            self._far.close()

    def _flap(self) -> int:
        """Set the link up and down until the event is over; return how often it went down."""
        # A netlink socket belongs to one thread.
        end = LinkEnd(self._near.device)
        end.open()
        try:
            is_up, downs = False, 1
            while not self._is_over.wait(FLAP_PERIOD_S / 2):
                is_up = not is_up
                end.set_up(is_up=is_up)
                downs += not is_up
            return downs
        finally:
            end.close()
