"""The lab `netns`: namespaces as VMs, and what joins them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import ifaddrmsg

from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links import delay_line
from vnetbench.lab.netns import open_vswitch, router
from vnetbench.lab.netns.topology import (
    BRIDGE,
    DIRECT,
    MACVLAN,
    OPEN_VSWITCH,
    ROUTER,
    Network,
    Testbed,
    Vm,
)
from vnetbench.study.factors.testbed_factors import LEAST_MTU6

SYSCTLS = {
    # What TCP learned of a path in one trial must not start the next one: trials are independent.
    "net/ipv4/tcp_no_metrics_save": "1",
}
NO_IPV6 = {"net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"}
"""Of the virtual switches, which have no addresses: what they would say in IPv6 is load of our own making."""
QUIET_IPV6 = {
    "net/ipv6/conf/all/disable_ipv6": "0",
    "net/ipv6/conf/default/disable_ipv6": "0",
    # No link-local address (IN6_ADDR_GEN_MODE_NONE), no looking for routers: only what the lab gives.
    "net/ipv6/conf/default/addr_gen_mode": "1",
    "net/ipv6/conf/default/router_solicitations": "0",
    "net/ipv6/conf/default/accept_ra": "0",
}
"""Of the VMs: an interface takes the defaults when it comes into the namespace."""


def build(testbed: Testbed, start_lines: Callable[[], None] = lambda: None) -> None:
    """Make namespaces, links and virtual switches; raises BenchError when the kernel refuses.

    `start_lines` makes the delay lines, where the testbed has any, when there is a namespace for them.
    """
    for endpoint in testbed.endpoints:
        add_namespace(endpoint.namespace)
    vswitch = testbed.shape.vswitch
    if testbed.has_switch_namespace:
        is_router = vswitch == ROUTER
        add_namespace(testbed.switch_namespace, {**QUIET_IPV6, **router.FORWARDING} if is_router else NO_IPV6)
    if testbed.lines:
        start_lines()
        delay_line.place_ends(testbed.switch_namespace, testbed.lines)
    if vswitch != DIRECT:
        with netlink.in_namespace(testbed.switch_namespace) as switch:
            _JOIN[vswitch](testbed, switch)
    elif not testbed.lines:
        _join_directly(testbed)
    for endpoint in testbed.endpoints:
        give_addresses(endpoint)
    if vswitch == ROUTER:
        router.give_addresses(testbed)
        if netlink.do_inside(testbed.switch_namespace, _has_ipv6):
            router.give_ipv6(testbed)


def add_namespace(name: str, settings: Mapping[str, str] = QUIET_IPV6) -> None:
    """A new namespace: a VM, unless its `settings` (sysctl) make it something else."""
    netlink.make_namespace(name)
    netlink.do_inside(name, partial(_set_sysctls, {**SYSCTLS, **settings}))
    with netlink.in_namespace(name) as ipr:
        _set_up(ipr, "lo")


def give_addresses(endpoint: Vm) -> None:
    """Set a VM's vNIC up, with its addresses and the routes over its gateways."""
    with netlink.in_namespace(endpoint.namespace) as ipr:
        index = netlink.index_of(ipr, endpoint.interface)
        ipr.addr("add", index=index, address=endpoint.address, prefixlen=endpoint.prefix_length)
        _set_up(ipr, endpoint.interface)
        for gateway in endpoint.gateways[:1]:
            ipr.route("add", dst="default", gateway=gateway)
    if netlink.do_inside(endpoint.namespace, _has_ipv6):
        _give_ipv6(endpoint)


def restore_ipv6(endpoints: Iterable[Vm]) -> None:
    """Give the VMs their IPv6 addresses again, where a small MTU took them away.

    Raises TreatmentRefused where the kernel has no IPv6.
    """
    for endpoint in endpoints:
        if not netlink.do_inside(endpoint.namespace, _has_ipv6):
            raise TreatmentRefused(
                "ip_version = 6: this kernel has no IPv6",
                where=endpoint.name,
                fix="start it without ipv6.disable=1 (or modprobe ipv6), or take ip_version = 4",
            )
        mtu = netlink.mtu_of(endpoint.namespace, endpoint.interface)
        if mtu < LEAST_MTU6:
            raise TreatmentRefused(
                f"ip_version = 6: an interface with an MTU of {mtu} carries no IPv6",
                where=endpoint.device.label,
                fix=f"choose an MTU of {LEAST_MTU6} at least",
            )
        _give_ipv6(endpoint)


def _give_ipv6(endpoint: Vm) -> None:
    with netlink.in_namespace(endpoint.namespace) as ipr:
        ipr.addr(
            "replace",
            index=netlink.index_of(ipr, endpoint.interface),
            address=endpoint.address6,
            prefixlen=endpoint.prefix6_length,
            # Nobody else has it, and without this it could not be used for a second.
            flags=ifaddrmsg.IFA_F_NODAD,
        )
        for gateway in endpoint.gateways[1:]:
            ipr.route("replace", dst="default", gateway=gateway, family=socket.AF_INET6)


def _has_ipv6() -> bool:
    return Path("/proc/sys/net/ipv6").exists()


def set_network_mtu(network: Network, mtu: int, *, only_raise: bool = False) -> None:
    """Set the MTU of all that is between the vNICs: ports, uplinks, parents.

    With `only_raise` none is lowered.
    """
    if not any(network.ports):
        return
    with netlink.in_namespace(network.switch_namespace) as ipr:
        for link in ipr.get_links():
            name, found = link.get_attr("IFLA_IFNAME"), int(link.get_attr("IFLA_MTU"))
            # A bridge takes the smallest MTU of its ports by itself, until it is set by hand.
            if name == "lo" or name in network.vswitches or found == mtu or (only_raise and found > mtu):
                continue
            ipr.link("set", index=link["index"], mtu=mtu)


def network_mtu(network: Network) -> int | None:
    """The smallest MTU between the vNICs, None where there is nothing between them."""
    devices = {d for ports in network.ports for d in ports}
    return min((netlink.mtu_of(d.namespace, d.interface) for d in devices), default=None)


def _join_directly(testbed: Testbed) -> None:
    for a, b in zip(testbed.side("a"), testbed.side("b"), strict=True):
        with netlink.in_namespace(a.namespace) as ipr:
            ipr.link(
                "add",
                ifname=a.interface,
                kind="veth",
                peer={"ifname": b.interface, "net_ns_fd": b.namespace},
            )


def _join_by_bridges(testbed: Testbed, switch: IPRoute) -> None:
    bridges = add_bridges(switch, testbed.vswitches)
    if testbed.uplinks:
        add_uplink(switch, testbed, bridges)
    for endpoint in testbed.endpoints:
        add_vm_port(switch, endpoint, bridges[_vswitch(testbed, endpoint)])


def add_bridges(switch: IPRoute, names: Iterable[str]) -> dict[str, int]:
    """Virtual switches in a namespace; the index of each."""
    for name in names:
        switch.link(
            "add", ifname=name, kind="bridge", br_forward_delay=0, br_stp_state=0, br_mcast_snooping=0
        )
    return {name: _set_up(switch, name) for name in names}


def add_uplink(switch: IPRoute, network: Network, bridges: Mapping[str, int]) -> None:
    """Join two virtual switches."""
    add_link(switch, network)
    for device, bridge in zip(network.uplinks, bridges.values(), strict=True):
        plug_in(switch, device.interface, bridge)


def add_link(switch: IPRoute, network: Network) -> None:
    """The link between its virtual switches, both ends up; a delay line is one already."""
    first, second = (d.interface for d in network.uplinks)
    if not network.lines:
        switch.link("add", ifname=first, kind="veth", peer={"ifname": second})
    for interface in (first, second):
        _set_up(switch, interface)


def add_vm_port(switch: IPRoute, endpoint: Vm, bridge: int) -> None:
    """A VM's vNIC and the port of the virtual switch that leads to it."""
    add_vm_link(switch, endpoint)
    plug_in(switch, endpoint.name, bridge)


def add_vm_link(switch: IPRoute, endpoint: Vm) -> None:
    """A VM's vNIC and the interface that leads to it, named as the VM."""
    switch.link(
        "add",
        ifname=endpoint.name,
        kind="veth",
        peer={"ifname": endpoint.interface, "net_ns_fd": endpoint.namespace},
    )
    _set_up(switch, endpoint.name)


def plug_in(switch: IPRoute, interface: str, bridge: int) -> None:
    """Make an interface a port of a virtual switch."""
    switch.link("set", index=_set_up(switch, interface), master=bridge)


def _join_by_router(testbed: Testbed, switch: IPRoute) -> None:
    of_lines = {device for ends in testbed.lines for device in ends.devices}
    for endpoint in testbed.endpoints:
        if endpoint.device not in of_lines:
            add_vm_link(switch, endpoint)


def _join_by_open_vswitch(testbed: Testbed, switch: IPRoute) -> None:
    for endpoint in testbed.endpoints:
        add_vm_link(switch, endpoint)
    if testbed.uplinks:
        add_link(switch, testbed)
    open_vswitch.start(testbed)


def _join_by_macvlan(testbed: Testbed, switch: IPRoute) -> None:
    if testbed.uplinks:
        add_link(switch, testbed)
        first, second = (d.interface for d in testbed.uplinks)
        parents = {"sw0": first, "sw1": second}
    else:
        # A parent that leads nowhere: macvlan's bridge mode switches between its own children.
        switch.link("add", ifname="low0", kind="veth", peer={"ifname": "low1"})
        for interface in ("low0", "low1"):
            _set_up(switch, interface)
        parents = {"sw0": "low0"}
    for endpoint in testbed.endpoints:
        parent = netlink.index_of(switch, parents[_vswitch(testbed, endpoint)])
        switch.link("add", ifname=endpoint.name, kind="macvlan", link=parent, macvlan_mode="bridge")
        index = netlink.index_of(switch, endpoint.name)
        switch.link("set", index=index, net_ns_fd=endpoint.namespace, ifname=endpoint.interface)


_JOIN: Mapping[str, Callable[[Testbed, IPRoute], None]] = {
    BRIDGE: _join_by_bridges,
    MACVLAN: _join_by_macvlan,
    ROUTER: _join_by_router,
    OPEN_VSWITCH: _join_by_open_vswitch,
}


def _vswitch(testbed: Testbed, endpoint: Vm) -> str:
    return testbed.vswitches[-1] if endpoint.side == "b" else testbed.vswitches[0]


def _set_up(ipr: IPRoute, interface: str) -> int:
    index = netlink.index_of(ipr, interface)
    ipr.link("set", index=index, state="up")
    return index


def _set_sysctls(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        path = Path("/proc/sys") / name
        if path.exists():  # a kernel without IPv6 has none of its files
            path.write_text(value)
