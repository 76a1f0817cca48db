"""Configures a namespace that routes between the VMs of a pair, each in its own network."""

from __future__ import annotations

import socket

from pyroute2.netlink.rtnl import ifaddrmsg, ndmsg

from vnetbench.lab import netlink
from vnetbench.lab.endpoint import SIDES
from vnetbench.lab.netns.topology import NetDevice, NetnsTopology, Vm, router_addresses

FORWARDING_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    # ICMP redirects would be load of the router's own.
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
}
"""Sysctls of the router's namespace, in addition to those of a VM."""


def assign_addresses(topology: NetnsTopology) -> None:
    """Assign the router's IPv4 addresses, routes and permanent neighbours, so that it sends no requests."""
    for port, vm in _ports_with_vms(topology):
        _configure_port(port, vm, socket.AF_INET)


def assign_ipv6(topology: NetnsTopology) -> None:
    """Assign the same for IPv6, also after a small MTU has removed it."""
    for port, vm in _ports_with_vms(topology):
        _configure_port(port, vm, socket.AF_INET6)


def _ports_with_vms(topology: NetnsTopology) -> list[tuple[NetDevice, Vm]]:
    return [(topology.next_hop(vm), vm) for vm in topology.endpoints]


def _configure_port(port: NetDevice, vm: Vm, family: socket.AddressFamily) -> None:
    """Configure one port. Several ports may share the router's address, since routes locate the VMs."""
    index_of_version, host_prefix = (0, 32) if family == socket.AF_INET else (1, 128)
    side = 1 + SIDES.index(vm.side)
    address = (vm.address, vm.ipv6_address)[index_of_version]
    mac = netlink.interface_mac(*vm.device.location)
    with netlink.open_in_namespace(port.namespace) as ipr:
        index = netlink.interface_index(ipr, port.interface)
        ipr.addr(
            "replace",
            index=index,
            address=router_addresses(side)[index_of_version],
            prefixlen=host_prefix,
            family=family,
            **({"flags": ifaddrmsg.IFA_F_NODAD} if family == socket.AF_INET6 else {}),
        )
        ipr.route("replace", dst=f"{address}/{host_prefix}", oif=index, family=family)
        ipr.neigh("replace", dst=address, lladdr=mac, ifindex=index, state=ndmsg.NUD_PERMANENT, family=family)
