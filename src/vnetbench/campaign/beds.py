"""The testbeds of one campaign: raised when a treatment needs them, kept for the next, closed at the end."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from vnetbench.agents.client import AgentClient
from vnetbench.lab import registry
from vnetbench.lab.bed import Bed, raise_bed, start_observer
from vnetbench.lab.description import Shape

MOST_KEPT = 4
"""More testbeds than this stand side by side only at the cost of memory that trials might want."""


class Beds:
    """Testbeds by their shape, and the agent that watches the host. It lives, and must be closed."""

    def __init__(self, purpose: str) -> None:
        """`purpose` says in `vnetbench lab ls` what they are for."""
        self._purpose = purpose
        self._label = f"run-{secrets.token_hex(3)}"
        self._raised = 0
        self._kept: OrderedDict[Shape, Bed] = OrderedDict()
        self._observer: AgentClient | None = None

    def get(self, shape: Shape) -> Bed:
        """The testbed of this shape; raises BenchError when it cannot be built."""
        if shape not in self._kept:
            while len(self._kept) >= MOST_KEPT:
                self._kept.popitem(last=False)[1].close()
            self._raised += 1
            self._kept[shape] = raise_bed(f"{self._label}-{self._raised}", shape, self._purpose)
        self._kept.move_to_end(shape)
        return self._kept[shape]

    def was_used(self, shape: Shape) -> bool:
        """Whether a treatment has been accepted on the testbed of this shape."""
        return shape in self._kept and self._kept[shape].was_used

    def observer(self) -> AgentClient:
        """The agent on the bench's own host."""
        if self._observer is None:
            self._observer = start_observer(self._label)
        return self._observer

    def discard(self, shape: Shape) -> None:
        """Close the testbed of this shape, and the observer: the next trial gets new ones."""
        if bed := self._kept.pop(shape, None):
            bed.close()
        self._close_observer()

    def close(self) -> None:
        """Close everything, also what was broken off while it was raised."""
        while self._kept:
            self._kept.popitem()[1].close()
        for left in registry.entries():
            if left.name.startswith(f"{self._label}-"):
                registry.remove(left.name)
        self._close_observer()

    def _close_observer(self) -> None:
        if self._observer is not None:
            observer, self._observer = self._observer, None
            observer.close()
