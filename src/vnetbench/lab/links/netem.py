"""netem, the kernel's own delay of what leaves an interface, where the kernel has it: set and read back."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cache

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.links.impairments import Impairments
from vnetbench.lab.netns.topology import Device

NAME = "netem"
ROOT = 0x10000
MOST_PACKETS = 1_000_000
"""That wait at an interface: more than come in the longest delay, since nobody asked for loss."""


@cache
def is_there() -> bool:
    """Whether this kernel has netem: tried once, in a network namespace that is gone at once."""
    return netlink.do_apart(_takes_netem)


def _takes_netem() -> bool:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, socket.NETLINK_ROUTE).detach()
    with IPRoute(fileno=opened) as ipr:
        try:
            ipr.tc("add", NAME, netlink.index_of(ipr, "lo"), ROOT, **settings(0.001))
        except NetlinkError:
            return False
        return True


def settings(delay_s: float) -> dict[str, int]:
    """What the kernel is asked for."""
    return {"delay": round(delay_s * 1e6), "limit": MOST_PACKETS}


@dataclass(frozen=True)
class Netem:
    """That of the interfaces of one link, both ways."""

    devices: tuple[Device, ...]
    name = NAME

    def set(self, asked: Impairments) -> Impairments:
        """See Carrier: delays alone, and of 0 no netem at all."""
        found = {device.label: _delay(device, asked.delay_s) for device in self.devices}
        label, delay_s = next(
            ((label, delay_s) for label, delay_s in found.items() if delay_s != asked.delay_s),
            ("", asked.delay_s),
        )
        if label:
            raise BenchError(
                f"a delay of {asked.delay_s:g} s did not take effect: {delay_s:g} s was read back",
                where=label,
                fix="take whole microseconds",
            )
        return Impairments(delay_s)


def _delay(device: Device, delay_s: float) -> float:
    with netlink.in_namespace(device.namespace) as ipr:
        index = netlink.index_of(ipr, device.interface)
        if delay_s:
            ipr.tc("replace", NAME, index, ROOT, **settings(delay_s))
        elif read_back(ipr, index):
            ipr.tc("del", index=index, root=True)
        return read_back(ipr, index)


def read_back(ipr: IPRoute, index: int) -> float:
    """The delay of an interface in seconds; 0 where it has no netem."""
    for qdisc in ipr.get_qdiscs(index):
        if qdisc.get_attr("TCA_KIND") == NAME:
            # Whole ticks of the packet scheduler's clock.
            ticks = int(qdisc.get_attr("TCA_OPTIONS")["delay"])
            return round(ticks / float(tick_in_usec)) / 1e6
    return 0.0
