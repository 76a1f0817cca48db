"""Linux bonding: the transmit hash policies, and the modes that need none.

Formulas are those of Linux 6.1 (Debian 12), drivers/net/bonding/bond_main.c and bond_alb.c. Each function
names its counterpart there. `docs/team-predict.md` says where other versions differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import xor

from vnetbench.teaming.flows import (
    AH,
    ECHO_TYPES,
    ESP,
    ETHERTYPE_VLAN,
    ICMP_ERRORS,
    PROTOCOLS_WITH_PORT_FIELDS,
    Address,
    Flow,
)
from vnetbench.teaming.policies.policy import Policy, choose_by_hash
from vnetbench.teaming.prediction import Prediction, certain, undecided
from vnetbench.teaming.team import Team

_FAMILY = "Linux bonding"
_LOAD_NOTE = (
    "the load of the uplinks when the hash bucket was first used, and at each rebalance; the kernel shows no"
    " table of it"
)
MODES_WITH_HASH = ("balance-xor", "802.3ad")
"""Modes of bonding that hash; without another setting by layer2."""
XMIT_HASH_POLICIES = ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac")
"""Hash policies of bonding, by the names of `xmit_hash_policy`."""


def hash_layer2(flow: Flow, team: Team) -> int:
    """Return bond_eth_hash(): the last bytes of both MAC addresses XOR the EtherType."""
    assert flow.source_mac is not None and flow.destination_mac is not None
    has_tag_in_frame = bool(flow.vlan) and team.is_vlan_tag_in_frame
    return (
        flow.destination_mac[5]
        ^ flow.source_mac[5]
        ^ (ETHERTYPE_VLAN if has_tag_in_frame else flow.ethertype)
    )


def hash_layer2_3(flow: Flow, team: Team) -> int:
    """Return __bond_xmit_hash() for layer2+3."""
    if flow.vlan and team.is_vlan_tag_in_frame:
        return hash_layer2(flow, team)  # bond_flow_ip() does not look behind a tag in the frame.
    return hash_addresses(
        hash_layer2(flow, team), _quoted(_seen_by_bond_flow_ip(flow)), team, has_ports=False
    )


def hash_layer3_4(flow: Flow, team: Team) -> int:
    """Return __bond_xmit_hash() for layer3+4."""
    if flow.vlan and team.is_vlan_tag_in_frame:
        return hash_layer2(flow, team)
    flow = _seen_by_bond_flow_ip(flow)
    quoted = _quoted(flow)
    # bond_flow_ip() alone reads the quoted packet, so a ping in it has no ID.
    is_quoted_ping = quoted is not flow and quoted.protocol in ECHO_TYPES
    word = 0 if is_quoted_ping else _ports_word(quoted, team)
    return hash_addresses(word, quoted, team, has_ports=True)


def hash_encap2_3(flow: Flow, team: Team) -> int:
    """Return __bond_xmit_hash() for encap2+3: the addresses in IP-in-IP and GRE tunnels."""
    return hash_addresses(hash_layer2(flow, team), innermost(flow), team, has_ports=False)


def hash_encap3_4(flow: Flow, team: Team) -> int:
    """Return __bond_xmit_hash() for encap3+4, for packets that carry no hash."""
    inner = innermost(flow)
    return hash_addresses(_ports_word(inner, team), inner, team, has_ports=True)


def hash_vlan_source_mac(flow: Flow, team: Team) -> int:
    """Return bond_vlan_srcmac_hash(): the tag, and both halves of the source MAC address as numbers.

    The tag includes its priority. A tag in the frame's bytes does not count.
    """
    assert flow.source_mac is not None
    tag = 0 if team.is_vlan_tag_in_frame else (flow.vlan or 0) | (flow.vlan_priority << 13)
    return tag ^ int.from_bytes(flow.source_mac[:3]) ^ int.from_bytes(flow.source_mac[3:])


def hash_addresses(value: int, flow: Flow, team: Team, *, has_ports: bool) -> int:
    """Return bond_ip_hash(): the value XOR both addresses, folded.

    Linux 6.1 drops the lowest bit of hashes with ports, because many clients use even ports only. Commit
    b5f862180d70 dropped it for all IP policies, and 49aefd131739 (April 2022) limited that. The kernel reads
    addresses and ports as numbers of the host's byte order, so byte order matters where the number of uplinks
    is no power of two.
    """
    assert flow.source is not None and flow.destination is not None
    value ^= address_word(flow.destination, team) ^ address_word(flow.source, team)
    value ^= value >> 16
    value ^= value >> 8
    drops_bit = team.dropped_hash_bit == "all" or (team.dropped_hash_bit == "ports" and has_ports)
    return value >> drops_bit


def address_word(address: Address, team: Team) -> int:
    """Return flow_get_u32_src(): an IPv4 address, or the four words of an IPv6 address XORed."""
    packed = address.packed
    return reduce(xor, (int.from_bytes(packed[i : i + 4], team.byte_order) for i in range(0, len(packed), 4)))


def innermost(flow: Flow) -> Flow:
    """Return the flow inside all tunnels, which __skb_flow_dissect() finds."""
    while flow.inner is not None and not _is_icmp_error(flow):
        flow = flow.inner
    return flow


def _is_icmp_error(flow: Flow) -> bool:
    """Return whether Linux sees an ICMP error: its first fragments do not count as ICMP."""
    if flow.is_fragmented or flow.protocol is None:
        return False
    return flow.icmp_type in ICMP_ERRORS.get(flow.protocol, ())


def _quoted(flow: Flow) -> Flow:
    """Return the flow that an ICMP error quotes, whose addresses and ports bond_flow_dissect() uses."""
    if flow.inner is None or not _is_icmp_error(flow):
        return flow
    return _seen_by_bond_flow_ip(flow.inner)


def _seen_by_bond_flow_ip(flow: Flow) -> Flow:
    """Return the flow without what bond_flow_ip() does not see.

    Behind extension headers of IPv6 it sees as little as in a fragment: no ports and no ICMP.
    """
    return replace(flow, is_fragmented=True) if flow.has_extension_headers else flow


def _ports_word(flow: Flow, team: Team) -> int:
    """Return the ports as bond_flow_dissect() finds them: 0 for fragments, type, code and ID for ping.

    An IPv6 fragment has an extension header, behind which the kernel does not look. The SPI of ESP and AH
    counts as ports (proto_ports_offset).
    """
    if flow.is_fragmented:
        return 0
    if flow.protocol in ECHO_TYPES:
        return _icmp_word(flow, team)
    if flow.protocol in (ESP, AH):
        assert flow.spi is not None
        return int.from_bytes(flow.spi.to_bytes(4), team.byte_order)
    if flow.protocol is not None and flow.protocol not in PROTOCOLS_WITH_PORT_FIELDS:
        return 0
    assert flow.source_port is not None and flow.destination_port is not None
    ports = flow.source_port.to_bytes(2) + flow.destination_port.to_bytes(2)
    return int.from_bytes(ports, team.byte_order)


def _icmp_word(flow: Flow, team: Team) -> int:
    """Return skb_flow_get_icmp_tci() as one number: messages without an ID count as 0."""
    assert flow.protocol is not None
    icmp_type = flow.sent_icmp_type()
    if icmp_type not in (8, 0, 13, 14, 128, 129) or flow.icmp_id is None:
        return 0
    # The ID is stored as a number of the host; 0 would mean that there is none.
    stored_id = (flow.icmp_id or 1).to_bytes(2, team.byte_order)
    return int.from_bytes(bytes((icmp_type, flow.icmp_code)) + stored_id, team.byte_order)


def _missing_field(flow: Flow, *, has_ports: bool) -> str | None:
    """Return what the packets have, the kernel reads and the flow does not state; None if nothing."""
    if _is_icmp_error(flow):
        if flow.inner is None:
            return "the packet that the ICMP error quotes; --pcap reads it"
        return _missing_field(_seen_by_bond_flow_ip(flow.inner), has_ports=True) if has_ports else None
    if flow.is_fragmented or not has_ports:
        return None
    if flow.protocol in (ESP, AH) and flow.spi is None:
        return "the SPI of the packets, which Linux hashes like ports: add spi= and answer-spi="
    has_port_fields = flow.protocol in PROTOCOLS_WITH_PORT_FIELDS
    return "the ports of the packets" if has_port_fields and flow.source_port is None else None


def _make_hash_chooser(
    compute_hash: Callable[[Flow, Team], int], *, has_ports: bool
) -> Callable[[Flow, Team], Prediction]:
    """Return a chooser by hash, which is undecided where the flow lacks what the kernel reads."""

    def choose(flow: Flow, team: Team) -> Prediction:
        reads_addresses = not (flow.vlan and team.is_vlan_tag_in_frame)
        seen = _seen_by_bond_flow_ip(flow)
        missing = _missing_field(seen, has_ports=has_ports) if reads_addresses else None
        if missing is not None:
            return undecided(team.usable, missing)
        return choose_by_hash(compute_hash)(flow, team)

    return choose


def _choose_encap3_4(flow: Flow, team: Team) -> Prediction:
    if not team.packets_carry_hash:
        inner = innermost(flow)
        missing = None if _is_icmp_error(inner) else _missing_field(inner, has_ports=True)
        if missing is not None:
            return undecided(team.usable, missing)
        return choose_by_hash(hash_encap3_4)(flow, team)
    return undecided(
        team.usable,
        "the random hash of the sending socket, or the receiving NIC's hash for forwarded packets, which"
        " Linux uses instead of addresses and ports (bond_xmit_hash)",
    )


def _choose_active(flow: Flow, team: Team) -> Prediction:
    if team.active is not None and team.uplinks[team.active].is_up:
        return certain(team.active)
    return undecided(team.usable, "which member is active", "active member")


def _choose_in_turn(flow: Flow, team: Team) -> Prediction:
    return Prediction(
        None,
        team.usable,
        depends_on="each packet: the uplinks take turns, so packets of a flow can arrive out of order",
        spread="packets in turn",
    )


def _choose_all(flow: Flow, team: Team) -> Prediction:
    text = "no field of the flow: every uplink carries a copy of each packet"
    return Prediction(None, team.usable, depends_on=text, spread="copy on each")


def _choose_tlb(flow: Flow, team: Team) -> Prediction:
    """Predict bond_xmit_tlb_slave_get() and bond_xmit_alb_slave_get().

    They assign each of 256 buckets to the least loaded uplink when it is first used. No file shows this
    table. With tlb_dynamic_lb=0 they use the transmit hash policy instead.
    """
    if team.has_dynamic_load_balancing:
        return undecided(team.usable, _LOAD_NOTE)
    return _POLICY_BY_NAME[team.xmit_hash_policy].predict(flow, team)


_MACS, _ADDRESSES = ("source_mac", "destination_mac"), ("source", "destination")
_PORTS = ("source_port", "destination_port")
_MAIN = "Linux 6.1, drivers/net/bonding/bond_main.c, "
_ALB = "Linux 6.1, drivers/net/bonding/bond_alb.c, "

POLICIES = (
    Policy(
        "layer2", _FAMILY, "last bytes of both MAC addresses XOR the EtherType", "hash",
        _MAIN + "bond_eth_hash", _MACS, choose_by_hash(hash_layer2), also_reads=("ethertype",),
    ),
    Policy(
        "layer2+3", _FAMILY, "MAC addresses and IP addresses", "hash",
        _MAIN + "bond_ip_hash", _MACS + _ADDRESSES,
        _make_hash_chooser(hash_layer2_3, has_ports=False),
    ),
    Policy(
        "layer3+4", _FAMILY, "IP addresses and ports; the lowest bit does not count", "hash",
        _MAIN + "bond_ip_hash", _ADDRESSES + _PORTS,
        _make_hash_chooser(hash_layer3_4, has_ports=True),
    ),
    Policy(
        "encap2+3", _FAMILY, "as layer2+3, with the IP addresses in a tunnel", "hash",
        _MAIN + "bond_flow_dissect", _MACS + _ADDRESSES, choose_by_hash(hash_encap2_3),
    ),
    Policy(
        "encap3+4", _FAMILY, "as layer3+4, with the addresses and ports in a tunnel", "hash",
        _MAIN + "bond_xmit_hash", _ADDRESSES + _PORTS, _choose_encap3_4,
    ),
    Policy(
        "vlan+srcmac", _FAMILY, "VLAN tag and source MAC address", "hash",
        _MAIN + "bond_vlan_srcmac_hash", ("source_mac",), choose_by_hash(hash_vlan_source_mac),
        also_reads=("vlan", "vlan_priority"),
    ),
    Policy(
        "active-backup", _FAMILY, "the active member; also Open vSwitch, teamd",
        "active member", _MAIN + "bond_xmit_activebackup_slave_get", (), _choose_active, answers="learned",
    ),
    Policy(
        "balance-rr", _FAMILY, "packets take turns", "every packet",
        _MAIN + "bond_xmit_roundrobin_slave_get", (), _choose_in_turn,
    ),
    Policy(
        "broadcast", _FAMILY, "every member carries a copy", "every packet",
        _MAIN + "bond_xmit_broadcast", (), _choose_all,
    ),
    Policy(
        "balance-tlb", _FAMILY, "256 buckets, by load", "load",
        _ALB + "bond_xmit_tlb_slave_get", (), _choose_tlb, answers="active member",
    ),
    Policy(
        "balance-alb", _FAMILY, "256 buckets of destination addresses, by load", "load",
        _ALB + "bond_xmit_alb_slave_get", (), _choose_tlb, answers="unknown",
    ),
)  # fmt: skip

_POLICY_BY_NAME = {policy.name: policy for policy in POLICIES}

ALIASES = {
    # The kernel's default hash policy is layer2 (bond_check_params).
    **dict.fromkeys(MODES_WITH_HASH, "layer2"),
    **{f"{mode}/{name}": name for mode in MODES_WITH_HASH for name in XMIT_HASH_POLICIES},
}
