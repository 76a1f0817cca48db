"""Builds the network of the lab `netns`: namespaces as VMs, and the links and switches between them."""

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
    NetnsTopology,
    SwitchNetwork,
    TeamLinks,
    Vm,
    team_port,
)
from vnetbench.study.factors.testbed_factors import MIN_IPV6_MTU

COMMON_SYSCTLS = {
    # Trials are independent: what TCP learned of a path in one must not affect the next.
    "net/ipv4/tcp_no_metrics_save": "1",
}
NO_IPV6_SYSCTLS = {"net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"}
"""Sysctls of virtual switches, which have no addresses and would only add IPv6 traffic of their own."""
VM_IPV6_SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "0",
    "net/ipv6/conf/default/disable_ipv6": "0",
    # No link-local address (IN6_ADDR_GEN_MODE_NONE) and no router discovery: only the lab's addresses.
    "net/ipv6/conf/default/addr_gen_mode": "1",
    "net/ipv6/conf/default/router_solicitations": "0",
    "net/ipv6/conf/default/accept_ra": "0",
}
"""Sysctls of VMs. An interface takes the defaults when it enters the namespace."""


def build_network(topology: NetnsTopology, start_delay_lines: Callable[[], None] = lambda: None) -> None:
    """Create namespaces, links and virtual switches.

    Args:
        topology: What to build.
        start_delay_lines: Starts the delay lines, if there are any, as soon as the switch namespace exists.

    Raises:
        BenchError: if the kernel refuses.
    """
    for vm in topology.endpoints:
        add_namespace(vm.namespace)
    vswitch = topology.shape.vswitch
    if topology.has_switch_namespace:
        is_router = vswitch == ROUTER
        add_namespace(
            topology.switch_namespace,
            {**VM_IPV6_SYSCTLS, **router.FORWARDING_SYSCTLS} if is_router else NO_IPV6_SYSCTLS,
        )
    if topology.delay_lines:
        start_delay_lines()
        delay_line.move_taps_to_device_namespaces(topology.switch_namespace, topology.delay_lines)
    if vswitch != DIRECT:
        with netlink.open_in_namespace(topology.switch_namespace) as switch:
            _CONNECT_BY_VSWITCH[vswitch](topology, switch)
    elif not topology.delay_lines:
        _connect_directly(topology)
    for vm in topology.endpoints:
        configure_vm_network(vm)
    if vswitch == ROUTER:
        router.assign_addresses(topology)
        if netlink.run_in_namespace(topology.switch_namespace, _kernel_has_ipv6):
            router.assign_ipv6(topology)


def add_namespace(name: str, settings: Mapping[str, str] = VM_IPV6_SYSCTLS) -> None:
    """Create a namespace with these sysctls in addition to the common ones; the default is a VM."""
    netlink.create_namespace(name)
    netlink.run_in_namespace(name, partial(_set_sysctls, {**COMMON_SYSCTLS, **settings}))
    with netlink.open_in_namespace(name) as ipr:
        _set_link_up(ipr, "lo")


def configure_vm_network(vm: Vm) -> None:
    """Set a VM's vNIC up and assign its addresses and default routes."""
    with netlink.open_in_namespace(vm.namespace) as ipr:
        index = netlink.interface_index(ipr, vm.interface)
        ipr.addr("add", index=index, address=vm.address, prefixlen=vm.prefix_length)
        _set_link_up(ipr, vm.interface)
        for gateway in vm.gateways[:1]:
            ipr.route("add", dst="default", gateway=gateway)
    if netlink.run_in_namespace(vm.namespace, _kernel_has_ipv6):
        _assign_ipv6_address_and_route(vm)


def restore_ipv6_addresses_and_routes(vms: Iterable[Vm]) -> None:
    """Assign the VMs' IPv6 addresses again, which a small MTU removes.

    Raises:
        TreatmentRefused: if the kernel has no IPv6, or the MTU is too small for it.
    """
    for vm in vms:
        if not netlink.run_in_namespace(vm.namespace, _kernel_has_ipv6):
            raise TreatmentRefused(
                "ip_version = 6: this kernel has no IPv6",
                where=vm.name,
                fix="boot it without ipv6.disable=1 (or modprobe ipv6), or write ip_version = 4",
            )
        mtu = netlink.interface_mtu(vm.namespace, vm.interface)
        if mtu < MIN_IPV6_MTU:
            raise TreatmentRefused(
                f"ip_version = 6: an interface with an MTU of {mtu} cannot carry IPv6",
                where=vm.device.display_name,
                fix=f"choose an MTU of at least {MIN_IPV6_MTU}",
            )
        _assign_ipv6_address_and_route(vm)


def _assign_ipv6_address_and_route(vm: Vm) -> None:
    with netlink.open_in_namespace(vm.namespace) as ipr:
        ipr.addr(
            "replace",
            index=netlink.interface_index(ipr, vm.interface),
            address=vm.ipv6_address,
            prefixlen=vm.ipv6_prefix_length,
            # Skip duplicate address detection, which would delay the address by a second.
            flags=ifaddrmsg.IFA_F_NODAD,
        )
        for gateway in vm.gateways[1:]:
            ipr.route("replace", dst="default", gateway=gateway, family=socket.AF_INET6)


def _kernel_has_ipv6() -> bool:
    return Path("/proc/sys/net/ipv6").exists()


def set_network_mtu(network: SwitchNetwork, mtu: int, *, only_raise: bool = False) -> None:
    """Set the MTU of everything between the vNICs: ports, uplinks, parents.

    With `only_raise`, larger MTUs stay.
    """
    if not any(network.ports_by_pair):
        return
    wrong = [
        link.ifindex
        for name, link in netlink.read_link_mtus(network.switch_namespace).items()
        # A bridge follows the smallest MTU of its ports unless it is set explicitly.
        if name != "lo"
        and name not in network.vswitches
        and (link.mtu < mtu or (link.mtu > mtu and not only_raise))
    ]
    if wrong:
        with netlink.open_in_namespace(network.switch_namespace) as ipr:
            for index in wrong:
                ipr.link("set", index=index, mtu=mtu)


def read_smallest_mtu_between_vnics(network: SwitchNetwork) -> int | None:
    """Return the smallest MTU between the vNICs; None if there is nothing between them."""
    devices = {d for ports in network.ports_by_pair for d in ports}
    links = {namespace: netlink.read_link_mtus(namespace) for namespace in {d.namespace for d in devices}}
    if missing := [d.interface for d in devices if d.interface not in links[d.namespace]]:
        raise netlink.missing_interface_error(missing[0])
    return min((links[d.namespace][d.interface].mtu for d in devices), default=None)


def _connect_directly(topology: NetnsTopology) -> None:
    for a, b in zip(topology.endpoints_on_side("a"), topology.endpoints_on_side("b"), strict=True):
        with netlink.open_in_namespace(a.namespace) as ipr:
            ipr.link(
                "add",
                ifname=a.interface,
                kind="veth",
                peer={"ifname": b.interface, "net_ns_fd": b.namespace},
            )


def _connect_with_bridges(topology: NetnsTopology, switch: IPRoute) -> None:
    bridges = add_bridges(switch, topology.vswitches)
    if topology.uplink_ends:
        add_uplink_between_bridges(switch, topology, bridges)
    if topology.team is not None:
        add_team_links(switch, topology.team)
        for name, bridge in bridges.items():
            add_team_port(switch, name, bridge)
    for vm in topology.endpoints:
        add_vm_port(switch, vm, bridges[_vswitch_for(topology, vm)])


def add_bridges(switch: IPRoute, names: Iterable[str]) -> dict[str, int]:
    """Add bridges to a namespace and return the index of each."""
    for name in names:
        switch.link(
            "add", ifname=name, kind="bridge", br_forward_delay=0, br_stp_state=0, br_mcast_snooping=0
        )
    return {name: _set_link_up(switch, name) for name in names}


def add_uplink_between_bridges(switch: IPRoute, network: SwitchNetwork, bridges: Mapping[str, int]) -> None:
    """Add the uplink between two bridges."""
    add_switch_link(switch, network)
    for device, bridge in zip(network.uplink_ends, bridges.values(), strict=True):
        attach_port(switch, device.interface, bridge)


def add_switch_link(switch: IPRoute, network: SwitchNetwork) -> None:
    """Add the link between two virtual switches, unless it is a delay line, and set both ends up."""
    first, second = (d.interface for d in network.uplink_ends)
    if not network.delay_lines:
        add_veth(switch, first, second)
        return
    for interface in (first, second):
        _set_link_up(switch, interface)


def add_veth(ipr: IPRoute, first: str, second: str) -> None:
    """Add a veth pair to a namespace, and set both ends up."""
    ipr.link("add", ifname=first, kind="veth", peer={"ifname": second})
    for interface in (first, second):
        _set_link_up(ipr, interface)


def add_team_links(switch: IPRoute, team: TeamLinks) -> None:
    """Add the links of a team, and set both ends of each up."""
    for near, far in zip(team.near, team.far, strict=True):
        add_veth(switch, near.interface, far.interface)


def add_team_port(switch: IPRoute, vswitch: str, bridge: int) -> None:
    """Add the port of a bridge at which the agent runs a team. Its peer only gives it a link."""
    port = team_port(vswitch)
    add_veth(switch, port, f"{port}-peer")
    attach_port(switch, port, bridge)


def add_vm_port(switch: IPRoute, vm: Vm, bridge: int) -> None:
    """Add a VM's vNIC and its port of the bridge."""
    add_vm_link(switch, vm)
    attach_port(switch, vm.name, bridge)


def add_vm_link(switch: IPRoute, vm: Vm) -> None:
    """Add a VM's vNIC and the interface that leads to it, which has the VM's name."""
    switch.link(
        "add",
        ifname=vm.name,
        kind="veth",
        peer={"ifname": vm.interface, "net_ns_fd": vm.namespace},
    )
    _set_link_up(switch, vm.name)


def attach_port(switch: IPRoute, interface: str, bridge: int) -> None:
    """Make an interface a port of a bridge."""
    switch.link("set", index=_set_link_up(switch, interface), master=bridge)


def _connect_with_router(topology: NetnsTopology, switch: IPRoute) -> None:
    line_devices = {device for ends in topology.delay_lines for device in ends.devices}
    for vm in topology.endpoints:
        if vm.device not in line_devices:
            add_vm_link(switch, vm)


def _connect_with_open_vswitch(topology: NetnsTopology, switch: IPRoute) -> None:
    for vm in topology.endpoints:
        add_vm_link(switch, vm)
    if topology.uplink_ends:
        add_switch_link(switch, topology)
    if topology.team is not None:
        add_team_links(switch, topology.team)
    open_vswitch.start_switch(topology)


def _connect_with_macvlan(topology: NetnsTopology, switch: IPRoute) -> None:
    if topology.uplink_ends:
        add_switch_link(switch, topology)
        first, second = (d.interface for d in topology.uplink_ends)
        parents = {"sw0": first, "sw1": second}
    else:
        # The parent leads nowhere: macvlan's bridge mode switches between the children.
        add_veth(switch, "low0", "low1")
        parents = {"sw0": "low0"}
    for vm in topology.endpoints:
        parent = netlink.interface_index(switch, parents[_vswitch_for(topology, vm)])
        switch.link("add", ifname=vm.name, kind="macvlan", link=parent, macvlan_mode="bridge")
        index = netlink.interface_index(switch, vm.name)
        switch.link("set", index=index, net_ns_fd=vm.namespace, ifname=vm.interface)


_CONNECT_BY_VSWITCH: Mapping[str, Callable[[NetnsTopology, IPRoute], None]] = {
    BRIDGE: _connect_with_bridges,
    MACVLAN: _connect_with_macvlan,
    ROUTER: _connect_with_router,
    OPEN_VSWITCH: _connect_with_open_vswitch,
}


def _vswitch_for(topology: NetnsTopology, vm: Vm) -> str:
    return topology.vswitches[-1] if vm.side == "b" else topology.vswitches[0]


def _set_link_up(ipr: IPRoute, interface: str) -> int:
    index = netlink.interface_index(ipr, interface)
    ipr.link("set", index=index, state="up")
    return index


def _set_sysctls(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        path = Path("/proc/sys") / name
        if path.exists():  # A kernel without IPv6 has none of its files.
            path.write_text(value)
