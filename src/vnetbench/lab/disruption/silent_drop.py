"""The event `silent-drop`: the path's link stays up and drops every packet."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.lab.disruption.link_end import DEFAULT_DISCIPLINE, DROP_DISCIPLINE, LinkEnd
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.study.factors.disruption_factors import SILENT_DROP


class SilentDrop:
    """Drops what leaves either end of a link, by a queueing discipline that counts it."""

    def __init__(self, *ends: LinkEnd, name: str = SILENT_DROP) -> None:
        """Make the event `name` of a link with these ends."""
        self._ends, self._name = ends, name
        self._has_begun = False
        self._drops = 0
        self._disciplines: tuple[str, ...] = ()
        self._was_up = True

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return self._ends[0].device.display_name

    def prepare(self) -> None:
        """See NetworkEvent."""
        for end in self._ends:
            end.open()
            if (found := end.read_discipline()) != DEFAULT_DISCIPLINE:
                raise TreatmentRefused(
                    f"event {self._name} needs the queueing discipline of this link, which is {found} "
                    "already",
                    where=end.device.display_name,
                    fix="remove link_rate and the other factors of the link, or use event link-flap",
                )

    def observe_before(self) -> None:
        """See NetworkEvent. The state before the load suffices."""

    def begin(self) -> None:
        """See NetworkEvent."""
        self._has_begun = True
        for end in self._ends:
            end.start_dropping()

    def observe_during(self) -> None:
        """See NetworkEvent."""
        self._disciplines = tuple(end.read_discipline() for end in self._ends)
        self._was_up = all(end.read_state().is_up for end in self._ends)

    def end(self) -> None:
        """See NetworkEvent. The count of drops goes with the queueing discipline."""
        for end in self._ends:
            self._drops += end.count_drops()
            end.stop_dropping()

    def observe_after(self) -> None:
        """See NetworkEvent. Whether the link still drops is read at the end of the trial."""

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent."""
        if set(self._disciplines) != {DROP_DISCIPLINE}:
            raise TrialFailed(f"event silent-drop: the link of {self.target} did not drop in both directions")
        if not self._drops:
            raise TrialFailed(f"event {self._name}: the link of {self.target} dropped no packet")
        if not self._was_up:
            raise TrialFailed(f"event {self._name}: the link of {self.target} did not stay up")
        if any(end.read_discipline() != DEFAULT_DISCIPLINE for end in self._ends):
            raise TrialFailed(f"event {self._name}: the link of {self.target} still drops packets")
        return {"dropped_packets": self._drops, "link_was_up": self._was_up}

    def restore(self) -> None:
        """See NetworkEvent."""
        for end in self._ends:
            try:
                if self._has_begun and end.is_open and end.read_discipline() == DROP_DISCIPLINE:
                    end.stop_dropping()
            finally:
                end.close()
