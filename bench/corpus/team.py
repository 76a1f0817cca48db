"""A testbed whose two routers are joined by a team of two uplinks: each flow takes one of them, by a hash."""

from __future__ import annotations

import socket
from collections.abc import Hashable
from dataclasses import dataclass, fields

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import ndmsg

from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import UPLINK, NetDevice, NetnsTopology
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.netns.testbed import NetnsTestbed, NetnsLab

UPLINKS = 2
HASH_POLICY = "net/ipv4/fib_multipath_hash_policy"
BY_ADDRESSES, BY_PORTS = "0", "1"
_SIDES = (("a", "10.77.1.0/24"), ("b", "10.77.2.0/24"))
_NEXT_HOP = "10.78.{uplink}.{side}"
"""Nobody has these: they stand for the other end's MAC address, as the neighbours of the ends."""
_TABLES = {"a": 101, "b": 102}
"""What comes from a side's VMs is routed by a table of its own, over the uplinks; all else to the VMs."""
_ONLINK = 4  # RTNH_F_ONLINK, <linux/rtnetlink.h>


@dataclass(frozen=True)
class Team(NetnsTopology):
    """A testbed with a router, of which each pair's way crosses all uplinks."""

    @property
    def shaped_devices(self) -> tuple[NetDevice, ...]:
        """See Testbed: its uplinks."""
        return self.uplinks

    def next_hop(self, endpoint: Endpoint) -> NetDevice:
        """See Testbed."""
        return self.ports[endpoint.pair - 1][0 if endpoint.side == "a" else -1]


class TeamLab(NetnsLab):
    """Testbeds with a router, which is made into two: one on either side of the uplinks."""

    def create_testbed(self, name: str, shape: Hashable) -> NetnsTestbed:
        """See Lab."""
        bed = super().create_testbed(name, shape)
        try:
            bed.topology = _teamed(bed.topology)
            _join(bed.topology)
        except BaseException:
            bed.close()
            raise
        return bed


def _teamed(testbed: NetnsTopology) -> NetnsTopology:
    """The testbed with its uplinks described."""

    def end(number: int, side: str) -> NetDevice:
        label, leads_to = f"uplink {number} of router {side}", f"router {'b' if side == 'a' else 'a'}"
        return NetDevice(label, testbed.switch_namespace, f"up{number}{side}", UPLINK, leads_to)

    uplinks = tuple(end(number, side) for number in range(UPLINKS) for side in "ab")
    ports = tuple((first, *uplinks, last) for first, last in testbed.ports)
    asked = {field.name: getattr(testbed, field.name) for field in fields(testbed)}
    return Team(**{**asked, "uplinks": uplinks, "ports": ports})


def _join(testbed: NetnsTopology) -> None:
    with netlink.open_in_namespace(testbed.switch_namespace) as switch:
        for number in range(UPLINKS):
            _add_uplink(switch, f"up{number}a", f"up{number}b")
        for place, (side, _) in enumerate(_SIDES):
            _set_neighbours(switch, testbed, side)
            for end in testbed.endpoints_on_side(side):
                switch.rule(
                    "add",
                    table=_TABLES[side],
                    iifname=testbed.next_hop(end).interface,
                    priority=_TABLES[side],
                )
            far_network = _SIDES[1 - place][1]
            switch.route("add", dst=far_network, table=_TABLES[side], multipath=_ways(switch, side))


def _add_uplink(switch: IPRoute, first: str, second: str) -> None:
    switch.link("add", ifname=first, kind="veth", peer={"ifname": second})
    for interface in (first, second):
        switch.link("set", index=netlink.interface_index(switch, interface), state="up")


def _ends(side: str) -> list[tuple[int, str]]:
    return [(number, f"up{number}{side}") for number in range(UPLINKS)]


def _set_neighbours(switch: IPRoute, testbed: NetnsTopology, side: str) -> None:
    other = "b" if side == "a" else "a"
    for number, name in _ends(side):
        mac = netlink.interface_mac(testbed.switch_namespace, f"up{number}{other}")
        switch.neigh(
            "replace", dst=_gateway(number, side), lladdr=mac, ifindex=netlink.interface_index(switch, name),
            state=ndmsg.NUD_PERMANENT, family=socket.AF_INET,
        )  # fmt: skip


def _ways(switch: IPRoute, side: str) -> list[dict[str, object]]:
    return [
        {
            "gateway": _gateway(number, side),
            "oif": netlink.interface_index(switch, name),
            "flags": _ONLINK,
            "hops": 0,
        }
        for number, name in _ends(side)
    ]


def _gateway(number: int, side: str) -> str:
    return _NEXT_HOP.format(uplink=number, side=1 + "ab".index(side))
