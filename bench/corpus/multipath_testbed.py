"""A testbed with two routers and two uplinks between them. A hash selects the uplink of each flow (ECMP)."""

from __future__ import annotations

import socket
from collections.abc import Hashable
from dataclasses import dataclass, fields

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import ndmsg

from vnetbench.lab import netlink
from vnetbench.lab.endpoint import Endpoint, PairSide
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed
from vnetbench.lab.netns.topology import UPLINK, NetDevice, NetnsTopology

UPLINK_PAIRS = 2
HASH_POLICY = "net/ipv4/fib_multipath_hash_policy"
BY_ADDRESSES, BY_PORTS = "0", "1"
_SIDES: tuple[tuple[PairSide, str], ...] = (("a", "10.77.1.0/24"), ("b", "10.77.2.0/24"))
_NEXT_HOP = "10.78.{uplink}.{side}"
"""Format of unused addresses. Permanent neighbour entries map them to the MAC address of the other end."""
_TABLES = {"a": 101, "b": 102}
"""Routing table for the packets from each side's VMs, over the uplinks. The main table routes to the VMs."""
_ONLINK = 4  # RTNH_F_ONLINK, <linux/rtnetlink.h>


@dataclass(frozen=True)
class MultipathTopology(NetnsTopology):
    """A testbed with a router in which the path of each pair may use every uplink."""

    @property
    def rate_limited_devices(self) -> tuple[NetDevice, ...]:
        """The uplinks; see NetnsTopology."""
        return self.uplink_ends

    def next_hop(self, endpoint: Endpoint) -> NetDevice:
        """See NetnsTopology."""
        return self.ports_by_pair[endpoint.pair - 1][0 if endpoint.side == "a" else -1]


class MultipathLab(NetnsLab):
    """Creates testbeds with a router and splits the router into one at each end of the uplinks."""

    def create_testbed(self, name: str, shape: Hashable) -> NetnsTestbed:
        """See Lab."""
        testbed = super().create_testbed(name, shape)
        try:
            testbed.topology = _add_uplinks(testbed.topology)
            _connect_routers(testbed.topology)
        except BaseException:
            testbed.close()
            raise
        return testbed


def _add_uplinks(testbed: NetnsTopology) -> NetnsTopology:
    """Return the topology with its uplinks."""

    def uplink_end(number: int, side: str) -> NetDevice:
        label, leads_to = f"uplink {number} of router {side}", f"router {'b' if side == 'a' else 'a'}"
        return NetDevice(label, testbed.switch_namespace, f"up{number}{side}", UPLINK, leads_to)

    uplinks = tuple(uplink_end(number, side) for number in range(UPLINK_PAIRS) for side in "ab")
    ports = tuple((first, *uplinks, last) for first, last in testbed.ports_by_pair)
    field_values = {field.name: getattr(testbed, field.name) for field in fields(testbed)}
    return MultipathTopology(**{**field_values, "uplink_ends": uplinks, "ports_by_pair": ports})


def _connect_routers(testbed: NetnsTopology) -> None:
    with netlink.open_in_namespace(testbed.switch_namespace) as switch:
        for number in range(UPLINK_PAIRS):
            _create_uplink(switch, f"up{number}a", f"up{number}b")
        for index, (side, _) in enumerate(_SIDES):
            _set_neighbours(switch, testbed, side)
            for end in testbed.endpoints_on_side(side):
                switch.rule(
                    "add",
                    table=_TABLES[side],
                    iifname=testbed.next_hop(end).interface,
                    priority=_TABLES[side],
                )
            remote_network = _SIDES[1 - index][1]
            multipath = _multipath_next_hops(switch, side)
            switch.route("add", dst=remote_network, table=_TABLES[side], multipath=multipath)


def _create_uplink(switch: IPRoute, first: str, second: str) -> None:
    switch.link("add", ifname=first, kind="veth", peer={"ifname": second})
    for interface in (first, second):
        switch.link("set", index=netlink.interface_index(switch, interface), state="up")


def _uplink_interfaces(side: str) -> list[tuple[int, str]]:
    return [(number, f"up{number}{side}") for number in range(UPLINK_PAIRS)]


def _set_neighbours(switch: IPRoute, testbed: NetnsTopology, side: str) -> None:
    other = "b" if side == "a" else "a"
    for number, name in _uplink_interfaces(side):
        mac = netlink.interface_mac(testbed.switch_namespace, f"up{number}{other}")
        switch.neigh(
            "replace", dst=_gateway_address(number, side), lladdr=mac,
            ifindex=netlink.interface_index(switch, name),
            state=ndmsg.NUD_PERMANENT, family=socket.AF_INET,
        )  # fmt: skip


def _multipath_next_hops(switch: IPRoute, side: str) -> list[dict[str, object]]:
    return [
        {
            "gateway": _gateway_address(number, side),
            "oif": netlink.interface_index(switch, name),
            "flags": _ONLINK,
            "hops": 0,
        }
        for number, name in _uplink_interfaces(side)
    ]


def _gateway_address(number: int, side: str) -> str:
    return _NEXT_HOP.format(uplink=number, side=1 + "ab".index(side))
