"""netem, the kernel's delay of packets that leave an interface: set and read back."""

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
from vnetbench.lab.netns.topology import NetDevice

BACKEND_NAME = "netem"
ROOT_HANDLE = 0x10000
QUEUE_LIMIT_PACKETS = 1_000_000
"""Queue limit of an interface: more than arrives during the longest delay, so that netem never drops."""


@cache
def is_available() -> bool:
    """Whether this kernel has netem; tried once, in a temporary network namespace."""
    return netlink.run_in_new_namespace(_can_add_netem)


def _can_add_netem() -> bool:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, socket.NETLINK_ROUTE).detach()
    with IPRoute(fileno=opened) as ipr:
        try:
            ipr.tc(
                "add", BACKEND_NAME, netlink.interface_index(ipr, "lo"), ROOT_HANDLE, **netem_options(0.001)
            )
        except NetlinkError:
            return False
        return True


def netem_options(delay_s: float) -> dict[str, int]:
    """Return the netem parameters for a delay."""
    return {"delay": round(delay_s * 1e6), "limit": QUEUE_LIMIT_PACKETS}


@dataclass(frozen=True)
class Netem:
    """netem on the interfaces of one link, in both directions."""

    devices: tuple[NetDevice, ...]
    name = BACKEND_NAME

    def set_impairments(self, impairments: Impairments) -> Impairments:
        """Set the delay, and remove netem for a delay of 0; return what was read back."""
        read_back = {device.display_name: _set_delay(device, impairments.delay_s) for device in self.devices}
        label, delay_s = next(
            ((label, delay_s) for label, delay_s in read_back.items() if delay_s != impairments.delay_s),
            ("", impairments.delay_s),
        )
        if label:
            raise BenchError(
                f"a delay of {impairments.delay_s:g} s did not take effect: {delay_s:g} s was read back",
                where=label,
                fix="use whole microseconds",
            )
        return Impairments(delay_s)


def _set_delay(device: NetDevice, delay_s: float) -> float:
    with netlink.open_in_namespace(device.namespace) as ipr:
        index = netlink.interface_index(ipr, device.interface)
        if delay_s:
            ipr.tc("replace", BACKEND_NAME, index, ROOT_HANDLE, **netem_options(delay_s))
        elif read_delay_s(ipr, index):
            ipr.tc("del", index=index, root=True)
        return read_delay_s(ipr, index)


def read_delay_s(ipr: IPRoute, index: int) -> float:
    """Return the delay of an interface in seconds; 0 without netem."""
    for qdisc in ipr.get_qdiscs(index):
        if qdisc.get_attr("TCA_KIND") == BACKEND_NAME:
            # In whole ticks of the packet scheduler's clock.
            ticks = int(qdisc.get_attr("TCA_OPTIONS")["delay"])
            return round(ticks / float(tick_in_usec)) / 1e6
    return 0.0
