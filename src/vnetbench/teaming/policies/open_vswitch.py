"""Open vSwitch bonds: balance-slb and balance-tcp hash a flow into 256 buckets, and a table gives the member.

Formulas are those of Open vSwitch 3.1: lib/hash.h, lib/flow.c, lib/packets.h, lib/odp-execute.c,
lib/dpif-netdev.c and ofproto/bond.c. Builds with SSE 4.2 (`-msse4.2`) or ARM's CRC instructions use another
hash; Debian's do not.
"""

from __future__ import annotations

from vnetbench.teaming.flows import (
    ECHO_TYPES,
    ETHERTYPE_IPV6,
    IPV6_FRAGMENT,
    PROTOCOLS_WITH_PORTS,
    TCP,
    UDP,
    Flow,
)
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.prediction import Prediction, certain, undecided
from vnetbench.teaming.team import ByteOrder, Team

BUCKETS = 256
"""BOND_BUCKETS of ofproto/bond.c."""
_FAMILY = "Open vSwitch"
_MASK = 0xFFFFFFFF


def murmur_add(value: int, data: int) -> int:
    """Return hash_add() of lib/hash.h, a round of MurmurHash3; both arguments have 32 bits."""
    if data:
        data = data * 0xCC9E2D51 & _MASK
        data = _rotate(data, 15) * 0x1B873593 & _MASK
        value ^= data
    return (_rotate(value, 13) * 5 + 0xE6546B64) & _MASK


def murmur_add_64(value: int, data: int) -> int:
    """Return hash_add64(): the low word of `data`, then the high word."""
    return murmur_add(murmur_add(value, data & _MASK), data >> 32)


def murmur_finish(value: int, final: int) -> int:
    """Return hash_finish() of lib/hash.h."""
    value ^= final
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def hash_mac(mac: bytes, vlan: int, basis: int) -> int:
    """Return the hash of balance-slb (lib/packets.h). `ovs-appctl bond/hash` prints its low 8 bits."""
    return murmur_finish(murmur_add_64(basis, vlan << 48 | int.from_bytes(mac)), 8)


def hash_5_tuple(flow: Flow, byte_order: ByteOrder, protocol: int | None = None) -> int:
    """Return flow_hash_5tuple() of lib/flow.c without a basis.

    Addresses, protocol and ports count as the host reads them. `protocol` replaces the flow's number.
    """
    assert flow.source is not None and flow.destination is not None and flow.protocol is not None
    value = 0
    is_ipv6 = flow.source.version == 6
    for address in (flow.source, flow.destination):
        packed, size = address.packed, 8 if is_ipv6 else 4
        for i in range(0, len(packed), size):
            word = int.from_bytes(packed[i : i + size], byte_order)
            value = murmur_add_64(value, word) if is_ipv6 else murmur_add(value, word)
    value = murmur_add(value, flow.protocol if protocol is None else protocol)
    if flow.protocol in PROTOCOLS_WITH_PORTS or flow.protocol in ECHO_TYPES:
        word = int.from_bytes(_port_bytes(flow), byte_order)
        value = murmur_add(value, word)
    return murmur_finish(value, 42)


def hash_of_userspace_datapath(flow: Flow, team: Team) -> int:
    """Return the hash of OVS_ACTION_ATTR_HASH in lib/odp-execute.c.

    The datapath has already stored the packet's 5-tuple hash without a basis
    (dpif_netdev_packet_get_rss_hash_orig_pkt), so the action hashes that with the basis. For TCP and UDP, the
    protocol is the next header of the fixed IPv6 header (dp_packet_update_rss_hash_ipv6_tcp_udp): in a
    fragment, that is the fragment header.
    """
    is_fragment = flow.is_fragmented and flow.ethertype == ETHERTYPE_IPV6 and flow.protocol in (TCP, UDP)
    stored = hash_5_tuple(flow, team.byte_order, IPV6_FRAGMENT if is_fragment else None)
    return murmur_finish(murmur_add(murmur_add(stored, 0), team.hash_basis), 8)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _port_bytes(flow: Flow) -> bytes:
    """Return tp_src and tp_dst of lib/flow.c: ports, or type and code of ICMP, or 0 of later fragments."""
    if flow.protocol in ECHO_TYPES:
        return flow.sent_icmp_type().to_bytes(2) + flow.icmp_code.to_bytes(2)
    return (flow.source_port or 0).to_bytes(2) + (flow.destination_port or 0).to_bytes(2)


def _choose_slb(flow: Flow, team: Team) -> Prediction:
    assert flow.source_mac is not None
    return _choose_bucket(hash_mac(flow.source_mac, flow.vlan or 0, team.hash_basis) % BUCKETS, team)


def _choose_tcp(flow: Flow, team: Team) -> Prediction:
    if team.has_random_datapath_hash:
        return undecided(team.usable, "the kernel datapath's hash, whose key is random at each boot")
    return _choose_bucket(hash_of_userspace_datapath(flow, team) % BUCKETS, team)


def _choose_bucket(bucket: int, team: Team) -> Prediction:
    uplink = team.uplink_by_bucket.get(bucket)
    if uplink is not None and team.uplinks[uplink].is_up:
        return certain(uplink)
    return undecided(
        team.usable,
        f"the member of bucket {bucket}; `ovs-appctl bond/show` prints it once the bucket carried 1 kB",
        f"bucket {bucket}",
    )


POLICIES = (
    Policy(
        "balance-slb", _FAMILY, "256 buckets of source MAC address and VLAN, moved by load", "table",
        "Open vSwitch 3.1, ofproto/bond.c, bond_hash; lib/packets.h, hash_mac", ("source_mac",), _choose_slb,
        also_reads=("vlan",), answers="learned",
    ),
    Policy(
        "balance-tcp", _FAMILY, "256 buckets of addresses and ports, moved by load", "table",
        "Open vSwitch 3.1, lib/odp-execute.c, OVS_ACTION_ATTR_HASH; lib/flow.c, flow_hash_5tuple",
        ("source", "destination", "protocol", "source_port", "destination_port"), _choose_tcp,
    ),
)  # fmt: skip
ALIASES: dict[str, str] = {}
