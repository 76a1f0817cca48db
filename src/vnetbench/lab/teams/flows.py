"""Random flows that reach every field that a team may hash, reproducible from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from vnetbench.teaming.flows import GRE, ICMP, ICMPV6, IPV4_IN_IP, IPV6_IN_IP, SCTP, TCP, UDP, Address, Flow

SOURCE_MAC_PREFIX, DESTINATION_MAC_PREFIX = b"\x02\xaa", b"\x02\xbb"
"""Prefixes of MAC addresses. They differ: a switch must not learn a destination where frames come from."""
_TUNNEL_SHARE, _VLAN_SHARE, _FRAGMENT_SHARE = 0.1, 0.3, 0.03
_PROTOCOL_WEIGHTS = {TCP: 45, UDP: 40, SCTP: 5, ICMP: 10}


def random_flows(count: int, seed: int, *, is_plain: bool = False) -> list[Flow]:
    """Return flows of IPv4 and IPv6, with and without VLAN tags, over several protocols and in tunnels.

    Args:
        count: Number of flows.
        seed: The same seed gives the same flows.
        is_plain: Return TCP and UDP only: no tunnels, no fragments and no ICMP.
    """
    generator = random.Random(seed)
    return [_random_flow(generator, is_plain) for _ in range(count)]


def _random_flow(generator: random.Random, is_plain: bool) -> Flow:
    protocols: Sequence[int] = (TCP, UDP) if is_plain else tuple(_PROTOCOL_WEIGHTS)
    weights = None if is_plain else tuple(_PROTOCOL_WEIGHTS.values())
    (protocol,) = generator.choices(protocols, weights)
    flow = _ip_flow(generator, protocol)
    if not is_plain and generator.random() < _TUNNEL_SHARE:
        flow = _in_tunnel(generator, flow)
    return replace(
        flow,
        source_mac=SOURCE_MAC_PREFIX + generator.randbytes(4),
        destination_mac=DESTINATION_MAC_PREFIX + generator.randbytes(4),
        vlan=generator.randrange(1, 4095) if generator.random() < _VLAN_SHARE else None,
        is_fragmented=not is_plain and flow.inner is None and generator.random() < _FRAGMENT_SHARE,
    )


def _ip_flow(generator: random.Random, protocol: int) -> Flow:
    version = generator.choice((4, 6))
    source, destination = _address(generator, version), _address(generator, version)
    if protocol == ICMP:
        return Flow(
            source,
            destination,
            protocol=ICMP if version == 4 else ICMPV6,
            icmp_type=8 if version == 4 else 128,
            icmp_id=generator.randrange(1 << 16),
        )
    ports = generator.randrange(1024, 1 << 16), generator.randrange(1, 1 << 16)
    return Flow(source, destination, None, None, *ports, protocol)


def _in_tunnel(generator: random.Random, inner: Flow) -> Flow:
    version = generator.choice((4, 6))
    direct = IPV6_IN_IP if isinstance(inner.source, IPv6Address) else IPV4_IN_IP
    return Flow(
        _address(generator, version),
        _address(generator, version),
        protocol=generator.choice((GRE, direct)),
        inner=inner,
    )


def _address(generator: random.Random, version: int) -> Address:
    """Return a unicast address."""
    if version == 6:
        return IPv6Address(0xFD << 120 | generator.getrandbits(120))
    return IPv4Address(generator.randrange(1 << 24, 224 << 24))
