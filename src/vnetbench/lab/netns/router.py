"""A namespace that routes between the VMs of a pair, each on a port and in a network of its own."""

from __future__ import annotations

import socket

from pyroute2.netlink.rtnl import ifaddrmsg, ndmsg

from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import Device, Testbed, Vm, router_addresses

FORWARDING = {
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    # What it says of better ways to VMs is load of its own.
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
}
"""Settings of its namespace, beside those of a VM's."""


def give_addresses(testbed: Testbed) -> None:
    """Its IPv4 addresses and routes. It knows its neighbours: nobody is asked while frames pass."""
    for port, vm in _ports(testbed):
        _set(port, vm, socket.AF_INET)


def give_ipv6(testbed: Testbed) -> None:
    """The same of IPv6, again where a small MTU took them away."""
    for port, vm in _ports(testbed):
        _set(port, vm, socket.AF_INET6)


def _ports(testbed: Testbed) -> list[tuple[Device, Vm]]:
    return [(testbed.next_hop(vm), vm) for vm in testbed.endpoints]


def _set(port: Device, vm: Vm, family: socket.AddressFamily) -> None:
    """Of one port. Several may have the router's address: it is the routes that tell where a VM is."""
    version, whole = (0, 32) if family == socket.AF_INET else (1, 128)
    side = 1 + "ab".index(vm.side)
    address = (vm.address, vm.address6)[version]
    mac = netlink.mac_of(*vm.device.place)
    with netlink.in_namespace(port.namespace) as ipr:
        index = netlink.index_of(ipr, port.interface)
        ipr.addr(
            "replace", index=index, address=router_addresses(side)[version], prefixlen=whole, family=family,
            **({"flags": ifaddrmsg.IFA_F_NODAD} if version else {}),
        )  # fmt: skip
        ipr.route("replace", dst=f"{address}/{whole}", oif=index, family=family)
        ipr.neigh("replace", dst=address, lladdr=mac, ifindex=index, state=ndmsg.NUD_PERMANENT, family=family)
