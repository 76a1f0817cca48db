"""One end of a disrupted link: an open netlink socket in its namespace, its state, and its queue."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyroute2 import IPRoute

from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import NetDevice, NetnsTopology

ROOT_PARENT = 0xFFFFFFFF
"""Parent of a root queueing discipline: TC_H_ROOT of <linux/pkt_sched.h>."""
DROP_HANDLE = 0x10000
DROP_DISCIPLINE = "blackhole"
"""Queueing discipline that drops every packet and counts it; each kernel with tc has it, without a module."""
DEFAULT_DISCIPLINE = "noqueue"
"""Queueing discipline of a virtual interface that nobody configured."""


@dataclass(frozen=True)
class LinkState:
    """The state of an interface, as the kernel reports it."""

    is_up: bool
    """Whether it is set up and has a carrier."""
    carrier_changes: int
    bridge_port_state: int | None
    """BR_STATE_* of <linux/if_bridge.h>; None if it is no port of a bridge."""


class LinkEnd:
    """One end of a link, with a netlink socket that stays open, so that a change takes one system call."""

    def __init__(self, device: NetDevice) -> None:
        self.device = device
        self._stack = ExitStack()
        self._ipr: IPRoute | None = None
        self._index = 0

    def open(self) -> None:
        """Open the socket; raises BenchError if the interface does not exist."""
        self._ipr = self._stack.enter_context(netlink.open_in_namespace(self.device.namespace))
        self._index = netlink.interface_index(self._ipr, self.device.interface)

    def close(self) -> None:
        """Close the socket."""
        self._ipr = None
        self._stack.close()

    @property
    def is_open(self) -> bool:
        """Whether the socket is open."""
        return self._ipr is not None

    @property
    def ipr(self) -> IPRoute:
        """The open socket."""
        assert self._ipr is not None
        return self._ipr

    def set_up(self, *, is_up: bool) -> None:
        """Set the interface up or down."""
        with netlink.translate_netlink_errors(self.device.display_name):
            self.ipr.link("set", index=self._index, state="up" if is_up else "down")

    def read_state(self) -> LinkState:
        """Return the current state."""
        with netlink.translate_netlink_errors(self.device.display_name):
            (link,) = self.ipr.get_links(self._index)
        port_state = netlink.nested_attribute(
            link, "IFLA_LINKINFO", "IFLA_INFO_SLAVE_DATA", "IFLA_BRPORT_STATE"
        )
        return LinkState(
            link["state"] == "up" and bool(link.get_attr("IFLA_CARRIER")),
            int(link.get_attr("IFLA_CARRIER_CHANGES") or 0),
            None if port_state is None else int(port_state),
        )

    def start_dropping(self) -> None:
        """Drop every packet that leaves here."""
        with netlink.translate_netlink_errors(self.device.display_name):
            self.ipr.tc("add", DROP_DISCIPLINE, self._index, DROP_HANDLE, parent=ROOT_PARENT)

    def stop_dropping(self) -> None:
        """Restore the default queueing discipline."""
        with netlink.translate_netlink_errors(self.device.display_name):
            self.ipr.tc("del", index=self._index, handle=DROP_HANDLE, parent=ROOT_PARENT)

    def read_discipline(self) -> str:
        """Return the name of the root queueing discipline."""
        root = self._read_root()
        return DEFAULT_DISCIPLINE if root is None else str(root.get_attr("TCA_KIND"))

    def count_sent_packets(self) -> int:
        """Return the packets that this interface has sent."""
        with netlink.translate_netlink_errors(self.device.display_name):
            (link,) = self.ipr.get_links(self._index)
        return int(link.get_attr("IFLA_STATS64")["tx_packets"])

    def count_drops(self) -> int:
        """Return the packets that `start_dropping` has dropped; 0 unless it is in force."""
        root = self._read_root()
        if root is None or root.get_attr("TCA_KIND") != DROP_DISCIPLINE:
            return 0
        return int(root.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["drops"])

    def _read_root(self) -> Any:
        with netlink.translate_netlink_errors(self.device.display_name):
            disciplines = self.ipr.get_qdiscs(index=self._index)
        return next((each for each in disciplines if each["parent"] == ROOT_PARENT), None)


def disrupted_link_ends(topology: NetnsTopology) -> tuple[LinkEnd, LinkEnd]:
    """Return both ends of the link that an event disrupts, on the switch's side first.

    It is the uplink between two virtual switches if there is one, else the link to the second VM.
    """
    if topology.uplink_ends:
        first, last = topology.uplink_ends
        return LinkEnd(first), LinkEnd(last)
    (b,) = topology.endpoints_on_side("b")
    return LinkEnd(topology.ports_by_pair[0][-1]), LinkEnd(b.device)
