"""Random flows: TCP connections between random hosts, with source ports as Linux chooses them."""

from __future__ import annotations

import ipaddress
import random

from vnetbench.teaming.flows import TCP, Flow

SOURCE_PORTS = range(32768, 61000, 2)
"""Linux tries only ports of the parity of `ip_local_port_range`'s lower end first, and 32768 is even.

Source: Linux 6.1, net/ipv4/inet_hashtables.c, __inet_hash_connect. Ports of bind() without connect() are odd.
"""
DESTINATION_PORT = 5201
_SOURCE_NETWORK, _DESTINATION_NETWORK = (int(ipaddress.IPv4Address(a)) for a in ("10.0.0.0", "10.0.1.0"))
_VENDOR = bytes.fromhex("005056")


def draw_flows(count: int, seed: int) -> list[Flow]:
    """Return `count` flows between random hosts of 10.0.0.0/24 and 10.0.1.0/24, to one TCP port.

    A host keeps its MAC address, which is random, in all flows of a call. The same seed gives the same flows.
    """
    generator = random.Random(seed)
    mac_by_host: dict[int, bytes] = {}

    def draw_host(network: int) -> int:
        host = network + generator.randint(1, 254)
        if host not in mac_by_host:
            mac_by_host[host] = _VENDOR + generator.randbytes(3)
        return host

    flows = []
    for _ in range(count):
        source, destination = draw_host(_SOURCE_NETWORK), draw_host(_DESTINATION_NETWORK)
        flows.append(
            Flow(
                ipaddress.IPv4Address(source),
                ipaddress.IPv4Address(destination),
                mac_by_host[source],
                mac_by_host[destination],
                generator.choice(SOURCE_PORTS),
                DESTINATION_PORT,
                TCP,
                vlan=0,
            )
        )
    return flows
