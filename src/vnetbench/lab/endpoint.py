"""An endpoint of a testbed in any lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

PairSide = Literal["a", "b"]
"""The side of a pair that an endpoint is on."""
SIDES: tuple[PairSide, PairSide] = ("a", "b")
NO_SIDE: Literal[""] = ""
"""Of an element between the two sides of a pair, such as a router."""
PairSideOrEmpty = PairSide | Literal[""]


@dataclass(frozen=True)
class Endpoint:
    """A participant in trials, which runs an agent. Side `a` sends when the direction is forward."""

    has_own_kernel: ClassVar[bool] = True
    """Whether the endpoint has its own kernel instead of the bench's."""

    name: str
    side: PairSideOrEmpty
    """Empty for an element between the sides."""
    pair: int
    interface: str
    address: str
    """Address of the load by default: IPv4, or IPv6 if that is what a host has."""
    ipv6_address: str
    """IPv6 address; empty if there is none."""

    def address_for(self, ip_version: str) -> str:
        """Return the address for a level of the factor `ip_version`."""
        return self.ipv6_address if ip_version == "6" else self.address
