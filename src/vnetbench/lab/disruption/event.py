"""What an event is: it is prepared, begins, ends, proves that it happened, and is undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from vnetbench.study.model import Level

NOTE = "note"
"""Key of a proof: a sentence about the effect of the event, which becomes a note of the trial."""


class NetworkEvent(Protocol):
    """One event on a running testbed. All its changes stay inside the testbed."""

    @property
    def target(self) -> str:
        """What the event happens to, as a person names it."""

    def prepare(self) -> None:
        """Open what the event needs and configure what it requires, before the load starts.

        Raises:
            TreatmentRefused: This testbed cannot make the event.
        """

    def observe_before(self) -> None:
        """Read back the state under load, just before the event begins."""

    def begin(self) -> None:
        """Begin the event, in as few system calls as possible."""

    def observe_during(self) -> None:
        """Read back the state while the event lasts, just before it ends."""

    def end(self) -> None:
        """End the event, in as few system calls as possible; the network may need longer to recover."""

    def observe_after(self) -> None:
        """Read back the state just after the end."""

    def prove(self) -> Mapping[str, object]:
        """Return what was read back while the event lasted and after it; `NOTE` becomes a trial's note.

        Raises:
            TrialFailed: The event did not happen, or its effect is not over.
        """

    def restore(self) -> None:
        """Undo every change and close what is open, in any state; may be called more than once.

        Returns when the network carries traffic again.
        """


@runtime_checkable
class SelfEndingEvent(NetworkEvent, Protocol):
    """An event that ends when it is done. `event_duration` is its time limit."""

    def has_ended(self) -> bool:
        """Return whether the event is done.

        Raises:
            TrialFailed: The event failed.
        """

    def describe_progress(self) -> str:
        """Return how far the event is, for the message about one that does not end in time."""


class NoEvent:
    """The control: nothing happens, at the times at which an event would."""

    target = "nothing"

    def prepare(self) -> None:
        """Do nothing."""

    def observe_before(self) -> None:
        """Do nothing."""

    def begin(self) -> None:
        """Do nothing."""

    def observe_during(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def observe_after(self) -> None:
        """Do nothing."""

    def prove(self) -> Mapping[str, object]:
        """Return an empty proof."""
        return {}

    def restore(self) -> None:
        """Do nothing."""


@runtime_checkable
class DisruptableTestbed(Protocol):
    """A testbed that can make events; its sinks and the bench share the kernel's CLOCK_MONOTONIC."""

    def make_network_event(self, factors: Mapping[str, Level]) -> NetworkEvent:
        """Return the event of a treatment, which has not begun."""
