"""An endpoint of a testbed, whatever lab made or found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Endpoint:
    """Where an agent runs that takes part in trials. Side `a` sends when the direction is forward."""

    has_own_kernel: ClassVar[bool] = True
    """Whether it runs a kernel of its own, and not the bench's."""

    name: str
    side: str
    pair: int
    interface: str
    address: str
    address6: str
    """Its IPv6 address; empty where it has none."""

    def address_of(self, ip_version: str) -> str:
        """Its address in a level of the factor `ip_version`."""
        return self.address6 if ip_version == "6" else self.address
