"""A team: uplinks with their speed and link state, and what a policy reads of the team's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from vnetbench.errors import BenchError

ByteOrder = Literal["little", "big"]

MAX_UPLINKS = 64
"""It bounds time, and the JSON, which names the candidates of each flow. Linux bonding has no limit."""


@dataclass(frozen=True)
class Uplink:
    """One member of a team.

    Attributes:
        name: Name of the interface, or its index.
        speed_bps: Speed in bit/s; None if it is unknown.
        is_up: Whether the team may send through it.
    """

    name: str
    speed_bps: int | None = None
    is_up: bool = True


@dataclass(frozen=True)
class Team:
    """Uplinks that a policy chooses from, in the team's order, and the state that the choice depends on.

    Attributes:
        uplinks: Members in the order in which the team counts them.
        active: Index of the active member; None if it is unknown.
        uplink_by_bucket: Index of the member that each hash bucket uses, as far as it is known.
        uplink_by_port_id: Index of the member that each virtual switch port uses.
        uplink_by_mac: Index of the member that each source MAC address uses.
        hash_basis: Open vSwitch's `bond-hash-basis`.
        byte_order: Byte order of the host that computes the hash.
        packets_carry_hash: Whether packets carry a hash of their socket or of a NIC, which encap3+4 uses.
        is_vlan_tag_in_frame: Whether VLAN tags are in the frame's bytes when the team hashes it. They are
            not if a VLAN interface on the team adds them.
        has_dynamic_load_balancing: The option `tlb_dynamic_lb` of balance-tlb.
        xmit_hash_policy: Hash policy of balance-tlb without dynamic load balancing.
        dropped_hash_bit: Policies of Linux bonding whose hash loses its lowest bit. It depends on the kernel.
        has_random_datapath_hash: Whether Open vSwitch's kernel datapath forwards; its hash has a random key.
    """

    uplinks: tuple[Uplink, ...]
    active: int | None = None
    uplink_by_bucket: Mapping[int, int] = field(default_factory=dict)
    uplink_by_port_id: Mapping[int, int] = field(default_factory=dict)
    uplink_by_mac: Mapping[bytes, int] = field(default_factory=dict)
    hash_basis: int = 0
    byte_order: ByteOrder = "little"
    packets_carry_hash: bool = True
    is_vlan_tag_in_frame: bool = False
    has_dynamic_load_balancing: bool = True
    xmit_hash_policy: str = "layer2"
    dropped_hash_bit: Literal["ports", "all", "none"] = "ports"
    has_random_datapath_hash: bool = False

    def __post_init__(self) -> None:
        _check_uplink_count(len(self.uplinks))

    @cached_property
    def usable(self) -> tuple[int, ...]:
        """Indices of the members that are up, in the team's order."""
        return tuple(i for i, uplink in enumerate(self.uplinks) if uplink.is_up)


def make_team(count: int, speed_bps: int | None = None) -> Team:
    """Return a team of `count` equal uplinks that are all up, named by their index.

    Raises:
        BenchError: The number of uplinks is out of range.
    """
    _check_uplink_count(count)
    return Team(tuple(Uplink(str(i), speed_bps) for i in range(count)))


def _check_uplink_count(count: int) -> None:
    if not 1 <= count <= MAX_UPLINKS:
        raise BenchError(
            f"a team of {count} uplinks is outside 1 to {MAX_UPLINKS}",
            fix=f"give a team with 1 to {MAX_UPLINKS} uplinks",
        )
